"""What every calibrator keeps to, whatever it does."""

import dataclasses
import json
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from rankmixup import functional as F
from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.posthoc import CALIBRATORS, Calibrator, FitReport, TemperatureScaling

EVERY = pytest.mark.parametrize("name", ["ensemble-temperature", "histogram", "isotonic", "temperature", "vector"])


def overconfident(rng: torch.Generator, samples: int = 2000, classes: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    logits = 1.5 * torch.randn(samples, classes, generator=rng, dtype=torch.float64)
    target = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
    return 2.5 * logits, target


def fit_quietly(calibrator: Calibrator, logits: torch.Tensor, target: torch.Tensor) -> Calibrator:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return calibrator.fit(logits, target)


def test_the_registry_knows_them_all():
    assert list(CALIBRATORS) == ["ensemble-temperature", "histogram", "isotonic", "platt", "temperature", "vector"]
    assert all(summary for summary in CALIBRATORS.summaries().values())


@EVERY
def test_the_report_says_what_the_metrics_say(name, rng):
    logits, target = overconfident(rng)
    fitted = CALIBRATORS[name]().fit(logits, target, split="val")
    report = fitted.report_
    assert (report.method, report.split, report.samples, report.converged) == (name, "val", 2000, True)
    for figures, scores in ((report.before, logits), (report.after, fitted.transform(logits))):
        assert figures["nll"] == pytest.approx(F.negative_log_likelihood(scores, target, from_logits=True).item(), abs=1e-9)
        assert figures["ece"] == pytest.approx(F.expected_calibration_error(scores, target, from_logits=True).item(), abs=1e-9)
    assert report.after["nll"] < report.before["nll"]
    assert report.after["ece"] < report.before["ece"]
    assert report.verdict == "improves NLL on the fitted data"
    written = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert (written["verdict"], written["split"], written["parameters"]) == (report.verdict, "val", report.parameters)


@EVERY
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_module_is_its_twin(name, dtype, rng):
    logits, target = overconfident(rng, 300)
    fitted = CALIBRATORS[name]().fit(logits.to(dtype), target)
    new = overconfident(rng, 100)[0].to(dtype)
    out = fitted.transform(new)
    assert out.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    if dtype in (torch.float32, torch.float64):
        module = nn.Sequential(nn.Identity(), fitted.module())
        torch.testing.assert_close(module(new), out, rtol=0, atol=1e-6)
        assert not list(module.parameters())
    torch.testing.assert_close(fitted.predict_proba(new), out.softmax(1))


@EVERY
@given(seed=st.integers(0, 2**20), factor=st.sampled_from([1.0, 8.0]))
@settings(max_examples=10)
def test_the_module_gives_the_same_behind_a_network_of_any_precision(name, seed, factor):
    """`nn.Sequential(network, module).float()` must not round the steps of a map that was fitted in float64."""
    rng = random.stream(seed, "precision")
    logits, target = overconfident(rng, 400)
    logits = factor * logits  # most confidences round to 1 in float32
    fitted = fit_quietly(CALIBRATORS[name](), logits, target)
    for network, dtype in ((nn.Sequential(fitted.module()).float(), torch.float32), (nn.Sequential(fitted.module()).half(), torch.float16)):
        new = logits.to(dtype)
        found, expected = network(new), fitted.transform(new.double())
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), expected, rtol=4 * torch.finfo(dtype).eps, atol=20 * torch.finfo(dtype).eps)


@EVERY
def test_the_module_survives_its_state(name, rng, tmp_path):
    """Into a new one, and into one fitted on other data with other classes."""
    logits, target = overconfident(rng, 300)
    module = CALIBRATORS[name]().fit(logits, target).module()
    torch.save(module.state_dict(), tmp_path / "module.pt")
    state = torch.load(tmp_path / "module.pt", weights_only=True)
    other = fit_quietly(CALIBRATORS[name](), *overconfident(rng, 40, classes=3)).module()
    for empty in (type(module)(), other):
        empty.load_state_dict(state)
        assert torch.equal(empty(logits), module(logits))


