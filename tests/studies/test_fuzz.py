"""A slice of the study of hostile inputs, with another seed, and the machinery that would report a finding."""

import json
from pathlib import Path

import numpy as np
import pytest

from studies.fuzz import Chunk, page, study
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
    assert found["ece"] == pytest.approx([0.25] * 3)  # both confidences share the upper bin: |1.5 - 1| / 2
    assert exact_metrics(sample, 10)["ece"] == pytest.approx([0.35] * 3)
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
        (lambda rng, folder: _raise("a\nb"), "difference"),
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
