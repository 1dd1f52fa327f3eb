"""What every calibrator shares: the fit report, the checks, the module that does the work."""

import copy
import hashlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from rankmixup.errors import InvalidInput, require, require_choice
from rankmixup.files import reason
from rankmixup.metrics.calibration import bin_top_label
from rankmixup.metrics.inputs import check_scores, class_scores, scores_and_labels
from rankmixup.metrics.rows import check_num_bins, row_slices
from rankmixup.ops import ArrayLike, upcast
from rankmixup.posthoc.report import FitReport
from rankmixup.registry import Registry

C = TypeVar("C", bound="Calibrator")
Result = TypeVar("Result")

_LARGEST = 1e30
"""Logits beyond this overflow when they are squared or scaled; no network gives them."""
_CHUNK = 2**15 - 1
"""Numbers of a slice of rows: one less than torch splits over threads; in float64 they stay in a core's own cache."""
PARTS = 5
"""Of the samples that a calibrator is fitted to, for the test whether it helps those that it is not fitted to."""
_MANY = 1000
"""Samples that a fit of a few parameters cannot harm."""
_COST = 0.005
"""By how much NLL may rise: what a fit of a few parameters to a network that needs none costs, of a hundred samples."""


class CalibrationModule(nn.Module):
    """Maps logits [B, K] to calibrated logits [B, K]; can sit behind a model. One logit of class 1, [B, 1], becomes two.

    What was fitted is held in float64 buffers, which no optimiser changes. They stay float64 when a whole network is made `.float()` or
    `.half()`, since steps between neighbouring samples would be rounded away; only a device that has no float64 gets float32.
    Logits come back in the precision they came in. A subclass names its buffers in `identity`, with values that change nothing.
    """

    identity: ClassVar[dict[str, Any]] = {}

    def __init__(self, **state: Any):
        super().__init__()
        for name, value in (self.identity | state).items():
            self.register_buffer(name, torch.as_tensor(value, dtype=torch.float64))
        self.register_forward_pre_hook(_two_logits)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "CalibrationModule":
        def moved(buffer: Tensor) -> Tensor:
            try:
                return buffer.to(fn(buffer).device)
            except TypeError:  # what torch raises where there is no float64
                return fn(buffer.float())

        return super()._apply(moved, recurse)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # A map fitted on other data may have more steps or classes: the buffers take the shapes they are given.
        for name, buffer in self._buffers.items():
            if buffer is not None and prefix + name in state_dict:
                self._buffers[name] = buffer.new_empty(state_dict[prefix + name].shape)
        super()._load_from_state_dict(state_dict, prefix, *args)