@EVERY
def test_the_module_can_be_exported(name, rng):
    logits, target = overconfident(rng, 100)
    module = CALIBRATORS[name]().fit(logits, target).module()
    new = overconfident(rng, 7)[0].float()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about itself
        program = torch.export.export(module, (logits.float(),), dynamic_shapes=({0: torch.export.Dim("batch", min=2)},))
    torch.testing.assert_close(program.module()(new), module(new), rtol=0, atol=1e-6)


@EVERY
def test_a_module_is_a_copy(name, rng):
    logits, target = overconfident(rng, 100)
    fitted = CALIBRATORS[name]().fit(logits, target)
    before = fitted.transform(logits)
    for buffer in fitted.module().buffers():
        buffer.zero_()
    assert torch.equal(fitted.transform(logits), before)


@EVERY
def test_it_knows_the_data_it_was_fitted_on(name, rng):
    logits, target = overconfident(rng, 100)
    logits = logits.float()
    fitted = CALIBRATORS[name]().fit(logits, target)
    assert fitted.fitted_on_same(logits.clone())
    assert fitted.fitted_on_same(logits.double())
    assert not fitted.fitted_on_same(logits[:-1])
    assert not fitted.fitted_on_same(logits + 1e-3)
    assert not fitted.fitted_on_same(overconfident(rng, 100)[0])


def test_a_large_matrix_is_told_from_another(rng):
    logits = torch.randn(3000, 1000, generator=rng)
    fitted = CALIBRATORS["temperature"]().fit(logits * 2, torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1))
    assert fitted.fitted_on_same(logits * 2)
    assert not fitted.fitted_on_same(logits)


@EVERY
def test_threads_change_nothing(name, rng, monkeypatch):
    logits, target = overconfident(rng, 4000)
    monkeypatch.setattr("rankmixup.posthoc.base._CHUNK", 200)
    reports = []
    for threads in (1, 3):
        monkeypatch.setattr("torch.get_num_threads", lambda threads=threads: threads)
        reports.append(CALIBRATORS[name]().fit(logits, target).report_)
    assert reports[0] == reports[1]
    monkeypatch.undo()
    whole = CALIBRATORS[name]().fit(logits, target).report_
    assert whole.after == pytest.approx(reports[0].after, abs=1e-9)


@EVERY
@pytest.mark.parametrize(
    ("logits", "target"),
    [
        ([[2.0, 0.0, 1.0]] * 6, [0] * 6),
        ([[2.0, 0.0, 1.0]] * 6, [1] * 6),
        ([[2.0, 0.0, 1.0]] * 6, [0, 1, 2, 0, 1, 2]),
        ([[0.0, 0.0, 0.0]] * 4, [0, 1, 2, 0]),
        ([[2.0, 0.0, 1.0]], [0]),
        ([[2.0, 0.0, 1.0]], [1]),
        ([[2.0]] * 5, [0] * 5),
        ([[1e4, 0.0, -1e4], [0.0, 1e4, -1e4], [3e4, 0.0, 0.0]], [0, 0, 0]),
        ([[1e29, 0.0, -1e29], [0.0, 1e29, -1e29]], [0, 0]),
        ([[-708.0, -709.0, 0.0], [-0.6931, -708.0, -0.6931]], [0, 1]),
    ],
    ids=["all right", "all wrong", "chance", "ties", "one right", "one wrong", "one logit", "saturated", "huge", "zero probabilities"],
)
def test_odd_data_gives_finite_probabilities(name, logits, target):
    for dtype in (torch.float32, torch.float64):
        scores, labels = torch.tensor(logits, dtype=dtype), torch.tensor(target)
        fitted = fit_quietly(CALIBRATORS[name](), scores, labels)
        assert fitted.transform(scores).isfinite().all()
        probs = fitted.predict_proba(scores)
        torch.testing.assert_close(probs.sum(1), torch.ones(len(scores), dtype=dtype))
        json.dumps(fitted.report_.to_dict(), allow_nan=False)


