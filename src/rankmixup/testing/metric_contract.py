"""What every registered metric and every streaming metric promises, as test classes to inherit."""

import contextlib
import pickle
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torchmetrics import Metric

from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import METRICS, evaluate
from rankmixup.testing.contracts import assert_no_global_randomness, two_processes


class RegisteredMetricContract:
    """Inherit from it, call the class `Test...` and give it the fixture `key`, of a metric in `METRICS`; pytest runs every test below."""

    samples: ClassVar[int] = 120
    classes: ClassVar[int] = 6

    def make_data(self, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Logits in float64 and labels that are right often but not always."""
        rng = random.stream(seed, "registered metric contract")
        logits = 2 * torch.randn(self.samples, self.classes, generator=rng, dtype=torch.float64)
        return logits, torch.multinomial(logits.softmax(dim=1), 1, generator=rng).squeeze(1)

    def value(self, key: str, logits: Tensor, target: Tensor) -> Tensor:
        """What the function returns, or its mean over the samples."""
        metric = METRICS[key]
        assert metric.function is not None
        return torch.as_tensor(metric.function(logits if metric.needs == "logits" else logits.softmax(dim=1), target)).double().mean()

    def test_an_evaluation_has_its_value_and_interval(self, key: str) -> None:
        """The value is the function's, within its range, and the interval is around it."""
        logits, target = self.make_data()
        estimate = evaluate(logits, target, replicates=100).metrics[key]
        assert estimate is not None
        assert estimate.value == pytest.approx(self.value(key, logits, target).item(), abs=1e-9)
        assert estimate.low is not None
        assert estimate.high is not None
        assert 0 <= estimate.low <= estimate.high <= METRICS[key].most
        assert 0 <= estimate.value <= METRICS[key].most

    def test_order_does_not_matter(self, key: str) -> None:
        """The samples of a test set have no order."""
        logits, target = self.make_data()
        order = torch.randperm(self.samples, generator=random.stream(0, "order"))
        assert_same(self.value(key, logits[order], target[order]), self.value(key, logits, target))

    def test_leaves_inputs_and_global_generators_alone(self, key: str) -> None:
        """And returns the same each time."""
        logits, target = self.make_data()
        assert_no_global_randomness(lambda: self.value(key, logits, target))
        given = logits if METRICS[key].needs == "logits" else logits.softmax(dim=1)
        before = given.clone(), target.clone()
        METRICS[key].function(given, target)  # type: ignore[misc]
        assert torch.equal(given, before[0])
        assert torch.equal(target, before[1])

    def test_few_and_equal_samples_are_within_range(self, key: str) -> None:
        """One sample, samples of one class, all right and all wrong; a metric that is undefined there may refuse them."""
        logits, target = self.make_data()
        for data in (logits[:1], target[:1]), (logits, 0 * target), (logits, logits.argmax(dim=1)), (logits, logits.argmin(dim=1)):
            with contextlib.suppress(InvalidInput):
                assert 0 <= self.value(key, *data).item() <= METRICS[key].most


Make = Callable[[], Metric]
Function = Callable[..., Any]


class MetricContract:
    """Inherit from it, call the class `Test...` and give it the fixtures `metric` and `function`; pytest then runs every test below.

    `metric` builds the streaming metric under test, which must pickle; `function(logits, target)` is the pure function of the same name.
    """

    samples: ClassVar[int] = 120
    classes: ClassVar[int] = 10
    _computed_by_both: ClassVar[dict[tuple[Make, ...], tuple[Any, Any]]] = {}

    def companions(self, metric: Make) -> tuple[Make, ...]:
        """Metrics to run in one pair of processes, which take seconds to start; of them, the one under test is one."""
        return (metric,)

    def make_data(self, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Logits in float64 and labels that are right often but not always; some confidences are tied."""
        rng = random.stream(seed, "metric contract")
        logits = 2 * torch.randn(self.samples, self.classes, generator=rng, dtype=torch.float64)
        target = torch.multinomial(logits.softmax(dim=1), 1, generator=rng).squeeze(1)
        logits[-10:] = logits[:10]
        return logits, target

    def test_batches_give_what_the_whole_gives(self, metric: Make, function: Function) -> None:
        """In any batches and any order, ties included; also of one sample; and again after a reset."""
        logits, target = self.make_data()
        streaming = metric()
        for size in (self.samples, 37, 1):
            order = torch.randperm(self.samples, generator=random.stream(size, "order"))
            for part in order.split(size):
                streaming.update(logits[part], target[part])
            assert_same(streaming.compute(), function(logits, target))
            assert_same(function(logits[order], target[order]), function(logits, target))
            streaming.reset()

    def test_forward_gives_the_value_of_the_batch(self, metric: Make, function: Function) -> None:
        """And adds it, as torchmetrics promises."""
        logits, target = self.make_data()
        streaming = metric()
        for half in (slice(self.samples // 2), slice(self.samples // 2, None)):
            assert_same(streaming(logits[half], target[half]), function(logits[half], target[half]))
        assert_same(streaming.compute(), function(logits, target))

    def test_nothing_seen_is_refused(self, metric: Make) -> None:
        """In one sentence, before the first batch and after a reset; torchmetrics warns as well."""
        reset = _updated(metric, self.make_data())
        reset.reset()
        for streaming in (metric(), reset):
            with pytest.warns(UserWarning, match="before the ``update`` method"), pytest.raises(InvalidInput, match="at least one sample"):
                streaming.compute()

    def test_a_bad_batch_is_refused_and_changes_nothing(self, metric: Make, function: Function) -> None:
        """The batches before and after it still count."""
        logits, target = self.make_data()
        streaming = _updated(metric, (logits[:50], target[:50]))
        with pytest.raises(InvalidInput):
            streaming.update(logits.where(logits != logits[3, 0], torch.nan), target)
        streaming.update(logits[50:], target[50:])
        assert_same(streaming.compute(), function(logits, target))

    def test_state_grows_only_by_numbers_per_sample(self, metric: Make) -> None:
        """Sums do not grow at all; metrics of ranks keep at most two numbers for each sample, never the scores."""
        batches = [self.make_data(seed) for seed in range(3)]
        sizes = [sum(part.numel() for part in _state(_updated(metric, *batches[:count]))) for count in (1, 2, 3)]
        growth = 0 if all(isinstance(default, Tensor) for default in metric()._defaults.values()) else 2 * self.samples
        assert sizes[1] - sizes[0] == sizes[2] - sizes[1] == growth

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_half_precision_is_summed_in_full(self, metric: Make, function: Function, dtype: torch.dtype) -> None:
        """The same as its rounded scores in float32; a thousand of them lose nothing on the way."""
        logits, target = self.make_data()
        rounded = logits.to(dtype)
        streaming = _updated(metric, *[(rounded, target)] * 10)
        assert_same(streaming.compute(), function(rounded.float().repeat(10, 1), target.repeat(10)))

    def test_state_pickles_and_has_no_gradients(self, metric: Make, function: Function) -> None:
        """Checkpoints and launchers pickle it; scores straight from a model do not drag its graph along."""
        logits, target = self.make_data()
        streaming = _updated(metric, (logits.clone().requires_grad_(), target))
        assert not any(part.requires_grad for part in _state(streaming))
        revived = pickle.loads(pickle.dumps(streaming))  # noqa: S301 - made on this line
        assert_same(revived.compute(), function(logits, target))

    @pytest.mark.dist
    def test_two_processes_give_what_one_gives(self, metric: Make, function: Function) -> None:
        """However unequal their shares, also if one has seen nothing."""
        companions = self.companions(metric)
        if companions not in self._computed_by_both:
            job = [make() for make in companions], *self.make_data(), (self.samples // 3, self.samples)
            self._computed_by_both[companions] = two_processes(_compute, *job)
        for rank in self._computed_by_both[companions]:
            for result in rank[companions.index(metric)]:
                assert_same(result, function(*self.make_data()))


def _updated(metric: Make, *batches: tuple[Tensor, Tensor]) -> Metric:
    streaming = metric()
    for batch in batches:
        streaming.update(*batch)
    return streaming


def _state(metric: Metric) -> list[Tensor]:
    states = [getattr(metric, name) for name in metric._defaults]
    return [part for state in states for part in (state if isinstance(state, list) else [state])]


def _compute(rank: int, metrics: list[Metric], logits: Tensor, target: Tensor, shares: tuple[int, ...]) -> list[list[Any]]:
    results: list[list[Any]] = [[] for _ in metrics]
    for metric, found in zip(metrics, results, strict=True):
        for share in shares:
            mine = slice(0, share) if rank == 0 else slice(share, None)
            if len(target[mine]) > 0:
                metric.update(logits[mine], target[mine])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # torchmetrics' about compute without update
                found.append(metric.compute())
            metric.reset()
    return results


def assert_same(ours: Any, theirs: Any) -> None:
    """Equal up to the rounding of float64, through dictionaries."""
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-12, check_dtype=False)
