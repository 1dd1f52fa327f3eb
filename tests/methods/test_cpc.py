import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from torch.utils._python_dispatch import TorchDispatchMode

from rankmixup.errors import InvalidInput
from rankmixup.functional import cpc_loss, cross_entropy_loss
from rankmixup.methods import CPC, cpc
from tests.oracles import losses as oracle


def test_value_by_hand():
    # Logits 0, ln 3, 0 and class 0: cross-entropy ln 5. BDC = (softplus(ln 3) + softplus(0)) / 2 = (ln 4 + ln 2) / 2.
    # BEC over the pairs of (ln 3, 0), each with itself included: (softplus(ln 3) + softplus(-ln 3) + 2 ln 2) / 4, which is
    # (ln 4 + ln 4/3 + ln 4) / 4.
    logits, target = torch.tensor([[0.0, math.log(3), 0.0]], dtype=torch.float64), torch.tensor([0])
    bdc, bec = math.log(8) / 2, math.log(64 / 3) / 4
    assert cpc_loss(logits, target).item() == pytest.approx(math.log(5) + 0.1 * bdc + bec)
    assert cpc_loss(logits, target, discrimination=1.0, exclusion=0.0).item() == pytest.approx(math.log(5) + bdc)


@pytest.mark.parametrize(("discrimination", "exclusion"), [(0.1, 1.0), (0.0, 1.0), (2.0, 0.0), (0.7, 3.0)])
@pytest.mark.parametrize("classes", [3, 4, 9])
def test_agrees_with_the_loop(rng, classes, discrimination, exclusion):
    logits, target = oracle.batch(rng, classes=classes)
    options = {"discrimination": discrimination, "exclusion": exclusion}
    torch.testing.assert_close(cpc_loss(logits, target, reduction="none", **options), oracle.each(oracle.cpc, logits, target, **options))


@pytest.mark.parametrize("pairs", [1, 200, 1000])
def test_pairs_taken_in_parts_give_the_same(rng, monkeypatch, pairs):
    logits, target = oracle.batch(rng, classes=12)
    logits.requires_grad_()
    whole = cpc_loss(logits, target)
    (gradient,) = torch.autograd.grad(whole, logits)
    monkeypatch.setattr(cpc, "_PAIRS_AT_ONCE", pairs)
    parts = cpc_loss(logits, target)
    torch.testing.assert_close(parts, whole)
    torch.testing.assert_close(torch.autograd.grad(parts, logits), (gradient,))


def test_pairs_of_a_class_with_itself_add_a_constant():
    # With equal other logits BEC is (K - 1)^2 / ((K - 1)(K - 2)) ln 2 / 2, of which (K - 1) of the (K - 1)^2 pairs are j = k.
    logits, target = torch.zeros(1, 6), torch.tensor([0])
    bec = cpc_loss(logits, target, discrimination=0.0) - cross_entropy_loss(logits, target)
    constant, pairs = math.log(2) / 2 / 4, math.log(2) / 2
    assert bec.item() == pytest.approx(pairs + constant)


def test_many_equal_classes_do_not_underflow():
    # Every factor of the products is 1/2 here, in float32: (K - 1)^2 / ((K - 1)(K - 2)) ln 2 / 2.
    logits, target = torch.zeros(2, 1000), torch.tensor([0, 999])
    bec = cpc_loss(logits, target, discrimination=0.0) - cross_entropy_loss(logits, target)
    assert bec.item() == pytest.approx(999 / 998 * math.log(2) / 2, rel=1e-5)


def test_without_weights_is_cross_entropy(rng):
    logits, target = oracle.batch(rng)
    assert cpc_loss(logits, target, discrimination=0.0, exclusion=0.0) == cross_entropy_loss(logits, target)


def test_reductions(rng):
    logits, target = oracle.batch(rng)
    each = cpc_loss(logits, target, reduction="none")
    torch.testing.assert_close(cpc_loss(logits, target), each.mean())
    torch.testing.assert_close(cpc_loss(logits, target, reduction="sum"), each.sum())


@pytest.mark.parametrize("pairs", [1, 1 << 20])
def test_gradient(rng, monkeypatch, pairs):
    monkeypatch.setattr(cpc, "_PAIRS_AT_ONCE", pairs)
    logits, target = oracle.batch(rng)
    assert torch.autograd.gradcheck(lambda z: cpc_loss(z, target, reduction="none"), logits.requires_grad_())


def test_a_second_derivative_is_refused_rather_than_wrong(rng):
    logits, target = oracle.batch(rng)
    with pytest.raises(InvalidInput, match="create_graph must be False"):
        torch.autograd.grad(cpc_loss(logits.requires_grad_(), target), logits, create_graph=True)


