"""CRL: the loss, the history behind it, and one history for two processes."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.parallel import DistributedDataParallel

from rankmixup import TrainStep, objective
from rankmixup.errors import InvalidInput
from rankmixup.methods import CRL, CorrectnessHistory, crl_loss, cross_entropy_loss
from rankmixup.random import stream
from rankmixup.testing import TinyNet, toy_batch, two_processes
from rankmixup.types import Batch, Context
from tests.oracles import mixing as oracle
from tests.oracles import unchecked

CLASSES, SIZE = 4, 12


def random_case(seed: int, size: int = 6) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rng = stream(seed, "crl")
    logits = torch.randn(size, CLASSES, generator=rng, dtype=torch.float64)
    correctness = torch.randint(4, (size,), generator=rng).double() / 3
    return logits, torch.randint(CLASSES, (size,), generator=rng), correctness


def data() -> Batch:
    """A training set that a tiny network gets partly right."""
    return toy_batch(SIZE, CLASSES, seed=3)


# --- the loss


def test_value_by_hand() -> None:
    # Confidences 3/4, 1/2, 9/10; histories 1, 1, 0; pairs (0,1), (1,2), (2,0).
    #   (0,1): equal histories: 0.
    #   (1,2): c higher by 1, so p should be higher by 1; it is 0.5 - 0.9 = -0.4: 1 + 0.4 = 1.4.
    #   (2,0): c lower by 1; p_2 - p_0 = 0.15 should be at most -1: 1 + 0.15 = 1.15.
    # Labels at the largest logit: cross-entropies -ln of the confidences.
    probs = torch.tensor([[0.75, 0.25], [0.5, 0.5], [0.9, 0.1]], dtype=torch.float64)
    history = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
    target = torch.zeros(3, dtype=torch.long)
    losses = crl_loss(probs.log(), target, history, weight=2.0, reduction="none")
    expected = [-math.log(0.75), -math.log(0.5) + 2 * 1.4, -math.log(0.9) + 2 * 1.15]
    assert losses.tolist() == pytest.approx(expected, abs=1e-12)
    assert crl_loss(probs.log(), target, history, weight=2.0).item() == pytest.approx(sum(expected) / 3)
    assert crl_loss(probs.log(), target, history, weight=2.0, reduction="sum").item() == pytest.approx(sum(expected))


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 9), weight=st.floats(0, 5))
def test_agrees_with_the_naive_loop(seed: int, size: int, weight: float) -> None:
    logits, target, correctness = random_case(seed, size)
    losses = crl_loss(logits, target, correctness, weight=weight, reduction="none")
    assert losses.tolist() == pytest.approx(oracle.crl(logits.tolist(), target.tolist(), correctness.tolist(), weight), abs=1e-10)


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6))
def test_equal_histories_leave_cross_entropy(seed: int) -> None:
    logits, target, correctness = random_case(seed)
    same = torch.full_like(correctness, 0.5)
    assert torch.equal(crl_loss(logits, target, same), cross_entropy_loss(logits, target))
    assert torch.equal(crl_loss(logits, target, correctness, weight=0.0), cross_entropy_loss(logits, target))


def test_gradcheck() -> None:
    logits, target, correctness = random_case(0)
    assert torch.autograd.gradcheck(lambda z: crl_loss(z, target, correctness), logits.requires_grad_())


def test_history_is_a_constant() -> None:
    logits, target, correctness = random_case(0)
    crl_loss(logits.requires_grad_(), target, correctness.requires_grad_()).backward()
    assert correctness.grad is None
    assert logits.grad is not None


def test_refuses_what_does_not_belong_together() -> None:
    logits, target, correctness = random_case(0)
    with (
        unchecked(),
        pytest.raises(InvalidInput, match=r"^correctness must hold one number per row of logits, got shapes \[5\] and \[6, 4\]$"),
    ):
        crl_loss(logits, target, correctness[:5])


def test_bad_weights() -> None:
    logits, target, correctness = random_case(0)
    with pytest.raises(InvalidInput, match=r"^weight must be at least 0, got -1.0$"):
        crl_loss(logits, target, correctness, weight=-1.0)
    with pytest.raises(InvalidInput, match=r"^weight must be at least 0, got -0.5$"):
        CRL(weight=-0.5)


# --- the history


@settings(max_examples=50)
@given(
    epochs=st.lists(st.lists(st.booleans(), min_size=SIZE, max_size=SIZE), min_size=1, max_size=6),
    seed=st.integers(0, 10**6),
    counted=st.booleans(),
)
def test_normalised_as_published_whether_or_not_the_loop_counts_epochs(epochs: list[list[bool]], seed: int, counted: bool) -> None:
    rng, history, counts = stream(seed, "order"), CorrectnessHistory(SIZE), [0] * SIZE
    for number, correct in enumerate(epochs):
        for index in torch.randperm(SIZE, generator=rng).split(5):
            expected = oracle.crl_history(counts, epoch=number + 1)
            given_epoch = number if counted else 0
            assert history.normalised(index, given_epoch).tolist() == pytest.approx([expected[i] for i in index.tolist()])
            history.update(index, torch.tensor(correct)[index])
            for i in index.tolist():
                counts[i] += correct[i]
    assert history.correct.tolist() == counts
    assert history.visits.tolist() == [len(epochs)] * SIZE


@settings(max_examples=50)
@given(draws=st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=40), epoch=st.integers(0, 5))
def test_normalised_stays_in_the_unit_interval_when_samples_repeat(draws: list[tuple[int, bool]], epoch: int) -> None:
    history = CorrectnessHistory(5)
    for index, correct in draws:
        history.update(torch.tensor([index, index]), torch.tensor([correct, True]))
    values = history.normalised(torch.arange(5), epoch)
    assert ((values >= 0) & (values <= 1)).all()


def test_no_division_by_zero_when_all_were_always_correct() -> None:
    history, everyone = CorrectnessHistory(3), torch.arange(3)
    history.update(everyone, torch.ones(3, dtype=torch.bool))
    assert history.normalised(everyone, 1).tolist() == [0.0, 0.0, 0.0]


def test_counts_are_those_of_the_recorded_predictions() -> None:
    step, model, all_data = objective(CRL(), CLASSES, dataset_size=SIZE), TinyNet(CLASSES), data()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    rng, counts = stream(0, "order"), [0] * SIZE
    assert all_data.index is not None
    for epoch in range(4):
        step.epoch = epoch
        for index in torch.randperm(SIZE, generator=rng).split(5):
            before = step.state.normalised(index, epoch)
            out = step(model, all_data.x[index], all_data.y[index], index)
            assert out.logits is not None
            # The history behind a loss is the one before the step.
            torch.testing.assert_close(out.loss, crl_loss(out.logits, all_data.y[index], before))
            torch.testing.assert_close(out.terms["ce"], cross_entropy_loss(out.logits, all_data.y[index]).detach())
            torch.testing.assert_close(out.terms["ce"] + out.terms["ranking"], out.loss.detach())
            for i, logits in zip(index.tolist(), out.logits.tolist(), strict=True):
                counts[i] += logits.index(max(logits)) == int(all_data.y[i])
            optimiser.zero_grad()
            out.loss.backward()
            optimiser.step()
    assert 0 < sum(counts) < 4 * SIZE
    assert step.state.correct.tolist() == counts


def test_evaluation_leaves_the_history_alone() -> None:
    step, all_data = objective(CRL(), CLASSES, dataset_size=SIZE).eval(), data()
    step(TinyNet(CLASSES), all_data.x, all_data.y, all_data.index)
    assert step.state.visits.sum() == 0


def test_history_survives_a_checkpoint() -> None:
    step, all_data = objective(CRL(), CLASSES, dataset_size=SIZE), data()
    step(TinyNet(CLASSES), all_data.x, all_data.y, all_data.index)
    revived = objective(CRL(), CLASSES, dataset_size=SIZE)
    revived.load_state_dict(copy.deepcopy(step.state_dict()))
    assert torch.equal(revived.state.correct, step.state.correct)
    assert torch.equal(revived.state.visits, step.state.visits)
    assert revived.state.visits.sum() == SIZE


# --- what is refused


def test_needs_the_size_of_the_training_set() -> None:
    with pytest.raises(InvalidInput, match=r"^crl keeps a history of every training sample: dataset_size must be given, got None$"):
        objective("crl", CLASSES)
    with pytest.raises(InvalidInput, match=r"^dataset_size must be at least 1, got 0$"):
        objective("crl", CLASSES, dataset_size=0)


def test_needs_an_index() -> None:
    all_data = data()
    step = objective("crl", CLASSES, dataset_size=SIZE)
    with pytest.raises(InvalidInput, match=r"index must be given with every batch, got None$"):
        step(TinyNet(CLASSES), all_data.x, all_data.y)


def test_refuses_an_index_of_another_length() -> None:
    all_data = data()
    step = objective("crl", CLASSES, dataset_size=SIZE)
    with unchecked(), pytest.raises(InvalidInput, match=r"^index must hold one position per sample, got shapes \[3\] and \[12\]$"):
        step(TinyNet(CLASSES), all_data.x, all_data.y, torch.arange(3))


@pytest.mark.parametrize("wrong", [-1, SIZE])
def test_refuses_an_index_out_of_range_and_counts_nothing(wrong: int) -> None:
    all_data = data()
    step = objective("crl", CLASSES, dataset_size=SIZE)
    index = torch.arange(SIZE)
    index[3] = wrong
    with pytest.raises(InvalidInput, match=rf"^index must lie in 0..11, got {wrong}$"):
        step(TinyNet(CLASSES), all_data.x, all_data.y, index)
    assert step.state.visits.sum() == 0


def test_needs_its_state() -> None:
    ctx = Context(stream(0, "tests"), CLASSES)
    with pytest.raises(InvalidInput, match=r"^crl needs the history that its initial_state makes .* got NoneType$"):
        CRL()(TinyNet(CLASSES), data(), ctx)


# --- two processes


def train_one_rank(rank: int, epochs: int) -> tuple[list[int], list[int], list[tuple[int, bool]], list[list[int]]]:
    """History, visits, this rank's recorded (sample, was it right) and the samples of each epoch."""
    all_data, model = data(), TinyNet(CLASSES)
    inner = objective(CRL(), CLASSES, dataset_size=SIZE, rank=rank)
    step = DistributedDataParallel(TrainStep(model, inner))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    recorded, shares = [], []
    for epoch in range(epochs):
        inner.epoch = epoch
        # One order for both ranks, new in every epoch; unequal batches within it.
        mine = torch.randperm(SIZE, generator=stream(0, "shuffle", epoch))[rank::2]
        shares.append(mine.tolist())
        for index in mine.split(4 if rank == 0 else 3):
            out = step(all_data.x[index], all_data.y[index], index)
            recorded += list(zip(index.tolist(), (out.logits.argmax(1) == all_data.y[index]).tolist(), strict=True))
            optimiser.zero_grad()
            out.loss.backward()
            optimiser.step()
    return inner.state.correct.tolist(), inner.state.visits.tolist(), recorded, shares


@pytest.mark.dist
def test_two_ranks_share_one_history_while_samples_move_between_them() -> None:
    epochs = 5
    first, second = two_processes(train_one_rank, epochs)
    assert any(set(one) != set(first[3][0]) for one in first[3]), "samples must move between ranks"
    counts = [0] * SIZE
    for sample, correct in first[2] + second[2]:
        counts[sample] += correct
    assert 0 < sum(counts) < epochs * SIZE
    assert first[0] == second[0] == counts
    assert first[1] == second[1] == [epochs] * SIZE
