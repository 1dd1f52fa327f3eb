"""Frozen dataclasses as configuration: checked when made, through JSON and back, one hash for one meaning."""

import dataclasses
import json
import math
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmixup.config import Configured, content_hash
from rankmixup.errors import InvalidInput
from rankmixup.methods import Method, RankMixupMNDCG, RankMixupMRL
from rankmixup.mixers import CutMix, ManifoldMixup, Mixer, Mixup
from rankmixup.registry import Registry
from tests.oracles import unchecked

REGISTERED = [pytest.param(base, name, id=f"{base.__name__}-{name}") for base in (Method, Mixer) for name in base.registry]


@dataclasses.dataclass(frozen=True)
class Inner(Configured):
    size: int = 3


@dataclasses.dataclass(frozen=True)
class Outer(Configured):
    rate: float = 0.5
    count: int | None = None
    kind: Literal["one", "two"] = "one"
    names: tuple[str, ...] = ()
    flag: bool = False
    inner: Inner = Inner()

    def check(self):
        if self.rate > 9:
            raise InvalidInput(f"rate must be at most 9, got {self.rate}")


outers = st.builds(
    Outer,
    rate=st.floats(-1e9, 9),
    count=st.none() | st.integers(),
    kind=st.sampled_from(["one", "two"]),
    names=st.lists(st.text()).map(tuple),
    flag=st.booleans(),
    inner=st.builds(Inner, st.integers()),
)


# JSON


@pytest.mark.parametrize(("base", "name"), REGISTERED)
def test_every_registered_class_survives_json(base, name):
    made = base.registry[name]()
    again = base.from_dict(json.loads(json.dumps(made.to_dict(), allow_nan=False)))
    assert again == made
    assert type(again) is type(made)
    assert made.to_dict()["name"] == made.name == name
    assert again.content_hash() == made.content_hash()


@settings(max_examples=50)
@given(outers)
def test_any_fields_survive_json(outer):
    again = Outer.from_dict(json.loads(json.dumps(outer.to_dict())))
    assert again == outer
    assert again.content_hash() == outer.content_hash()


def test_json_holds_names_and_plain_values():
    assert RankMixupMNDCG(num_mixes=2, mixer=ManifoldMixup(layer="random", layers=("layer1",))).to_dict() == {
        "name": "rankmixup-mndcg",
        "weight": 0.1,
        "mixer": {"name": "manifold", "alpha": 1.0, "lam_mode": "batch", "layer": "random", "layers": ["layer1"], "forward": "shared"},
        "num_mixes": 2,
        "ratio": "symmetric",
        "relevance": "label",
    }


def test_missing_fields_have_their_defaults():
    assert Method.from_dict({"name": "rankmixup-mrl", "margin": 1.0}) == RankMixupMRL(margin=1.0)


# Hashes


def test_hash_is_the_sha256_of_sorted_compact_json():
    # printf '{"alpha":1.0,"forward":"separate","lam_mode":"batch","name":"cutmix"}' | sha256sum
    assert CutMix().content_hash() == "adfe175906a8a7c5b1472fdecf67380d131c4233d18749ef06ffb6b67cd8c03d"


CHANGES = {
    RankMixupMRL(): {
        "weight": 0.2,
        "mixer": CutMix(),
        "num_mixes": 2,
        "margin": 1.0,
        "space": "probability",
        "masking": "keep",
        "gradient": "mixed",
    },
    RankMixupMNDCG(): {"weight": 0.2, "mixer": Mixup(alpha=1.0), "num_mixes": 2, "ratio": "paper", "relevance": "lambda"},
    ManifoldMixup(layer="random"): {"alpha": 2.0, "lam_mode": "sample", "layer": "layer1", "layers": ("layer1",), "forward": "separate"},
    Mixup(): {"alpha": 2.0, "lam_mode": "sample", "forward": "joint", "mixes": ("pixel_values",)},
}


def test_a_field_that_was_added_later_changes_the_hash_only_where_it_is_set():
    """The hash of a version that did not have `gradient` and `tune_on`."""
    assert RankMixupMRL().content_hash() == "4ab64683a5a565ea73b236659e3d7d37dd4f7c23ae8926e0f1c9c398a4362072"
    assert RankMixupMRL(gradient="mixed").content_hash() != RankMixupMRL().content_hash()
    assert RankMixupMRL.from_dict(RankMixupMRL(gradient="mixed").to_dict()).gradient == "mixed"


@pytest.mark.parametrize("made", CHANGES)
def test_hash_changes_with_every_field(made):
    assert set(CHANGES[made]) == {field.name for field in dataclasses.fields(made)}
    others = [dataclasses.replace(made, **{field: value}) for field, value in CHANGES[made].items()]
    assert len({made.content_hash(), *(other.content_hash() for other in others)}) == len(others) + 1


def test_hash_of_classes_with_the_same_fields_differs():
    assert len({cls().content_hash() for cls in (Mixup, CutMix)}) == 2


@pytest.mark.parametrize(("one", "other"), [(2, 2.0), (0.0, -0.0)])
def test_equal_numbers_have_one_hash(one, other):
    with unchecked():
        assert RankMixupMRL(margin=one) == RankMixupMRL(margin=other)
        assert RankMixupMRL(margin=one).content_hash() == RankMixupMRL(margin=other).content_hash()


