"""A slice of the study of hostile inputs, with another seed, and the machinery that would report a finding."""

import json
from pathlib import Path

import numpy as np
import pytest

from rankmixup.data.corruptions import corrupt
from rankmixup.deploy.model import CalibratedModel
from rankmixup.evaluation.group_labels import GroupLabels
from studies.fuzz import Chunk, area_named, page, study
from studies.fuzzing.case import Area, Difference, attempt
from studies.fuzzing.oracle import agree, exact_metrics
from studies.fuzzing.values import Sample


@pytest.mark.slow
def test_a_slice_of_the_study_has_no_findings():
    chunks = study(seed=1, share=0.02)
    assert sum(sum(chunk.counts.values()) for chunk in chunks) >= 1000
    assert [finding for chunk in chunks for finding in chunk.findings] == []


def test_the_oracle_by_hand():
    # Confidences 0.9 and 0.6, one right, one wrong, in two bins: (|0.9 - 1| + |0.6 - 0|) / 2.
    sample = Sample(np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([0, 1]), from_logits=False)
    found = exact_metrics(sample, 2)
    assert found["accuracy"] == [0.5]
    assert found["ece"] == pytest.approx([0.25] * 12)  # both confidences share the upper bin: |1.5 - 1| / 2
    assert exact_metrics(sample, 10)["ece"] == pytest.approx([0.35] * 12)
    assert found["brier"] == pytest.approx([(0.02 + 0.72) / 2])
    assert found["nll"] == pytest.approx([-(np.log(0.9) + np.log(0.4)) / 2])


def test_a_wrong_figure_is_a_difference():
    sample = Sample(np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([0, 1]), from_logits=False)
    agree({"accuracy": 0.5}, sample)
    with pytest.raises(Difference, match=r"accuracy must be 0\.5"):
        agree({"accuracy": 0.5001}, sample)


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        (lambda rng, folder: "answered", "answered"),
        (lambda rng, folder: 1 / 0, "traceback"),
        (lambda rng, folder: json.loads("{"), "traceback"),
        (lambda rng, folder: _raise("x" * 10_000), "difference"),
        (lambda rng, folder: _raise("x must be 1, got 2"), "refused"),
    ],
)
def test_what_counts_as_a_finding(act, kind, tmp_path):
    assert attempt(Area("any", 1, act), 0, 0, tmp_path).kind == kind


def _raise(message: str) -> None:
    from rankmixup.errors import InvalidInput

    raise InvalidInput(message)


def test_the_page_counts_and_names_findings():
    text = page([Chunk("commands", 0, 50, {"agrees": 49, "traceback": 1}, [[7, "traceback", "KeyError"]])], 0, 1.0)
    assert "| commands | 49 | 0 | 0 | 0 | 1 | 0 | 0 | 0 |" in text
    assert "1 findings" in text
    assert "`commands:7` traceback: KeyError" in text


def test_the_stored_study_is_large_and_has_no_findings():
    text = (Path(__file__).parents[2] / "results" / "fuzz.md").read_text()
    total = int(text.split(" generated inputs")[0].rsplit(" ", 1)[1].replace(",", ""))
    assert total >= 50_000
    assert "No findings." in text


def _confident(model, logits):
    return logits.double().mul(1.1).softmax(dim=1)


def _darker(images, *arguments, **more):
    return corrupt(images, *arguments, **more).clamp(min=3) - 3


def _of_others(name, values, samples):
    labels = _GROUPS_OF(name, values, samples)
    return GroupLabels(labels.names, labels.codes[::-1])


_GROUPS_OF = GroupLabels.of


@pytest.mark.parametrize(
    ("area", "place", "name", "wrong"),
    [
        ("exported folders", CalibratedModel, "_probabilities", _confident),
        ("predict", CalibratedModel, "_probabilities", _confident),
        ("pictures", CalibratedModel, "_logits", lambda model, batch: model.network(batch + 0.01).detach()),
        ("groups", GroupLabels, "of", _of_others),
        ("shift", "studies.fuzzing.shifted", "corrupt", _darker),
        ("adapters", "studies.fuzzing.adapters", "fold_temperature", lambda *arguments: None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_answer_is_found_in_every_area(area, place, name, wrong, tmp_path, monkeypatch):
    monkeypatch.setattr(f"{place}.{name}" if isinstance(place, str) else place, *([] if isinstance(place, str) else [name]), wrong)
    kinds = []
    for index in range(60):
        (tmp_path / str(index)).mkdir()
        kinds.append(attempt(area_named(area), 0, index, tmp_path / str(index)).kind)
        if kinds[-1] == "difference":
            return
    pytest.fail(f"60 inputs must show a difference, got {set(kinds)}")
