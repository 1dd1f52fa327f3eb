"""The study of the scikit-learn estimator: its table is made of its records, and it measures predictions of unseen folds."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier

from rankmixup.reports.results import insert_summary
from studies.sklearn_study import DATA, SEEDS, measured, models, read_study, table


def test_means_and_deviations_over_seeds_are_shown():
    records = [
        {"data": data, "model": name, "seed": seed, "accuracy": 0.9 + seed / 50, "nll": 0.2, "ece": 0.01, "seconds": 1 + seed}
        for data in DATA
        for name in models(0)
        for seed in range(2)
    ]
    lines = table(records).splitlines()
    assert "| breast cancer | MLPClassifier | 91.0 ± 1.4 | 0.200 ± 0.000 | 1.0 ± 0.0 | 1.5 |" in lines
    assert len(lines) == 2 + len(DATA) * len(models(0))


def test_each_sample_is_predicted_by_a_classifier_that_has_not_seen_it():
    """A nearest neighbour is always right about what it has seen; labels that say nothing give it away."""
    x, _ = make_blobs(200, 2, random_state=0)
    y = np.random.default_rng(0).permutation(np.arange(200) % 2)
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(x, y))
    found = measured(KNeighborsClassifier(1), x, y, folds)
    assert 0.3 < found["accuracy"] < 0.7
    assert found["ece"] == pytest.approx(1 - found["accuracy"])


def test_what_is_stored_is_what_the_study_fits():
    found = {(record["data"], record["model"], record["seed"]) for record in read_study()}
    assert found == {(data, name, seed) for data in DATA for name in models(0) for seed in range(SEEDS)}


def test_the_document_has_the_table_of_the_stored_records():
    text = (Path(__file__).parents[2] / "docs" / "guides" / "sklearn.md").read_text()
    assert text == insert_summary(text, table(read_study()), "sklearn"), "python -m studies.results writes it"