@EVERY
def test_bad_input_is_one_sentence(name, rng):
    logits, target = overconfident(rng, 50)
    calibrator = CALIBRATORS[name]()
    for call in (lambda: calibrator.transform(logits), calibrator.module, lambda: calibrator.fitted_on_same(logits)):
        with pytest.raises(InvalidInput, match="must be fitted before it"):
            call()
    nan, infinite, huge = logits.clone(), logits.clone(), logits.clone()
    nan[3, 1], infinite[3, 1], huge[3, 1] = float("nan"), float("inf"), 1e200
    for scores, labels, message in (
        (nan, target, "finite"),
        (infinite, target, "finite"),
        (huge, target, "at most 1e"),
        (logits, target + 3, "target must lie in"),
        (logits[:0], target[:0], "at least one sample"),
        (logits.softmax(1), target, "must not be probabilities"),
    ):
        with pytest.raises(InvalidInput, match=message):
            calibrator.fit(scores, labels)
    calibrator.fit(logits, target)
    with pytest.raises(InvalidInput, match=r"logits must have the 5 classes that \w+ was fitted on, got 4"):
        calibrator.transform(logits[:, :4])
    with pytest.raises(InvalidInput, match="logits must be finite"):
        calibrator.transform(nan)
    assert calibrator.transform(logits[:0]).shape == (0, 5)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ((1.0, 0.1), (0.9, 0.05), "improves NLL on the fitted data"),
        ((1.0, 0.1), (0.9, 0.15), "improves NLL on the fitted data but raises ECE"),
        ((1.0, 0.1), (1.1, 0.05), "lowers ECE on the fitted data but raises NLL"),
        ((1.0, 0.1), (1.1, 0.15), "makes things worse"),
        ((1.0, 0.1), (1.0, 0.15), "makes things worse"),
        ((1.0, 0.1), (1.0, 0.05), "lowers ECE on the fitted data"),
        ((1.0, 0.1), (1.0 + 1e-14, 0.1 - 1e-14), "changes nothing"),
    ],
)
def test_verdicts(before, after, verdict):
    figures = [dict(zip(("nll", "ece"), pair, strict=True)) for pair in (before, after)]
    assert FitReport("m", "nll", {}, True, 1, "", *figures).verdict == verdict
    assert FitReport("m", "nll", {}, False, 1, "", *figures).verdict.startswith("did not converge: the best parameters lie on the boundary")
    assert FitReport("m", "nll", {}, False, 1, "", *figures, note="a reason").verdict == "did not converge: a reason"


def test_a_fit_that_makes_things_worse_warns():
    # Calibrated already, and too few samples for so many bins: one pseudo-sample in each bin spoils it.
    logits = torch.tensor([[2.2, 0.0]] * 9 + [[2.2, 0.0]]).double()
    with pytest.warns(UserWarning, match="histogram calibration makes things worse"):
        CALIBRATORS["histogram"]().fit(logits, torch.tensor([0] * 9 + [1]))


def test_a_fit_that_the_samples_speak_against_is_harm():
    """Of ten samples of a calibrated network most temperatures are; of 2,000, and of an overconfident network, none is."""
    rng = torch.Generator().manual_seed(0)

    def harms(n, scale):
        logits = torch.randn(n, 3, generator=rng, dtype=torch.float64) * 2
        target = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
        return TemperatureScaling().fit(logits * scale, target, warn=False).harm(logits * scale, target)

    few = [harms(10, 1.0) for _ in range(40)]
    assert sum(each.startswith("raises the NLL of samples that it was not fitted to from ") for each in few) > 10
    assert sum(each.startswith("did not converge") for each in few) > 0
    assert [harms(2000, 1.0), harms(400, 2.0)] == ["", ""]
    assert harms(4, 1.0) != ""


def test_a_fit_that_makes_things_worse_is_harm():
    calibrator, logits = TemperatureScaling(), torch.tensor([[1.0, 0.0], [0.0, 1.0]] * 10)
    calibrator.fit(logits, torch.tensor([0, 1] * 9 + [1, 0]), warn=False)
    calibrator.report_ = dataclasses.replace(calibrator.report_, after={key: value + 1 for key, value in calibrator.report_.before.items()})
    assert calibrator.harm(logits, torch.tensor([0, 1] * 10)) == "makes things worse"
