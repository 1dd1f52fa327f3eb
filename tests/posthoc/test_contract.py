"""Every registered calibrator keeps the contract; a new one is tested by existing. And a broken promise is noticed."""

from typing import ClassVar

import pytest
import torch
from torch import nn

from rankmixup.errors import InvalidInput
from rankmixup.posthoc import CALIBRATORS, CalibrationModule, Calibrator, Fitted
from rankmixup.testing import CalibratorContract


def of(*, binary: bool) -> list[tuple[str, str]]:
    return [(name, objective) for name in CALIBRATORS if CALIBRATORS[name].binary <= binary for objective in CALIBRATORS[name].objectives]


class TestEveryCalibrator(CalibratorContract):
    @pytest.fixture(params=of(binary=False), ids="-".join)
    def calibrator(self, request: pytest.FixtureRequest) -> Calibrator:
        name, objective = request.param
        return CALIBRATORS[name](objective)


class TestEveryCalibratorOfTwoClasses(CalibratorContract):
    classes = 2

    @pytest.fixture(params=of(binary=True), ids="-".join)
    def calibrator(self, request: pytest.FixtureRequest) -> Calibrator:
        name, objective = request.param
        return CALIBRATORS[name](objective)


class Scaled(CalibrationModule):
    identity: ClassVar = {"scale": [1.0]}

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        return logits * self.scale.to(logits.dtype)


class OfTheBatch(Scaled):
    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        return super().forward(logits) - logits.mean(dim=0)


class Broken(Calibrator):
    """Halves all logits."""

    name = "broken"
    keeps_predictions = True

    def _fit(self, logits, target):
        return Fitted(Scaled(scale=self.scale(logits, target)), {"scale": 0.5})

    def scale(self, logits, target):
        return torch.full((logits.shape[1],), 0.5, dtype=torch.float64)


class Unregistered(Broken):
    pass


class ChangesPredictions(Broken):
    def scale(self, logits, target):
        return torch.linspace(-1, 1, logits.shape[1], dtype=torch.float64)


class Draws(Broken):
    def scale(self, logits, target):
        return torch.rand(logits.shape[1], dtype=torch.float64)


class Writes(Broken):
    def scale(self, logits, target):
        return super().scale(logits.mul_(1.5), target)


class Infinite(Broken):
    def scale(self, logits, target):
        return super().scale(logits, target) / (target != target[0]).double().sum()


class Batched(Broken):
    def _fit(self, logits, target):
        return Fitted(OfTheBatch(scale=self.scale(logits, target)), {"scale": 0.5})


class LosesItsState(Broken):
    def module(self):
        return Scaled()


class AnyObjective(Broken):
    def __post_init__(self):
        self.objective = self.objective or "nll"


class UnlistedNumbers(Broken):
    def _fit(self, logits, target):
        return super()._fit(logits, target)._replace(parameters={"scale": float("nan")})


class Forgiving(Broken):
    def transform(self, logits):
        return super().transform(torch.nan_to_num(torch.as_tensor(logits)))


BROKEN = {
    Unregistered: ("test_is_registered_and_takes_its_objectives", {}),
    AnyObjective: ("test_is_registered_and_takes_its_objectives", {}),
    ChangesPredictions: ("test_transform_keeps_shape_and_precision", {"dtype": torch.float64}),
    Batched: ("test_transform_keeps_shape_and_precision", {"dtype": torch.float64}),
    Draws: ("test_leaves_inputs_and_global_generators_alone", {}),
    Writes: ("test_leaves_inputs_and_global_generators_alone", {}),
    Infinite: ("test_odd_data_gives_probabilities", {"kind": "one class"}),
    LosesItsState: ("test_state_survives_saving", {}),
    UnlistedNumbers: ("test_fit_returns_itself_with_a_report", {}),
    Forgiving: ("test_refuses_bad_data_in_one_sentence", {}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_promise_is_noticed(kind):
    test, more = BROKEN[kind]
    with pytest.raises((AssertionError, InvalidInput, ValueError, RuntimeError, pytest.fail.Exception)):
        getattr(CalibratorContract(), test)(kind(), **more)


@pytest.mark.parametrize("test", {test: more for test, more in BROKEN.values() if "registered" not in test})
def test_what_is_not_broken_passes(test):
    more = next(more for name, more in BROKEN.values() if name == test)
    getattr(CalibratorContract(), test)(Broken(), **more)


def test_a_network_can_end_in_a_module_of_ones_own():
    fitted = Broken().fit(torch.tensor([[2.0, 0.0]] * 4), torch.tensor([0, 0, 0, 1]), warn=False)
    assert torch.equal(nn.Sequential(fitted.module())(torch.ones(1, 2)), torch.full((1, 2), 0.5))