def _two_logits(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """As `class_scores`, in any number of dimensions."""
    (logits,) = inputs
    return (torch.cat([torch.zeros_like(logits), logits], dim=-1) if logits.shape[-1] == 1 else logits,)


class Fitted(NamedTuple):
    """What a method found."""

    module: CalibrationModule
    parameters: dict[str, float | list[float]]
    converged: bool = True
    note: str = ""


@dataclass
class Calibrator(ABC):
    """Fitted on held-out logits and labels, it turns other logits of the same model into calibrated ones.

    A subclass implements `_fit` and is registered with `register_calibrator`; its own options are fields of a dataclass.
    """

    objective: str | None = None
    """What the fit minimises, one of `objectives`; the first of them if None."""
    num_bins: int = 15
    """Bins of the ECE in the report, 1 to 1,000; of histogram binning also its own."""
    _module: CalibrationModule | None = field(init=False, repr=False, compare=False, default=None)

    name: ClassVar[str]
    objectives: ClassVar[tuple[str, ...]] = ("nll",)
    keeps_predictions: ClassVar[bool] = False
    """Whether the predicted class of a sample never changes."""
    binary: ClassVar[bool] = False
    """Whether it is for two classes only."""
    module_type: ClassVar[type[CalibrationModule]]
    """What `_fit` makes; with it, a fitted calibrator can be stored and restored."""

    def __post_init__(self) -> None:
        self.objective = self.objectives[0] if self.objective is None else self.objective
        require_choice(f"objective of {type(self).__name__}", self.objective, self.objectives)
        check_num_bins(self.num_bins)

    @abstractmethod
    def _fit(self, logits: Float[Tensor, "N K"], target: Int[Tensor, " N"]) -> Fitted:
        """Find the parameters from checked logits of any precision on the CPU."""

    def fit(self: C, logits: ArrayLike, target: ArrayLike, *, split: str = "", warn: bool = True) -> C:
        """Fit to held-out data and return the calibrator itself; `report_` says what the fit did.

        Args:
            logits: Logits `[N, K]` of the model, as a tensor, an array or a list; of class 1 alone `[N]` or `[N, 1]`.
            target: The right class of each sample, `[N]`.
            split: Name of the data, for the report.
            warn: Whether to warn of a fit that did not converge or makes things worse. The report says so in any case.
        """
        check_num_bins(self.num_bins)
        check_scores(logits, target)
        logits, target = scores_and_labels(logits, target, from_logits=True)
        classes = logits.shape[1]
        require(classes == 2 or not self.binary, f"logits must be of two classes for {self.name} calibration, got {classes} classes")
        _check_size(logits)
        logits, target = logits.detach().cpu(), target.cpu()
        fitted = self._fit(logits, target)
        before, after = (_nll_and_ece(module, logits, target, self.num_bins) for module in (nn.Identity(), fitted.module))
        self._module, self._classes, self._fingerprint = fitted.module, logits.shape[1], _fingerprint(logits)
        _, parameters, converged, note = fitted
        self.report_ = FitReport(self.name, str(self.objective), parameters, converged, len(target), split, before, after, note)
        if warn and (not converged or self.report_.verdict == "makes things worse"):
            warnings.warn(f"{self.name} calibration {self.report_.verdict}", stacklevel=2)
        return self

    def transform(self, logits: ArrayLike) -> Float[Tensor, "N K"]:
        """Calibrated logits, or log-probabilities where the method works on probabilities.

        Computed in float64 and returned in the precision of the logits; for half-precision logits in float32. Logits of class 1,
        `[N]` or `[N, 1]`, become those of both classes, `[N, 2]`.
        """
        module = self._fitted_module("transforms")
        logits = class_scores(logits, from_logits=True)
        same = logits.shape[1] == self._classes
        require(same, f"logits must have the {self._classes} classes that {type(self).__name__} was fitted on, got {logits.shape[1]}")
        _check_size(logits)
        with torch.no_grad():
            made: Tensor = module.to(logits.device)(logits.double()).to(upcast(logits[:0]).dtype)
        require(not bool(made.isnan().any()), f"what {self.name!r} was fitted to must make probabilities of logits, it does not")
        return made

    def predict_proba(self, logits: ArrayLike) -> Float[Tensor, "N K"]:
        """Calibrated probabilities."""
        return self.transform(logits).softmax(dim=1)

    def module(self) -> CalibrationModule:
        """What was fitted as an `nn.Module` of its own: `nn.Sequential(model, calibrator.module())` gives calibrated logits."""
        return copy.deepcopy(self._fitted_module("becomes a module")).cpu()

    @classmethod
    def restored(cls: type[C], report: FitReport, state: Mapping[str, Tensor], num_classes: int) -> C:
        """The fitted calibrator whose `report_` and `module().state_dict()` these are."""
        kind = getattr(cls, "module_type", None)
        if kind is None:
            raise InvalidInput(f"calibrator {cls.name!r} must have a module_type to be restored, it has none")
        calibrator, module = cls(report.objective), kind()
        try:
            module.load_state_dict(dict(state))
        except RuntimeError as error:
            raise InvalidInput(f"what {cls.name!r} was fitted to must be {', '.join(kind.identity)}, got {sorted(state)}") from error
        finite = all(bool(value.isfinite().all()) for value in module.buffers())
        require(finite, f"what {cls.name!r} was fitted to must be finite, it is not")
        _check_module(module, num_classes, cls.keeps_predictions, f"what {cls.name!r} was fitted to")
        calibrator._module, calibrator._classes, calibrator._fingerprint = module, num_classes, ""
        calibrator.report_ = report
        return calibrator

    def harm(self, logits: ArrayLike, target: ArrayLike) -> str:
        """Why the samples that it was fitted to say that it should not be applied, in words; empty if they do not.

        Its fit did not converge or made things worse, or, with fewer than 1,000 samples, calibrators like it, each fitted to four fifths of
        them, raise the NLL of the last fifth by more than fitting a few parameters costs anyway.
        """
        verdict = self.report_.verdict
        if not self.report_.converged or verdict == "makes things worse":
            return verdict
        if len(target) < PARTS or len(target) >= _MANY:
            return "" if len(target) >= _MANY else f"is fitted to fewer than {PARTS} samples"
        before, after = self.report_.before["nll"], self.unfitted_nll(logits, target)
        rises = f"raises the NLL of samples that it was not fitted to from {before:.3f} to {after:.3f}"
        return rises if after > before + _COST else ""

    def unfitted_nll(self, logits: ArrayLike, target: ArrayLike, part: Int[Tensor, " N"] | None = None) -> float:
        """NLL of samples after calibrators that were not fitted to them: each of five parts after one fitted to the other four.

        `part` is that of each sample, 0 to 4; by default they take turns.
        """
        logits, target = scores_and_labels(logits, target, from_logits=True)
        part, total = torch.arange(len(target)) % PARTS if part is None else part, 0.0
        for each in range(PARTS):
            others = copy.deepcopy(self).fit(logits[part != each], target[part != each], warn=False)
            total += F.cross_entropy(others.transform(logits[part == each]).double(), target[part == each], reduction="sum").item()
        return total / len(target)

    def fitted_on_same(self, logits: ArrayLike) -> bool:
        """Whether these are the logits it was fitted on: a result on them is no evidence."""
        self._fitted_module("compares data")
        return _fingerprint(class_scores(logits, from_logits=True).detach().cpu()) == self._fingerprint

    def _fitted_module(self, action: str) -> CalibrationModule:
        if self._module is None:
            raise InvalidInput(f"{type(self).__name__} must be fitted before it {action}, call fit(logits, target) first")
        return self._module


CALIBRATORS: Registry[type[Calibrator]] = Registry("calibrator", "rankmixup.calibrators")
"""Every calibrator by name, those of installed packages included."""
register_calibrator = CALIBRATORS.register
"""Class decorator that adds a calibrator under a name, which commands and `rm.evaluate` then take."""


def _check_module(module: CalibrationModule, num_classes: int, keeps_predictions: bool, name: str) -> None:
    """Raise unless the module makes probabilities of logits: what is read may have other shapes, or a temperature of 0 or below."""
    probe = torch.zeros(3, num_classes, dtype=torch.float64)
    probe[1, 0] = 100.0
    try:
        with torch.no_grad():
            module(probe[:2])  # parameters of a row each would fit one number of rows
            made = module(probe).softmax(dim=1)
    except (RuntimeError, ValueError, IndexError) as error:
        raise InvalidInput(f"{name} must have the shapes for {num_classes} classes, it does not ({reason(error)})") from error
    require(made.shape == probe.shape, f"{name} must have the shapes for {num_classes} classes, it gives {list(made.shape)}")
    valid = not bool(made.isnan().any()) and (not keeps_predictions or bool(made[1, 0] >= made[1].max()))
    require(valid, f"{name} must make probabilities of logits, such as a temperature above 0 does, it does not")


def over_rows(logits: Float[Tensor, "N K"], compute: Callable[[Tensor, slice], Result]) -> list[Result]:
    """Results of `compute` for rows in float64 and their place, few enough to stay in a core's own cache, in the order of the rows.

    Slices are spread over as many threads as torch may use and are too small for torch to split again: threads that meet
    after every operation cost more than they bring, and very much more on a busy machine.
    """
    slices, threads = row_slices(logits, _CHUNK), torch.get_num_threads()
    if threads == 1 or len(slices) < 16:
        return [compute(logits[place].double(), place) for place in slices]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda place: compute(logits[place].double(), place), slices))


