"""What every training-time method promises, as a test class to inherit."""

import copy
import functools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from rankmixup.methods import Method, Objective, TrainStep, cross_entropy_loss, objective
from rankmixup.testing.contracts import ConfiguredContract, TinyNet, assert_no_global_randomness, toy_batch, two_processes
from rankmixup.types import Batch, StepOutput


class MethodContract(ConfiguredContract):
    """Inherit from it, call the class `Test...` and give it a fixture `method`; pytest then runs every test below.

    `make_model` and `make_batch` may be overridden for a method that needs other inputs than images.
    """

    num_classes = 4
    dataset_size = 32
    _under_ddp: ClassVar[dict[tuple[Method, ...], tuple[list[list[float]], list[list[float]]]]] = {}

    subject = pytest.fixture(lambda self, method: method)

    def make_model(self) -> nn.Module:
        """A fresh model in training mode, the same one every time."""
        return TinyNet(self.num_classes)

    def make_batch(self, size: int = 8, seed: int = 0) -> Batch:
        """A batch of `size` samples."""
        return toy_batch(size, self.num_classes, seed=seed)

    def make_objective(self, method: Method, seed: int = 0) -> Objective:
        """The method made ready, with everything any method may ask for."""
        return objective(method, seed=seed, **self.options)

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of `rankmixup.objective`."""
        counts = [10 * 2**k for k in range(self.num_classes)]
        return {"num_classes": self.num_classes, "class_counts": counts, "dataset_size": self.dataset_size}

    def companions(self, method: Method) -> tuple[Method, ...]:
        """The methods to train under DDP when `method` is; override to start two processes once for all of them."""
        return (method,)

    def _step(self, method: Method, model: nn.Module | None = None, batch: Batch | None = None, seed: int = 0) -> StepOutput:
        batch = batch or self.make_batch()
        return self.make_objective(method, seed)(model or self.make_model(), batch.x, batch.y, batch.index)

    def _check_finite(self, method: Method, batch: Batch) -> None:
        model = self.make_model()
        loss = self._step(method, model, batch).loss
        loss.backward()
        assert loss.isfinite()
        assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())

    def test_loss_is_a_finite_scalar(self, method: Method) -> None:
        """Whatever is drawn, with logits of the raw samples, or none, and detached terms for the log."""
        for seed in range(11):
            output = self._step(method, seed=seed)
            assert output.loss.shape == ()
            assert output.loss.isfinite(), f"the loss with seed {seed} is not finite"
            assert output.logits is None or output.logits.shape == (8, self.num_classes)
            assert not any(term.requires_grad for term in output.terms.values())

    def test_gradient_reaches_every_parameter(self, method: Method) -> None:
        """Else DDP would wait for one that never comes."""
        model = self.make_model()
        self._step(method, model).loss.backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, f"{name} has no gradient"
            assert parameter.grad.isfinite().all(), f"the gradient of {name} is not finite"
            assert parameter.grad.count_nonzero() > 0, f"the gradient of {name} is zero"

    def test_same_seed_same_loss(self, method: Method) -> None:
        """To the last bit."""
        assert torch.equal(self._step(method).loss, self._step(method).loss)

    @pytest.mark.parametrize("size", [1, 2, 3, 7])
    def test_any_batch_size_will_do(self, method: Method, size: int) -> None:
        """The last batch of an epoch may have any size."""
        self._check_finite(method, self.make_batch(size))

    def test_a_batch_of_one_class_will_do(self, method: Method) -> None:
        """No partner of another class, no wrong neighbour."""
        batch = self.make_batch()
        self._check_finite(method, Batch(batch.x, torch.zeros_like(batch.y), batch.index))

    def test_half_precision_gives_a_float32_loss(self, method: Method) -> None:
        """Whether the model is bfloat16 or autocast makes its logits so."""
        batch, model = self.make_batch(), self.make_model()
        half = self._step(method, copy.deepcopy(model).bfloat16(), Batch(batch.x.bfloat16(), batch.y, batch.index)).loss
        with torch.autocast("cpu", torch.bfloat16):
            autocast = self._step(method, model, batch).loss
        for loss in (half, autocast):
            assert loss.dtype == torch.float32
            assert loss.isfinite()
            loss.backward()

    def test_two_steps_of_training(self, method: Method) -> None:
        """Gradients move parameters, and state carries over to the next step."""
        model, step = self.make_model(), self.make_objective(method)
        before = copy.deepcopy(model.state_dict())
        _train(functools.partial(step, model), model, [self.make_batch(), self.make_batch(seed=1)])
        for name, parameter in model.named_parameters():
            assert parameter.isfinite().all(), f"{name} is not finite"
            assert not torch.equal(parameter, before[name]), f"{name} did not move"

    def test_resumes_from_a_state_dict(self, method: Method) -> None:
        """The step after a checkpoint is the step that would have followed."""
        model, batch = self.make_model(), self.make_batch()
        step, resumed = self.make_objective(method), self.make_objective(method, seed=1)
        step(model, batch.x, batch.y, batch.index)
        resumed.load_state_dict(copy.deepcopy(step.state_dict()))
        assert torch.equal(*[each(model, batch.x, batch.y, batch.index).loss for each in (step, resumed)])

    def test_evaluation_draws_nothing(self, method: Method) -> None:
        """In eval mode it is cross-entropy on the samples as they are, and state stays as it was."""
        model, step, batch = self.make_model().eval(), self.make_objective(method).eval(), self.make_batch()
        before = copy.deepcopy(step.state_dict())
        loss = step(model, batch.x, batch.y, batch.index).loss
        assert torch.equal(loss, cross_entropy_loss(model(batch.x), batch.y))
        assert all(torch.equal(before[name], after) for name, after in step.state_dict().items())

    def test_leaves_global_generators_alone(self, method: Method) -> None:
        """Randomness comes from the step's own stream."""
        assert_no_global_randomness(lambda: self._step(method).loss)

    def test_writes_to_no_input(self, method: Method) -> None:
        """The loop may still need its batch."""
        batch = self.make_batch()
        kept = copy.deepcopy(batch)
        self._step(method, batch=batch)
        for name, mine in vars(batch).items():
            assert torch.equal(mine, getattr(kept, name))
            assert mine._version == 0, f"{name} was written to, even if with the same values"

    def test_forwards_no_more_than_it_declares(self, method: Method) -> None:
        """`forwarded` is what a step costs, in samples that enter the network for each sample of the batch."""
        model, entered = self.make_model(), [0]
        model.register_forward_pre_hook(lambda _, inputs: entered.append(len(inputs[0])))
        self._step(method, model)
        assert sum(entered) <= 8 * method.forwarded

    @pytest.mark.dist
    def test_ranks_agree_under_ddp(self, method: Method) -> None:
        """Two processes with a batch and a random stream each end with the same parameters."""
        companions = self.companions(method)
        if companions not in self._under_ddp:
            # Different batches on the two ranks: without averaged gradients their parameters would part.
            batches = [[self.make_batch(seed=2 * number + rank) for number in range(2)] for rank in range(2)]
            self._under_ddp[companions] = two_processes(_train_under_ddp, companions, self.make_model(), self.options, batches)
        first, second = (parameters[companions.index(method)] for parameters in self._under_ddp[companions])
        assert np.isfinite(first).all()
        assert first == second


def _train(step: Callable[..., StepOutput], model: nn.Module, batches: list[Batch]) -> None:
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in batches:
        optimiser.zero_grad()
        step(batch.x, batch.y, batch.index).loss.backward()
        optimiser.step()


def _train_under_ddp(rank: int, methods: tuple[Method, ...], fresh: nn.Module, options: Any, batches: Any) -> list[list[float]]:
    parameters = []
    for method in methods:
        model = copy.deepcopy(fresh)
        step = DistributedDataParallel(TrainStep(model, objective(method, rank=rank, **options)))
        try:
            _train(step, model, batches[rank])
        except Exception as error:
            raise RuntimeError(f"{method} failed under DDP") from error
        parameters.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).tolist())
    return parameters
