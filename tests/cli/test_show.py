"""The run of every data set, network and method of the paper's tables 1 to 4 and 8, and what `train --show --json` says of it."""

import json

import pytest

from rankmixup import Run
from rankmixup.cli.main import main
from rankmixup.data import DataSource
from rankmixup.reports.recipes import recipe_tables
from rankmixup.runs import sources

CIFAR = {
    "epochs": (200, "paper"),
    "batch_size": (128, "paper"),
    "optimiser": ("sgd", "paper"),
    "lr": (0.1, "paper"),
    "schedule": ("steps", "paper"),
    "milestones": ([80, 120], "release"),
    "decay": (0.1, "paper"),
    "warmup": (0, "release"),
    "momentum": (0.9, "paper"),
    "weight_decay": (5e-4, "release"),
    "decay_vectors": (True, "release"),
    "clip": (2.0, "release"),
}
TINY = CIFAR | {"epochs": (100, "release"), "batch_size": (32, "ours"), "lr": (0.1, "MbLS"), "milestones": ([40, 60], "release")}
IMAGENET = {
    "epochs": (200, "CALS"),
    "batch_size": (512, "CALS"),
    "optimiser": ("adamw", "CALS"),
    "lr": (5e-4, "CALS"),
    "schedule": ("cosine", "CALS"),
    "final_lr": (5e-6, "CALS"),
    "warmup": (1, "CALS"),
    "warmup_lr": (5e-7, "CALS"),
    "weight_decay": (0.05, "CALS"),
    "decay_vectors": (False, "CALS"),
    "clip": (2.0, "CALS"),
}
LONG_TAILED = {
    "epochs": (200, "MiSLAS"),
    "batch_size": (128, "MiSLAS"),
    "optimiser": ("sgd", "MiSLAS"),
    "lr": (0.1, "MiSLAS"),
    "schedule": ("steps", "MiSLAS"),
    "milestones": ([160, 180], "MiSLAS"),
    "decay": (0.1, "MiSLAS"),
    "warmup": (5, "MiSLAS"),
    "momentum": (0.9, "MiSLAS"),
    "weight_decay": (2e-4, "MiSLAS"),
    "decay_vectors": (True, "MiSLAS"),
    "clip": (0.0, "MiSLAS"),
}
RIVALS = {
    "ce": {},
    "mmce": {"weight": (1.0, "release"), "form": ("squared", "default")},
    "ecp": {"weight": (0.1, "paper")},
    "label-smoothing": {"smoothing": (0.05, "paper")},
    "focal": {"gamma": (3.0, "paper")},
    "mixup": {"mixer.alpha": (0.2, "paper")},
    "flsd": {},
    "crl": {"weight": (1.0, "paper")},
    "cpc": {"discrimination": (0.1, "paper"), "exclusion": (1.0, "paper")},
    "mbls": {"margin": (6.0, "paper"), "weight": (0.1, "release")},
    "regmixup": {"mixer.alpha": (10.0, "paper"), "mixer.forward": ("joint", "default")},
}
WEIGHT = {"weight": (0.1, "paper")}


def mrl(margin, alpha, mixes):
    return WEIGHT | {"margin": margin, "mixer.alpha": alpha, "num_mixes": (1, mixes), "space": ("logit", "default")}


def mndcg(alpha, mixes):
    return WEIGHT | {"mixer.alpha": alpha, "num_mixes": (3, mixes), "ratio": ("symmetric", "default")}


CIFAR10_METHODS = RIVALS | {
    "rankmixup-mrl": mrl((2.0, "paper"), (2.0, "release"), "release"),
    "rankmixup-mndcg": mndcg((2.0, "paper"), "paper"),
}
CIFAR100_METHODS = RIVALS | {
    "rankmixup-mrl": mrl((2.0, "paper"), (2.0, "ours"), "release"),
    "rankmixup-mndcg": mndcg((2.0, "ours"), "release"),
}
TINY_METHODS = RIVALS | {
    "mbls": {"margin": (10.0, "paper"), "weight": (0.1, "release")},
    "rankmixup-mrl": mrl((1.0, "paper"), (1.0, "release"), "release"),
    "rankmixup-mndcg": mndcg((1.0, "paper"), "paper"),
}
IMAGENET_METHODS = {
    **{key: RIVALS[key] for key in ("ce", "mixup", "crl", "regmixup")},
    "mbls": {"margin": (10.0, "ours"), "weight": (0.1, "release")},
    "rankmixup-mrl": mrl((1.0, "ours"), (1.0, "ours"), "ours"),
    "rankmixup-mndcg": mndcg((1.0, "ours"), "ours"),
}


def long_tailed_methods(tau):
    return {
        "ce": {},
        "mixup": {"mixer.alpha": (1.0, "MiSLAS")},
        "remix": {"mixer.alpha": (1.0, "default"), "kappa": (3.0, "default"), "tau": (0.5, "default")},
        "unimix": {"mixer.alpha": (0.8, "UniMix"), "tau": (tau, "UniMix"), "prior_correction": (True, "default")},
        "rankmixup-mrl": mrl((2.0, "ours"), (2.0, "ours"), "ours"),
        "rankmixup-mndcg": mndcg((2.0, "ours"), "ours"),
    }


def chosen(methods, *keys):
    return {key: methods[key] for key in keys}