def softmax_top(logits: Float[Tensor, "n K"]) -> tuple[Float[Tensor, " n"], Int[Tensor, " n"], Float[Tensor, " n"]]:
    """Of each row the largest logit, its class, and the sum of exp(logit - largest): its softmax probability is one over that.

    Not torch's softmax, which splits even a small slice over threads.
    """
    top, prediction = logits.max(dim=1)
    return top, prediction, (logits - top.unsqueeze(1)).exp_().sum(dim=1)


def _check_size(logits: Tensor) -> None:
    low, high = (bound.item() for bound in logits.aminmax()) if len(logits) > 0 else (0.0, 0.0)
    # NaN fails both comparisons.
    require(low >= -_LARGEST and high <= _LARGEST, f"logits must be finite and at most {_LARGEST:g} in size, got {low:.6g} to {high:.6g}")


def _nll_and_ece(module: nn.Module, logits: Tensor, target: Tensor, num_bins: int) -> dict[str, float]:
    """NLL and ECE of what `module` makes of the logits."""

    def part(rows: Tensor, place: slice) -> tuple[Tensor, Tensor, Tensor]:
        # Not `metrics.rows.Rows`, which takes more than twice as long.
        scores = module(rows)
        top, prediction, total = softmax_top(scores)
        right = scores.gather(1, target[place].unsqueeze(1)).squeeze(1)
        return total.log() + (top - right), total.reciprocal(), (prediction == target[place]).double()

    nll, confidence, correct = (torch.cat(column) for column in zip(*over_rows(logits, part), strict=True))
    return {"nll": nll.mean().item(), "ece": bin_top_label(confidence, correct, num_bins).ece().item()}


def _fingerprint(logits: Tensor) -> str:
    """Hash of the shape and of rows spread evenly; in float64, so that a float32 copy on disk is still the same data."""
    # About a million numbers: all of a large matrix would cost as much as the fit.
    rows = logits[:: max(1, logits.numel() // 2**20)].double().contiguous() + 0.0  # -0.0 becomes 0.0
    return hashlib.sha256(str(list(logits.shape)).encode() + rows.numpy().tobytes()).hexdigest()
