"""What every calibrator promises, as a test class to inherit."""

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor

from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.posthoc import CALIBRATORS, Calibrator
from rankmixup.registry import first_line
from rankmixup.testing.contracts import assert_no_global_randomness


class CalibratorContract:
    """Inherit from it, call the class `Test...` and give it the fixture `calibrator`, one not fitted yet; pytest runs every test below."""

    samples: int = 300
    classes: int = 4
    """2 for a calibrator that is `binary`."""

    def make_data(self, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Overconfident logits in float64 and labels."""
        rng = random.stream(seed, "calibrator contract")
        logits = 1.5 * torch.randn(self.samples, self.classes, generator=rng, dtype=torch.float64)
        return 2 * logits, torch.multinomial(logits.softmax(dim=1), 1, generator=rng).squeeze(1)

    def fitted(self, calibrator: Calibrator) -> Calibrator:
        """A copy, fitted to `make_data()`."""
        return copy.deepcopy(calibrator).fit(*self.make_data(), warn=False)

    def test_is_registered_and_takes_its_objectives(self, calibrator: Calibrator) -> None:
        """Commands find it by name and pass `objective` and `num_bins`; an objective that it does not have is refused."""
        kind = type(calibrator)
        assert CALIBRATORS[calibrator.name] is kind
        assert first_line(kind), "the class needs a docstring"
        assert [kind(objective, num_bins=7).objective for objective in kind.objectives] == list(kind.objectives)
        with pytest.raises(InvalidInput, match="objective"):
            kind("no objective at all")

    def test_fit_returns_itself_with_a_report(self, calibrator: Calibrator) -> None:
        """The report is JSON without NaN; arrays and lists give the same as tensors."""
        logits, target = self.make_data()
        report = self.fitted(calibrator).report_
        assert (report.method, report.samples) == (calibrator.name, self.samples)
        assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["verdict"] == report.verdict
        for data in ((logits.numpy(), target.numpy()), (logits.tolist(), target.tolist())):
            fitted = copy.deepcopy(calibrator)
            assert fitted.fit(*data, warn=False) is fitted
            assert fitted.report_ == report

    @pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
    def test_transform_keeps_shape_and_precision(self, calibrator: Calibrator, dtype: torch.dtype) -> None:
        """Half precision becomes float32; each row is calibrated by itself; predictions stay where `keeps_predictions` says so."""
        fitted, logits = self.fitted(calibrator), self.make_data(1)[0].to(dtype)
        found = fitted.transform(logits)
        assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        assert torch.equal(fitted.transform(logits.numpy()), found)
        for rows in (slice(3, 5), slice(0)):
            torch.testing.assert_close(fitted.transform(logits[rows]), found[rows])
        assert not calibrator.keeps_predictions or torch.equal(found.argmax(dim=1), logits.argmax(dim=1))

    def test_leaves_inputs_and_global_generators_alone(self, calibrator: Calibrator) -> None:
        """And gives the same each time."""
        logits, target = self.make_data()
        assert_no_global_randomness(lambda: copy.deepcopy(calibrator).fit(logits, target, warn=False).transform(logits))
        assert all(torch.equal(given, fresh) for given, fresh in zip((logits, target), self.make_data(), strict=True))

    def test_refuses_bad_data_in_one_sentence(self, calibrator: Calibrator) -> None:
        """Wrong shapes, labels of no class, NaN and nothing at all; and every use before the fit."""
        logits, target = self.make_data()
        fresh, fitted = copy.deepcopy(calibrator), self.fitted(calibrator)
        nan = logits.where(logits != logits[3, 1], torch.nan)
        bad = [(nan, target), (logits[:0], target[:0]), (logits, target[:-1]), (logits, target + 1), (logits[0], target)]
        calls: list[tuple[Callable[..., Any], tuple[Tensor, ...]]] = [(fresh.transform, (logits,)), (fresh.module, ())]
        calls += [(fitted.transform, (logits.repeat(1, 2),)), (fitted.transform, (nan,)), *((fresh.fit, data) for data in bad)]
        for call, arguments in calls:
            with pytest.raises(InvalidInput, match=r"^[^\n]+$"):
                call(*arguments)

    def test_state_survives_saving(self, calibrator: Calibrator) -> None:
        """The calibrator by pickle; its module by safetensors, into a new one of its class."""
        fitted, logits = self.fitted(calibrator), self.make_data(1)[0]
        expected, module = fitted.transform(logits), fitted.module()
        assert torch.equal(pickle.loads(pickle.dumps(fitted)).transform(logits), expected)  # noqa: S301 - made on this line
        revived = type(module)()
        revived.load_state_dict(load(save(module.state_dict())))
        torch.testing.assert_close(revived(logits), expected)

    @pytest.mark.parametrize("kind", ["one class", "one logit", "one sample", "all right", "all wrong", "constant"])
    def test_odd_data_gives_probabilities(self, calibrator: Calibrator, kind: str) -> None:
        """Finite ones that sum to 1, also if the fit failed."""
        logits, target = self.make_data()
        odd = {
            "one class": (logits, 0 * target),
            "one logit": (logits[:, 0], target == 0),
            "one sample": (logits[:1], target[:1]),
            "constant": (0 * logits, target),
        }
        odd |= {"all right": (logits, logits.argmax(dim=1)), "all wrong": (logits, logits.argmin(dim=1))}
        probs = copy.deepcopy(calibrator).fit(*odd[kind], warn=False).predict_proba(odd[kind][0])
        torch.testing.assert_close(probs.sum(dim=1), torch.ones(len(probs), dtype=torch.float64))