def test_order_of_keys_does_not_matter():
    assert content_hash({"a": 1, "b": [1, 2]}) == content_hash({"b": [1, 2], "a": 1}) != content_hash({"a": 1, "b": [2, 1]})


# Checks


def test_whole_numbers_become_floats_where_a_float_is_meant():
    with unchecked():
        assert repr(Outer(rate=2).rate) == "2.0"


def test_lists_become_tuples():
    with unchecked():
        assert Outer(names=["a", "b"]).names == ("a", "b")


def test_it_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Outer().rate = 1.0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rate": "0.5"}, r"^Outer\.rate must be of type float, got '0\.5'$"),
        ({"rate": True}, r"^Outer\.rate must be of type float, got True$"),
        ({"rate": math.nan}, r"^Outer\.rate must be finite, got nan$"),
        ({"rate": -math.inf}, r"^Outer\.rate must be finite, got -inf$"),
        ({"rate": 10**400}, r"^Outer\.rate must be finite, got 1000"),
        ({"rate": 9.5}, r"^rate must be at most 9, got 9\.5$"),
        ({"count": 2.0}, r"^Outer\.count must be of type int \| None, got 2\.0$"),
        ({"count": False}, r"^Outer\.count must be of type int \| None, got False$"),
        ({"kind": "tow"}, r"^unknown Outer\.kind 'tow'; did you mean 'two'"),
        ({"kind": 1}, r"^Outer\.kind must be of type Literal\['one', 'two'\], got 1$"),
        ({"names": "ab"}, r"^Outer\.names must be of type tuple\[str, \.\.\.\], got 'ab'$"),
        ({"names": ("a", 1)}, r"^Outer\.names must be of type tuple\[str, \.\.\.\], got \('a', 1\)$"),
        ({"flag": 1}, r"^Outer\.flag must be of type bool, got 1$"),
        ({"inner": 3}, r"^Outer\.inner must be of type Inner, got 3$"),
    ],
)
def test_a_wrong_field_is_refused_in_one_sentence(fields, message):
    with unchecked(), pytest.raises(InvalidInput, match=message):
        Outer(**fields)


@pytest.mark.parametrize(
    ("base", "data", "message"),
    [
        (Method, {"name": "rankmixup_mrl"}, r"^unknown method 'rankmixup_mrl'; did you mean 'rankmixup-mrl'"),
        (Method, {"name": "rankmixup-mrl", "margn": 1.0}, r"^unknown field of RankMixupMRL 'margn'; did you mean 'margin'"),
        (Method, {"name": "rankmixup-mrl", "mixer": {"name": "cutmx"}}, r"^unknown mixer 'cutmx'; did you mean 'cutmix'"),
        (Method, {"name": "rankmixup-mrl", "mixer": {"name": "cutmix", "alpha": "1"}}, r"^CutMix\.alpha must be of type float, got '1'$"),
        (Method, {"name": "rankmixup-mrl", "margin": {"a": 1}}, r"^RankMixupMRL\.margin must be of type float \| 'auto', got \{'a': 1\}$"),
        (Method, {"name": "rankmixup-mrl", "margin": [1.0]}, r"^RankMixupMRL\.margin must be of type float \| 'auto', got "),
        (Method, {"margin": 1.0}, r"^(?!.*None).*name"),
        (Method, [1], r"^Method must be described by a JSON object, got \[1\]$"),
        (Method, None, r"^Method must be described by a JSON object, got None$"),
        (Outer, {"name": "outer"}, r"^unknown field of Outer 'name'"),
        (Outer, {"inner": {"sizes": 3}}, r"^unknown field of Inner 'sizes'; did you mean 'size'\?$"),
    ],
)
def test_wrong_json_is_refused_in_one_sentence(base, data, message):
    with unchecked(), pytest.raises(InvalidInput, match=message) as caught:
        base.from_dict(data)
    assert "\n" not in str(caught.value)


def test_a_class_does_not_revive_another():
    with unchecked(), pytest.raises(InvalidInput, match="ce"):
        RankMixupMRL.from_dict({"name": "ce"})


def test_an_unregistered_subclass_does_not_pass_for_its_parent():
    """Otherwise two methods would be one run with one id, and reading the run back would give the other one."""
    registry = Registry("thing")

    @registry.register("parent")
    @dataclasses.dataclass(frozen=True)
    class Parent(Configured):
        pass

    Parent.registry = registry

    @dataclasses.dataclass(frozen=True)
    class Child(Parent):
        pass

    with pytest.raises(InvalidInput, match="Child"):
        Child().to_dict()


@dataclasses.dataclass(frozen=True)
class Placed(Configured):
    where: str = dataclasses.field(default="", compare=False)
    what: str = ""


@dataclasses.dataclass(frozen=True)
class Holder(Configured):
    placed: Placed = Placed()


def test_a_field_that_is_not_compared_is_described_but_not_hashed():
    here, there, other = Holder(Placed("here", "x")), Holder(Placed("there", "x")), Holder(Placed("here", "y"))
    assert here == there != other
    assert here.content_hash() == there.content_hash() != other.content_hash()
    assert here.to_dict() == {"placed": {"where": "here", "what": "x"}}
    assert Holder.from_dict(there.to_dict()).placed.where == "there"