@given(oracle.batches(min_classes=3))
def test_exclusion_is_least_when_the_other_classes_are_equal(batch):
    logits, target = batch
    level = logits.mean(dim=1, keepdim=True).expand_as(logits)
    ce, level_ce = (cross_entropy_loss(z, target, reduction="none") for z in (logits, level))
    bec = cpc_loss(logits, target, discrimination=0.0, reduction="none") - ce
    least = cpc_loss(level, target, discrimination=0.0, reduction="none") - level_ce
    assert (bec >= least - 1e-9).all()


@given(oracle.batches(min_classes=3))
def test_exclusion_does_not_see_the_true_class(batch):
    logits, target = batch
    logits = logits.clone().requires_grad_()
    exclusion = cpc_loss(logits, target, discrimination=0.0) - cross_entropy_loss(logits, target)
    (gradient,) = torch.autograd.grad(exclusion, logits)
    assert gradient.gather(1, target.unsqueeze(1)).abs().max() < 1e-12
    assert gradient.sum(dim=1).abs().max() < 1e-12  # only differences count


def test_extreme_logits_stay_finite():
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 1e4], [0.0, 1e4, -1e4]], requires_grad=True)
    losses = cpc_loss(logits, torch.tensor([0, 0, 0]), reduction="none")
    losses.sum().backward()
    assert losses.isfinite().all()
    assert logits.grad.isfinite().all()
    # Third row: cross-entropy 1e4, BDC (1e4 + 0) / 2 at 0.1, BEC (2e4 + 2 ln 2) / 4.
    assert losses[2].item() == pytest.approx(1e4 + 500 + 5e3, rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gives_a_float32_loss(rng, dtype):
    logits, target = oracle.batch(rng)
    half = logits.to(dtype).requires_grad_()
    loss = cpc_loss(half, target)
    assert loss.dtype == torch.float32
    assert loss == cpc_loss(half.float(), target)
    loss.backward()
    assert half.grad.dtype == dtype


def test_autocast_changes_nothing(rng):
    logits, target = oracle.batch(rng)
    logits = logits.float()
    with torch.autocast("cpu", torch.bfloat16):
        inside = cpc_loss(logits, target)
    assert inside == cpc_loss(logits, target)


class LargestTensor(TorchDispatchMode):
    """Remembers the size of the largest tensor that any operation gives back."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.numel())
        return out


def test_no_tensor_holds_all_pairs(rng, monkeypatch):
    monkeypatch.setattr(cpc, "_PAIRS_AT_ONCE", 2000)
    logits, target = oracle.batch(rng, size=8, classes=60)
    with LargestTensor() as largest:
        cpc_loss(logits.requires_grad_(), target).backward()
    assert 8 * 60 <= largest.elements <= 2000 < 8 * 59 * 59


MEMORY = """
import re
from pathlib import Path
import torch
from rankmixup.functional import cpc_loss

def peak():  # in kB; unlike getrusage it starts anew with the process
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

rng = torch.Generator().manual_seed(0)
logits = torch.randn(256, 1000, generator=rng, requires_grad=True)
target = torch.randint(1000, (256,), generator=rng)
cpc_loss(logits[:2, :3], target[:2] % 3).backward()
before = peak()
cpc_loss(logits, target).backward()
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from Linux's /proc")
def test_a_thousand_classes_fit_in_memory():
    run = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    # All pairs at once would be 256 * 999^2 * 4 bytes = 1 GB for each tensor.
    assert int(run.stdout) < 100_000


def test_the_method_is_the_loss(rng):
    logits, target = oracle.batch(rng)
    assert CPC() == CPC(discrimination=0.1, exclusion=1.0)
    assert CPC().loss(logits, target) == cpc_loss(logits, target, discrimination=0.1, exclusion=1.0)
    method = CPC(discrimination=0.5, exclusion=0.2)
    assert method.loss(logits, target) == cpc_loss(logits, target, discrimination=0.5, exclusion=0.2)


@pytest.mark.parametrize("value", [-1.0, math.nan])
@pytest.mark.parametrize("name", ["discrimination", "exclusion"])
def test_bad_weights(rng, name, value):
    with pytest.raises(InvalidInput, match=f"{name} must be at least 0, got {value}"):
        cpc_loss(*oracle.batch(rng), **{name: value})
    with pytest.raises(InvalidInput, match=f"{name} must"):
        CPC(**{name: value})


def test_two_classes_are_too_few(rng):
    with pytest.raises(InvalidInput, match=r"logits must have at least 3 classes, .*, got 2"):
        cpc_loss(*oracle.batch(rng, classes=2))


def test_bad_target(rng):
    logits, target = oracle.batch(rng)
    with pytest.raises(InvalidInput, match=r"target must lie in 0\.\.4, got -1"):
        cpc_loss(logits, torch.full_like(target, -1))
