import json

import pytest

from rankmixup import Optimisation, Run
from rankmixup.data import Digits
from rankmixup.errors import InvalidInput
from rankmixup.methods import Method, RankMixupMRL
from tests.oracles import unchecked


def test_names_and_objects_are_the_same_run():
    assert Run("ce") == Run(Method.registry["ce"](), data=Digits())
    assert Run(RankMixupMRL(margin=2)).id == Run("rankmixup-mrl").id


@pytest.mark.parametrize(
    "other",
    [
        Run("ce", seed=1),
        Run("mixup"),
        Run("ce", data=Digits(noise=0.5)),
        Run("ce", model="mlp"),
        Run("ce", optimisation=Optimisation(epochs=3)),
        Run("ce", selection="last"),
    ],
)
def test_every_field_is_part_of_the_id(other):
    assert other.id != Run("ce").id
    assert len(other.id) == 12


@pytest.mark.parametrize("method", list(Method.registry))
def test_json_round_trip(method):
    run = Run(method, seed=3)
    assert Run.from_dict(json.loads(json.dumps(run.to_dict()))) == run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "rankmixup-mrk"}, "unknown method 'rankmixup-mrk'; did you mean 'rankmixup-mrl'"),
        ({"method": "ce", "data": "digit"}, "unknown data set 'digit'; did you mean 'digits'"),
        ({"method": "ce", "model": "resnet88"}, "unknown model 'resnet88'; did you mean 'resnet8'"),
        ({"method": "ce", "model": "resnet50:big"}, "unknown variant of resnet50 'big'"),
        ({"method": "ce", "data": "imagenet", "model": "wrn-26-10"}, "wrn-26-10 must be given images it has a variant for"),
        ({"method": "ce", "seed": -1}, "seed must be at least 0, got -1"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        Run(**arguments)


def test_the_variant_of_the_network_is_resolved_before_the_id():
    assert Run("ce", model="resnet50").model == "resnet50:cifar"
    assert Run("ce", model="resnet50").id == Run("ce", model="resnet50:cifar").id != Run("ce", model="resnet50:tiny").id
    assert Run("ce", data="imagenet", model="resnet50").model == "resnet50:imagenet"


def test_a_description_is_read_back_as_it_stands():
    # Recipes may change; what a run was must not.
    described = Run("rankmixup-mrl", data="tiny-imagenet").to_dict()
    described["method"]["margin"], described["optimisation"]["batch_size"] = 7.0, 5
    run = Run.from_dict(described)
    assert (run.method.margin, run.optimisation.batch_size) == (7.0, 5)


@pytest.mark.parametrize("described", [{}, {"method": {"name": "ce"}, "data": 5}, {"method": 3}, {"method": {}}])
def test_a_description_that_is_none_is_refused_in_a_sentence(described):
    with unchecked(), pytest.raises(InvalidInput) as caught:
        Run.from_dict(described)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epochs", 0),
        ("batch_size", 0),
        ("lr", 0.0),
        ("momentum", 1.0),
        ("weight_decay", -1.0),
        ("clip", -1.0),
        ("warmup", -1),
        ("warmup_lr", -0.1),
        ("final_lr", -0.1),
    ],
)
def test_optimisation_out_of_range(field, value):
    with pytest.raises(InvalidInput, match=f"{field} must .*, got {value}"):
        Optimisation(**{field: value})
