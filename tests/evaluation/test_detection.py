"""The bootstrap of OOD detection agrees with the metrics themselves on every resample."""

import re
from pathlib import Path

import pytest
import torch

from rankmixup.cli.main import main
from rankmixup.evaluation import Detection, Estimate, Scores
from rankmixup.evaluation.detection import FPR95_RULE, _from_counts, detect, ood_bootstrap
from rankmixup.metrics.ood import ood_detection
from rankmixup.reports.tables import ood_table, to_text


def counts(samples, values):
    return (samples[:, None] == values).double().sum(0, keepdim=True)


def test_the_bootstrap_has_the_same_fpr95():
    """The example of tests/metrics/test_ood.py."""
    inside, outside = torch.arange(21.0), torch.tensor([18.5, 19.0, 19.5, 20.5, 30.0])
    values = torch.cat([inside, outside]).unique()
    assert _from_counts(counts(inside, values), counts(outside, values))["fpr95"].item() == 2 / 5


def test_the_rule_of_fpr95_reads_the_same_everywhere(capsys):
    with pytest.raises(SystemExit):
        main(["ood", "--help"])
    found = {"a": Detection(5, "entropy", {"fpr95": Estimate(0.4, 0.3, 0.5)})}
    paper = (Path(__file__).parents[2] / "docs" / "reference" / "paper.md").read_text()
    printed = re.sub(r"[│\s]+", " ", capsys.readouterr().out)
    for text in (printed, ood_detection.__doc__, to_text(ood_table(found)), paper):
        assert FPR95_RULE in " ".join(text.split())


@pytest.mark.parametrize("ties", [False, True])
def test_counts_give_what_the_metrics_give(ties, rng):
    for _ in range(20):
        inside, outside = torch.randn(41, generator=rng).double(), torch.randn(17, generator=rng).double() + 0.5
        if ties:
            inside, outside = inside.round(), outside.round()
        # Scores that a resample lacks are still columns of it.
        values = torch.cat([inside, outside, torch.tensor([-9.0, 0.25, 9.0])]).unique()
        found = _from_counts(counts(inside, values), counts(outside, values))
        expected = ood_detection(inside, outside)
        assert set(found) == set(expected)
        for key, value in expected.items():
            assert found[key].item() == pytest.approx(float(value), abs=1e-12), key


def test_chunks_of_replicates_join(rng, monkeypatch):
    monkeypatch.setattr("rankmixup.evaluation.detection._CHUNK", 100)
    draws = ood_bootstrap(torch.arange(30.0), torch.arange(10.0, 40.0), 25, rng)
    assert {key: len(values) for key, values in draws.items()} == dict.fromkeys(("auroc", "aupr_in", "aupr_out", "fpr95"), 25)
    assert draws["auroc"].std() > 0


def test_spread_is_the_standard_error_of_the_auroc(rng):
    """By DeLong's placement variances, which need no resampling."""
    inside, outside = torch.randn(400, generator=rng).double(), torch.randn(300, generator=rng).double() + 1
    draws = ood_bootstrap(inside, outside, 2000, rng)["auroc"]
    wins = (outside[:, None] > inside).double()
    area = wins.mean()
    error = (wins.mean(1).var() / len(outside) + wins.mean(0).var() / len(inside)).sqrt()
    assert draws.mean().item() == pytest.approx(area.item(), abs=0.3 * error.item())
    assert draws.std().item() == pytest.approx(error.item(), rel=0.15)


def test_estimates(rng):
    logits = torch.randn(60, 3, generator=rng).double()
    known, unknown = Scores(4 * logits, torch.zeros(60).long()), Scores(logits[:20], torch.zeros(20).long())
    for estimate in detect(known, unknown, "max-probability", replicates=100, rng=rng).values():
        assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
