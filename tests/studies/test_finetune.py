"""The study of fine-tuning: its table is made of its records, and its runs start from the other run."""

import pytest

import rankmixup as rm
from rankmixup.data import Digits
from rankmixup.experiments.tournament import COLUMNS
from studies.finetune import EPOCHS, METHODS, RATES, finetuned, read_study, table


def test_cost_is_relative_to_cross_entropy_of_the_same_seed():
    costs = {("ce", "whole"): (30, 10.0), ("rankmixup-mrl", "a tenth of the rate"): (42, 15.0)}
    records = [
        {"method": method, "training": kind, "seed": seed, "forwarded": costs.get((method, kind), (60, 20.0))[0]}
        | {"seconds": (1 + seed) * costs.get((method, kind), (60, 20.0))[1], "accuracy": 0.8 + seed / 10, "ece": 0.1}
        | {"nll": 0.5, "ece_after_ts": 0.02}
        for method in METHODS
        for kind in ("whole", *RATES)
        for seed in range(2)
    ]
    lines = table(records).splitlines()
    assert "| CE, from scratch | 1.00 | 1.00 | 85.0 ± 7.1 | 10.0 ± 0.0 | 0.500 ± 0.000 | 2.0 ± 0.0 |" in lines
    assert any(line.startswith("| CE, then 6 epochs of RankMixup (MRL) at a tenth of the rate | 1.40 | 1.50 |") for line in lines)
    assert len(lines) == 2 + 3 * len(METHODS)


def test_what_is_stored_is_what_the_study_trains():
    records = read_study()
    assert {(record["method"], record["training"], record["seed"]) for record in records} == {
        (method, kind, seed) for method in METHODS for kind in ("whole", *RATES) for seed in range(3)
    }
    for record in records:
        epochs = COLUMNS["digits"].run("ce", 0).optimisation.epochs
        mixed = COLUMNS["digits"].run(record["method"], 0).method.forwarded
        assert record["forwarded"] == (epochs * mixed if record["training"] == "whole" else epochs + EPOCHS * mixed)


def test_a_run_goes_on_from_the_other(tmp_path):
    small = rm.Run("ce", Digits(train_size=50), "resnet8", rm.Optimisation(epochs=1), seed=2)
    start = rm.train(small, runs=tmp_path)
    run = finetuned("rankmixup-auto", start, 0.1)
    assert (run.weights.tag, run.seed, run.selection, run.method.name) == (start.run.id, 2, "last", "rankmixup-auto")
    assert (run.optimisation.epochs, run.optimisation.lr, run.optimisation.schedule) == (EPOCHS, pytest.approx(0.01), "cosine")
