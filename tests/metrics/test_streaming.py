import pytest
import torch

from rankmixup import functional as F
from rankmixup import metrics
from rankmixup.errors import InvalidInput
from tests.oracles.metrics import random_probs

PAIRS = [
    (metrics.Accuracy, F.accuracy),
    (metrics.NegativeLogLikelihood, F.negative_log_likelihood),
    (metrics.ExpectedCalibrationError, F.expected_calibration_error),
    (metrics.MaximumCalibrationError, F.maximum_calibration_error),
    (metrics.OverconfidenceError, F.overconfidence_error),
    (metrics.UnderconfidenceError, F.underconfidence_error),
    (metrics.AdaptiveCalibrationError, F.adaptive_calibration_error),
]


@pytest.mark.parametrize(("streaming", "function"), PAIRS)
def test_batches_give_what_the_whole_gives(streaming, function, rng):
    probs, target = random_probs(500, 10, rng)
    metric = streaming()
    for part in torch.randperm(500, generator=rng).split(37):
        metric.update(probs[part], target[part])
    assert metric.compute().item() == pytest.approx(function(probs, target).item(), abs=1e-12)
    metric.reset()
    metric.update(probs[:3].log(), target[:3]) if metric.from_logits else metric.update(probs[:3], target[:3])
    assert metric.compute().item() == pytest.approx(function(probs[:3], target[:3]).item(), abs=1e-12)


@pytest.mark.parametrize("streaming", [pair[0] for pair in PAIRS])
def test_an_empty_metric_is_refused(streaming):
    with pytest.warns(UserWarning, match="before the ``update`` method"), pytest.raises(InvalidInput, match="at least one sample"):
        streaming().compute()


def test_binned_state_does_not_grow(rng):
    metric = metrics.ExpectedCalibrationError(from_logits=True)
    for _ in range(20):
        metric.update(torch.randn(100, 10, generator=rng), torch.randint(10, (100,), generator=rng))
    assert sum(getattr(metric, name).numel() for name in metric._defaults) == 3 * 15 + 1


def _merge(rank: int, path: str) -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    probs, target = random_probs(101, 10, torch.Generator().manual_seed(0))
    mine = slice(0, 60) if rank == 0 else slice(60, 101)
    for streaming, function in PAIRS:
        metric = streaming()
        metric.update(probs[mine], target[mine])
        assert metric.compute().item() == pytest.approx(function(probs, target).item(), abs=1e-12), streaming
    dist.destroy_process_group()


@pytest.mark.dist
def test_two_processes_with_unequal_shares_give_what_the_whole_gives(tmp_path):
    torch.multiprocessing.spawn(_merge, (str(tmp_path / "store"),), nprocs=2)
