import dataclasses
import json
from typing import get_args

import pytest

from rankmixup import Run
from rankmixup.cli.main import main
from rankmixup.data import DataSource, Digits
from rankmixup.errors import InvalidInput
from rankmixup.methods import Method, MixupTraining, RankMixupMRL
from rankmixup.mixers import CutMix, Mixup
from rankmixup.runs import RECIPES, Optimisation, recipe_for, sources
from rankmixup.runs.recipes import Source
from tests.oracles import unchecked


def cifar10(imbalance=1.0):
    return DataSource.registry["cifar10"](imbalance=imbalance)


@pytest.mark.parametrize("name", list(RECIPES))
def test_every_constant_has_a_source_and_a_place(name):
    recipe = RECIPES[name]
    constants = [*recipe.optimisation.values(), *(each for fields in recipe.methods.values() for each in fields.values())]
    assert {constant.source for constant in constants} <= set(get_args(Source))
    optimisation = recipe.build_optimisation()
    for field, constant in recipe.optimisation.items():
        assert getattr(optimisation, field) == constant.value
    for key, fields in recipe.methods.items():
        described = recipe.build_method(key).to_dict()
        for path, constant in fields.items():
            owner, _, field = path.rpartition(".")
            assert (described[owner] if owner else described)[field] == constant.value


def test_what_a_recipe_does_not_name_its_optimiser_does_not_use():
    # What saves memory and time is nobody's recipe.
    fields = {field.name for field in dataclasses.fields(Optimisation)} - {"accumulate", "precision", "layer_decay"}
    unused = {name: fields - set(recipe.optimisation) for name, recipe in RECIPES.items()}
    assert unused.pop("imagenet") == unused.pop("finetune") == {"decay", "momentum"}  # AdamW, cosine
    assert all(fields <= {"final_lr", "warmup_lr"} for fields in unused.values())  # steps, without warm-up


def test_a_method_by_name_takes_the_recipe_and_a_method_object_is_taken_as_it_is():
    assert Run("rankmixup-mrl", data="tiny-imagenet").method == RankMixupMRL(margin=1.0, mixer=Mixup(alpha=1.0))
    assert Run(RankMixupMRL(), data="tiny-imagenet").method == RankMixupMRL()
    assert Run("ce", data="tiny-imagenet").optimisation.batch_size == 32
    assert Run("ce", data="tiny-imagenet", optimisation=Optimisation()).optimisation == Optimisation()


def test_a_long_tail_has_a_recipe_of_its_own():
    assert Run("ce", data=cifar10(100)).optimisation.warmup == 5
    assert Run("mixup", data=cifar10(100)).method.mixer.alpha == 1.0
    assert Run("unimix", data=DataSource.registry["cifar100"](imbalance=10)).method.tau == -0.1
    assert recipe_for(DataSource.registry["svhn"](imbalance=10)) is RECIPES["other, long-tailed"]
    # 30 epochs of a thousand digits would become 200.
    assert recipe_for(Digits(imbalance=2)) is RECIPES["digits"]


def test_data_sets_of_ones_own_have_cifars_recipe_as_our_choice():
    recipe = recipe_for(DataSource.registry["svhn"]())
    assert recipe.build_optimisation() == RECIPES["cifar10"].build_optimisation()
    assert {constant.source for constant in recipe.optimisation.values()} == {"ours"}


@pytest.mark.parametrize("method", list(Method.registry))
def test_the_digits_recipe_keeps_every_methods_defaults(method):
    assert Run(method).method == Method.registry[method]()
    assert Run(method).optimisation == Optimisation(epochs=30, batch_size=64, milestones=(15, 22))


def test_sources_of_what_was_given():
    run = Run(MixupTraining(mixer=CutMix(alpha=0.5)), data=cifar10(), model="resnet50", optimisation=Optimisation(epochs=3))
    found = sources(run)
    assert found["method.mixer.name"] == found["method.mixer.alpha"] == "given"
    assert found["method.mixer.forward"] == "default"
    assert found["optimisation.epochs"] == found["model"] == found["data.name"] == "given"
    assert found["optimisation.lr"] == "paper"
    assert found["optimisation.final_lr"] == found["seed"] == found["data.imbalance"] == "default"
    # Asked for, though it is what the recipe says too.
    assert sources(run, ["optimisation.lr"])["optimisation.lr"] == "given"


def test_another_mixer_has_its_own_alpha_by_default():
    run = Run(dataclasses.replace(RankMixupMRL(), mixer=CutMix()), data=cifar10())
    assert sources(run)["method.mixer.alpha"] == "default"


def test_the_recipe_of_fine_tuning_is_for_any_data_set_and_changes_no_method():
    run = Run("rankmixup-mrl", data="tiny-imagenet", recipe="finetune")
    assert run.method == Run("rankmixup-mrl", data="tiny-imagenet").method
    assert run.optimisation == Run("ce", recipe="finetune").optimisation == RECIPES["finetune"].build_optimisation()
    assert (run.optimisation.optimiser, run.optimisation.lr, run.optimisation.layer_decay) == ("adamw", 1e-4, 0.75)
    found = sources(run, recipe="finetune")
    assert (found["optimisation.lr"], found["optimisation.layer_decay"], found["method.margin"]) == ("ELECTRA", "BEiT", "paper")
    assert sources(run)["optimisation.lr"] == "given"
    assert Run("ce", recipe="finetune", optimisation=Optimisation()).optimisation == Optimisation()
    with pytest.raises(InvalidInput, match="recipe must be 'data', 'finetune' or 'short', got 'other'"), unchecked():
        Run("ce", recipe="other")


def test_the_short_recipe_is_that_of_digits_for_any_data_set_and_changes_no_method(capsys):
    run = Run("mixup", data="cifar10", recipe="short")
    assert run.method == Run("mixup", data="cifar10").method
    assert run.optimisation == Run("ce", data="digits").optimisation
    assert sources(run, recipe="short")["optimisation.epochs"] == "ours"
    assert main(["train", "mixup", "--data", "cifar10", "--recipe", "short", "--batch-size", "32", "--show", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["run"]["optimisation"]
    assert shown == {**run.to_dict()["optimisation"], "batch_size": 32}