# data and its flags, network as asked for and as resolved, optimisation, methods
TABLE1 = [
    ((data,), model, f"{model}:{variant}", optimisation, methods)
    for data, variant, optimisation, methods in (
        ("cifar10", "cifar", CIFAR, CIFAR10_METHODS),
        ("cifar100", "cifar", CIFAR, CIFAR100_METHODS),
        ("tiny-imagenet", "tiny", TINY, TINY_METHODS),
    )
    for model in ("resnet50", "resnet101")
]
TABLE2 = [(("imagenet",), "resnet50", "resnet50:imagenet", IMAGENET, IMAGENET_METHODS)]
WIDE = ("ce", "mixup", "mbls", "regmixup", "rankmixup-mrl", "rankmixup-mndcg")
TABLE3 = [
    (("cifar10",), "wrn-26-10", "wrn-26-10:cifar", CIFAR, chosen(CIFAR10_METHODS, *WIDE)),
    (("tiny-imagenet",), "wrn-26-10", "wrn-26-10:tiny", TINY, chosen(TINY_METHODS, *WIDE)),
]
TABLE8 = [
    ((data, "--imbalance", rho), "resnet32", "resnet32", LONG_TAILED, long_tailed_methods(tau))
    for data, tau in (("cifar10", -0.5), ("cifar100", -0.1))
    for rho in ("10", "100")
]
# Table 4 (OOD) evaluates the CIFAR networks of table 1.
CELLS = [
    pytest.param(data, model, resolved, optimisation, method, fields, id="-".join([*data, model, method]))
    for data, model, resolved, optimisation, methods in (*TABLE1, *TABLE2, *TABLE3, *TABLE8)
    for method, fields in methods.items()
]
# Parsing takes longer than all the rest, so by default the command is asked for one network of each data set.
COMMANDS = [
    pytest.param(*cell.values, id=cell.id, marks=() if cell.values[1] in ("resnet50", "resnet32") else pytest.mark.slow) for cell in CELLS
]


def expected_of(data, resolved, optimisation, method, fields):
    expected = {f"optimisation.{name}": constant for name, constant in optimisation.items()}
    expected |= {f"method.{name}": constant for name, constant in fields.items()}
    expected |= {"method.name": (method, "given"), "data.name": (data[0], "given"), "model": (resolved, "given")}
    expected |= {"seed": (0, "default"), "selection": ("accuracy", "default"), "data.sampling": ("shuffle", "default")}
    expected |= {"data.protocol": ("paper", "default")}
    return expected | {"data.imbalance": (float(data[2]), "given") if len(data) > 1 else (1.0, "default")}


def shown(capsys, *arguments):
    assert main(["train", *arguments, "--show", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def values(described, prefix=""):
    for name, value in described.items():
        if isinstance(value, dict):
            yield from values(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


@pytest.mark.parametrize(("data", "model", "resolved", "optimisation", "method", "fields"), CELLS)
def test_the_run_of_a_cell_of_the_papers_tables(data, model, resolved, optimisation, method, fields):
    imbalance = float(data[2]) if len(data) > 1 else 1.0
    run = Run(method, data=DataSource.registry[data[0]](imbalance=imbalance), model=model)
    found, origin = dict(values(run.to_dict())), sources(run)
    expected = expected_of(data, resolved, optimisation, method, fields)
    assert {path: (found[path], origin[path]) for path in expected} == expected


@pytest.mark.parametrize(("data", "model", "resolved", "optimisation", "method", "fields"), COMMANDS)
def test_the_command_shows_it(data, model, resolved, optimisation, method, fields, capsys):
    answer = shown(capsys, method, "--data", *data, "--model", model)
    assert set(answer) == {"id", "run", "sources"}
    found = dict(values(answer["run"]))
    assert set(answer["sources"]) == set(found)
    expected = expected_of(data, resolved, optimisation, method, fields)
    assert {path: (found[path], answer["sources"][path]) for path in expected} == expected


def test_a_flag_beats_the_recipe_and_the_recipe_the_method(capsys):
    flags = ("--margin", "2", "--mixer.alpha=3", "--epochs", "100", "--no-decay-vectors")
    answer = shown(capsys, "rankmixup-mrl", "--data", "tiny-imagenet", *flags)
    run, sources = answer["run"], answer["sources"]
    assert (run["method"]["margin"], run["method"]["mixer"]["alpha"]) == (2.0, 3.0)
    assert run["optimisation"]["decay_vectors"] is False
    given = {path for path, source in sources.items() if source == "given"}
    # 100 epochs is what the recipe says too, but it was asked for.
    assert given == {
        "method.name",
        "data.name",
        "method.margin",
        "method.mixer.alpha",
        "optimisation.epochs",
        "optimisation.decay_vectors",
    }


def test_a_mixer_by_name_brings_its_own_alpha(capsys):
    answer = shown(capsys, "rankmixup-mndcg", "--data", "cifar10", "--mixer", "cutmix")
    assert answer["run"]["method"]["mixer"]["alpha"] == 1.0
    assert answer["sources"]["method.mixer.name"] == "given"
    assert answer["sources"]["method.mixer.alpha"] == "default"


def test_showing_trains_nothing_and_names_the_run_that_would_be(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arguments = ("ce", "--model", "mlp", "--epochs", "1", "--data.train-size", "50")
    name = shown(capsys, *arguments)["id"]
    assert list(tmp_path.iterdir()) == []
    assert main(["train", *arguments, "--show"]) == 0
    table = capsys.readouterr().out
    assert name in table
    assert all(word in table for word in ("optimisation.epochs", "given", "ours", "default"))
    assert main(["train", *arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == name


def test_the_document_shows_the_recipes():
    from tests.test_docs import ROOT

    assert recipe_tables() in (ROOT / "docs" / "reference" / "paper.md").read_text(), (
        "put the output of recipe_tables() into docs/reference/paper.md"
    )
