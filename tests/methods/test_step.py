"""Objective, TrainStep and objective(): streams, checkpoints, evaluation, refusals, and every registered method at odd batches."""

import copy
import dataclasses
import random as python_random

import numpy as np
import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

import rankmixup
from rankmixup.errors import InvalidInput
from rankmixup.methods import CrossEntropy, Method, MixupTraining, RankMixupMNDCG, RankMixupMRL, TrainStep, objective
from rankmixup.mixers import CutMix, ManifoldMixup, Mixer, Mixup
from tests.oracles import ConvNet, Spy, images, unchecked

Y = torch.tensor([0, 1, 2, 0, 1, 1])
VARIANTS = [Mixup(forward="joint", lam_mode="sample"), CutMix(lam_mode="sample"), ManifoldMixup(layer="random", forward="separate")]


def methods():
    """Every registered method as it comes, and those of this library's core with every registered mixer."""
    for name in Method.registry:
        method = Method.registry[name]()
        yield pytest.param(method, id=name)
        if name in ("mixup", "rankmixup-mrl", "rankmixup-mndcg"):
            for mixer in [Mixer.registry[key]() for key in Mixer.registry] + VARIANTS:
                yield pytest.param(dataclasses.replace(method, mixer=mixer), id=f"{name}-{mixer.content_hash()[:4]}-{mixer.name}")


every_method = pytest.mark.parametrize("method", list(methods()))


def made(method, seed=0, size=6, **options):
    return objective(method, num_classes=3, seed=seed, class_counts=[5, 3, 2], dataset_size=size, **options)


def run(step, net, x=None, y=Y):
    x = images(len(y)) if x is None else x
    return step(net, x, y, torch.arange(len(y)))


def global_states():
    return torch.get_rng_state().tolist(), str(np.random.get_state()), python_random.getstate()  # noqa: NPY002 - read, not used


# Any method, any batch


@every_method
@pytest.mark.parametrize("labels", [[0], [2, 1, 0, 1, 0], [1, 1, 1, 1], [0, 1]], ids=["one", "odd", "one-class", "two"])
def test_any_batch_gives_a_finite_loss_and_gradient(method, labels):
    net = ConvNet(norm=False)
    out = run(made(method, size=len(labels)), net, y=torch.tensor(labels))
    assert out.loss.shape == ()
    assert out.loss.isfinite()
    assert out.logits is None or out.logits.shape == (len(labels), 3)
    assert all(not term.requires_grad for term in out.terms.values())
    out.loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in net.parameters())


@every_method
def test_no_global_random_state_is_consumed(method):
    net, step = ConvNet(norm=False), made(method)
    before = global_states()
    with unchecked():  # the checker of annotations draws from Python's generator
        run(step, net).loss.backward()
    assert global_states() == before


@every_method
def test_the_same_seed_gives_the_same_losses(method):
    first, again = ([run(step, ConvNet()).loss.item() for _ in range(3)] for step in (made(method), made(method)))
    assert first == again


@every_method
def test_a_checkpoint_continues_the_stream_exactly(method, tmp_path):
    net, step = ConvNet(norm=False), made(method)
    for _ in range(2):
        run(step, net)
    torch.save(step.state_dict(), tmp_path / "step.pt")
    expected = [run(step, net).loss.item() for _ in range(3)]
    resumed = made(method, seed=99)
    resumed.load_state_dict(torch.load(tmp_path / "step.pt", weights_only=True))
    assert [run(resumed, net).loss.item() for _ in range(3)] == expected
    assert resumed.steps == step.steps == 5


@every_method
def test_evaluation_is_plain_cross_entropy_and_draws_nothing(method):
    net, step = ConvNet(norm=False), made(method).eval()
    before = copy.deepcopy(step.state_dict())
    out = run(step, net)
    assert torch.equal(out.loss, F.cross_entropy(net(images(6)), Y))
    torch.testing.assert_close(out.logits, net(images(6)))
    assert out.terms == {}
    after = step.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[key], before[key]) for key in before)


@every_method
def test_half_precision_networks_give_a_loss_in_single_precision(method):
    out = run(made(method), ConvNet(norm=False).bfloat16(), images(6, torch.bfloat16))
    assert out.loss.dtype == torch.float32
    assert out.loss.isfinite()


@every_method
def test_autocast_gives_a_loss_in_single_precision(method):
    with torch.autocast("cpu", torch.bfloat16):
        out = run(made(method), ConvNet(norm=False))
    assert out.loss.dtype == torch.float32


@every_method
def test_forwarded_counts_the_samples_that_enter_the_network(method):
    net, entered = ConvNet(norm=False), []
    net.register_forward_pre_hook(lambda _, inputs: entered.append(len(inputs[0])))
    run(made(method), net)
    assert sum(entered) == 6 * method.forwarded


@every_method
def test_a_label_out_of_range_is_refused(method):
    with pytest.raises(InvalidInput, match=r"^y must lie in 0\.\.2, got 3$"):
        run(made(method), ConvNet(norm=False), y=Y + 1)


# Streams


MNDCG = RankMixupMNDCG()


def test_seeds_ranks_and_steps_draw_differently():
    net = ConvNet(norm=False)
    steps = [made(MNDCG), made(MNDCG, seed=1), made(MNDCG, rank=1)]
    rankings = [run(step, net).terms["ranking"].item() for step in [*steps, steps[0]]]
    assert len(set(rankings)) == 4


def test_objectives_do_not_share_a_stream():
    net = ConvNet(norm=False)
    alone = [run(step, net).loss.item() for step in [made(MNDCG)] for _ in range(2)]
    first, second = made(MNDCG), made(MNDCG)
    between = []
    for _ in range(2):
        between.append(run(first, net).loss.item())
        run(second, net)
    assert between == alone


def test_a_copy_goes_its_own_way():
    net, step = ConvNet(norm=False), made(MNDCG)
    twin = copy.deepcopy(step)
    run(twin, net)
    assert run(step, net).loss == run(made(MNDCG), net).loss


def test_method_learns_epoch_step_classes_and_counts():
    seen = []

    @dataclasses.dataclass(frozen=True)
    class Listens(CrossEntropy):
        def __call__(self, model, batch, ctx):
            seen.append((ctx.epoch, ctx.step, ctx.num_classes, ctx.class_counts.tolist(), batch.index.tolist()))
            return super().__call__(model, batch, ctx)

    step, net = made(Listens()), ConvNet(norm=False)
    run(step, net, y=Y[:2])
    step.epoch = 7
    run(step, net, y=Y[:2])
    assert seen == [(0, 0, 3, [5, 3, 2], [0, 1]), (7, 1, 3, [5, 3, 2], [0, 1])]


def test_a_failed_step_is_not_counted():
    step = made(MNDCG)
    with pytest.raises(InvalidInput):
        run(step, ConvNet(), y=Y + 1)
    assert step.steps == 0


def named(method, **fields):
    return objective(method, num_classes=3, **fields)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (named("focal", gamma="auto"), named("rankmixup-auto")),  # whose gamma became a margin
        (named("rankmixup-mrl", margin="auto"), named("rankmixup-mrl", margin="auto", space="log-odds")),  # of another range
        (named("ce"), named("mixup")),
    ],
)
def test_the_state_of_another_method_is_refused(one, other):
    before = other.state_dict()["_extra_state"]
    with pytest.raises(InvalidInput, match=r"^state must be that of .*, got that of '.*'$"):
        other.load_state_dict(one.state_dict())
    assert torch.equal(other.state_dict()["_extra_state"], before)


def test_the_state_of_the_same_method_with_other_numbers_is_taken():
    named("focal", gamma=2.0).load_state_dict(named("focal", gamma=3.0).state_dict())


def test_a_state_of_version_0_2_which_does_not_say_whose_it_is():
    """It is taken where it holds counters and a stream alone."""
    label = len(b"\0objective of mixup")
    state = named("mixup").state_dict()["_extra_state"]
    again = named("mixup", seed=1)
    again.load_state_dict({"_extra_state": state[:-label]})
    assert torch.equal(again.state_dict()["_extra_state"], state)
    with pytest.raises(InvalidInput, match=r"^state must be that of focal with gamma in 0\.\.10, got one that does not say whose it is$"):
        named("focal", gamma="auto").load_state_dict({"_extra_state": torch.cat([torch.zeros(56, dtype=torch.uint8), state[:-label]])})


@pytest.mark.parametrize(
    "damaged",
    [
        torch.zeros(5),
        torch.zeros(7, dtype=torch.uint8),
        torch.zeros((), dtype=torch.uint8),
        torch.zeros(7, dtype=torch.uint8, device="meta"),
        3,
    ],
)
def test_a_state_that_is_none_is_refused(damaged):
    with unchecked(), pytest.raises(InvalidInput, match=r"^state must be"):
        named("mixup").load_state_dict({"_extra_state": damaged})


@pytest.mark.parametrize("place", [16 + 16 + 8 * 6, 16 + 16 + 8 * 7 + 8])  # the value of the dial, the random stream
def test_a_state_that_is_damaged_is_refused_before_anything_is_changed(place):
    step = named("rankmixup-auto")
    before = step.state_dict()["_extra_state"].clone()
    state = before.clone()
    state[:8], state[place : place + 8] = 1, 255  # other counters, and NaN
    with pytest.raises(InvalidInput, match=r"^state must be that of rankmixup-auto with margin in -20\.\.20, got one that is damaged$"):
        step.load_state_dict({"_extra_state": state})
    assert torch.equal(step.state_dict()["_extra_state"], before)


def test_state_of_a_method_is_checkpointed_with_its_stream():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    @dataclasses.dataclass(frozen=True)
    class Counts(CrossEntropy):
        def initial_state(self, *, num_classes, dataset_size):
            return Counter()

        def __call__(self, model, batch, ctx):
            ctx.state.seen += len(batch.x)
            return super().__call__(model, batch, ctx)

    step, resumed = made(Counts()), made(Counts())
    run(step, ConvNet())
    resumed.load_state_dict(step.state_dict())
    assert resumed.state.seen == 6


def test_a_registry_key_stands_for_its_method():
    assert objective("rankmixup-mndcg", num_classes=3).method == RankMixupMNDCG()


@pytest.mark.parametrize("method", ["rankmixup-mrl", "mrl", RankMixupMRL])
def test_keywords_are_fields_of_the_method(method):
    assert objective(method, num_classes=3, margin=1, mixer=CutMix()).method == RankMixupMRL(margin=1.0, mixer=CutMix())


@pytest.mark.parametrize(
    ("method", "fields", "message"),
    [
        ("mrl", {"margn": 1.0}, r"^unknown field of RankMixupMRL 'margn'; did you mean 'margin'"),
        ("mrl", {"margin": -1.0}, r"^margin must be at least 0, got -1\.0$"),
        (
            "mrl",
            {"x": 1.0},
            r"^unknown field of RankMixupMRL 'x'; valid names: gradient, margin, masking, mixer, num_mixes, space, weight$",
        ),
        ("ce", {"x": 1.0}, r"^unknown field of CrossEntropy 'x'; there are none$"),
        (RankMixupMRL(), {"margin": 1.0}, r"^margin must be set in the method itself or be given with its name or class, got RankMixupMRL"),
        (Method, {}, r"^Method must be described by all its fields, got \[\] \(.*abstract"),
        ("rankmixup", {}, r"^unknown method 'rankmixup'; did you mean 'rankmixup-mrl' or 'rankmixup-list' or"),
    ],
)
def test_keywords_that_are_no_fields_are_refused(method, fields, message):
    with pytest.raises(InvalidInput, match=message):
        objective(method, num_classes=3, **fields)


@pytest.mark.parametrize(
    ("alias", "name"), [("mrl", "rankmixup-mrl"), ("mndcg", "rankmixup-mndcg"), ("ls", "label-smoothing"), ("fl", "focal")]
)
@pytest.mark.parametrize("data", ["digits", "tiny-imagenet"])
def test_an_alias_is_the_same_run(alias, name, data):
    assert rankmixup.Run(alias, data=data).id == rankmixup.Run(name, data=data).id
    assert alias not in rankmixup.list_methods()
    assert f"(alias {alias}" in Method.registry.summaries()[name]


def test_an_objective_shows_its_method_and_its_fields():
    shown = "RankMixupMRL(weight=0.1, mixer=Mixup(alpha=2.0, lam_mode='batch', forward='separate', mixes=()), num_mixes=1, margin=1.0"
    assert (
        repr(objective("mrl", num_classes=10, margin=1.0))
        == f"Objective({shown}, space='logit', masking='skip', gradient='both'), num_classes=10)"
    )


def test_names_are_listed_and_filtered():
    assert rankmixup.list_methods("rankmixup-*") == ["rankmixup-auto", "rankmixup-list", "rankmixup-mndcg", "rankmixup-mrl"]
    assert {"ece", "nll"} <= set(rankmixup.list_metrics()) - set(rankmixup.list_metrics("*rror*"))
    lists = [rankmixup.list_mixers, rankmixup.list_models, rankmixup.list_data, rankmixup.list_calibrators]
    assert [name in each() for name, each in zip(["cutmix", "resnet8", "cifar10", "temperature"], lists, strict=True)] == [True] * 4


def test_public_names_are_these():
    assert (rankmixup.objective, rankmixup.TrainStep, rankmixup.Objective) == (objective, TrainStep, type(made(MNDCG)))


# TrainStep


def test_train_step_is_the_objective_on_its_model():
    net = ConvNet(norm=False)
    out = TrainStep(net, made(MNDCG))(images(6), Y)
    assert out.loss == run(made(MNDCG), net).loss


def test_train_step_holds_the_parameters_of_its_model_and_nothing_of_the_objective():
    net, step = ConvNet(), made(MNDCG)
    train_step = TrainStep(net, step)
    assert list(train_step.state_dict()) == [f"model.{name}" for name in net.state_dict()]
    assert train_step.objective is step


def test_train_step_in_evaluation_neither_mixes_nor_draws():
    step = objective(MNDCG, num_classes=36)
    train_step, before = TrainStep(Spy(), step), step.state_dict()["_extra_state"].clone()
    out = train_step.eval()(images(6), Y)
    assert [len(batch) for batch in train_step.model.seen] == [6]
    assert out.terms == {}
    assert torch.equal(step.state_dict()["_extra_state"], before)
    assert "ranking" in train_step.train()(images(6), Y).terms


@every_method
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("num_classes", [4, 5, 30])
def test_logits_of_another_width_than_num_classes_are_refused_at_the_first_step(method, training, num_classes):
    step = objective(method, num_classes=num_classes, class_counts=[2] * num_classes, dataset_size=6).train(training)
    for call in (lambda: run(step, ConvNet()), lambda: TrainStep(ConvNet(), step).train(training)(images(6), Y, torch.arange(6))):
        with pytest.raises(
            InvalidInput, match=rf"one logit for each of {num_classes} classes \(num_classes\), got logits of shape \[\d+, 3\]"
        ):
            call()
    assert step.steps == 0


@pytest.mark.filterwarnings("ignore")  # torch.jit has many
def compiled_in_place(net):
    net.compile(backend="eager")
    return net


@pytest.mark.parametrize("wrapped", [lambda net: torch.compile(net, backend="eager"), compiled_in_place])
def test_a_compiled_model_is_held_to_num_classes_too(wrapped):
    model = wrapped(ConvNet())
    with pytest.raises(InvalidInput, match="one logit for each of 4 classes"):
        objective("mixup", num_classes=4)(model, images(6), Y)
    assert objective("mixup", num_classes=3)(model, images(6), Y).loss.isfinite()
    assert not model._forward_hooks


@pytest.mark.parametrize("method", ["ce", "mixup", "crl", "rankmixup-mrl"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("wrap", [lambda logits: {"scores": logits}, lambda logits: (logits, None), lambda logits: logits.long()])
def test_a_model_that_returns_something_else_than_logits_is_refused(method, training, wrap):
    class Wrapped(ConvNet):
        def forward(self, x):
            return wrap(super().forward(x))

    step = made(method).train(training)
    with unchecked(), pytest.raises(InvalidInput, match=r"^(a model must return one tensor of logits|logits must be floating point)"):
        run(step, Wrapped())


@pytest.mark.parametrize("model", [None, "resnet", lambda x: x, ConvNet])
def test_a_model_that_is_no_module_is_refused(model):
    with unchecked(), pytest.raises(InvalidInput, match=r"^model must be a torch\.nn\.Module, got "):
        made("ce")(model, images(6), Y)
    with unchecked(), pytest.raises(InvalidInput, match=r"^model must be a torch\.nn\.Module, got "):
        TrainStep(model, made("ce"))


@pytest.mark.parametrize("x", [None, [[1.0]], np.zeros((6, 1, 6, 6)), torch.tensor(1.0)])
def test_inputs_that_are_no_batch_are_refused(x):
    with unchecked(), pytest.raises(InvalidInput, match=r"^x must "):
        made("mixup")(ConvNet(), x, Y)


@pytest.mark.parametrize("name", ["remix", "unimix"])
def test_class_counts_are_moved_to_the_device_once(name):
    class Moves(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen += func is torch.ops.aten._to_copy.default and args[0].shape == (3,) and args[0].device.type == "cpu"
            return func(*args, **(kwargs or {}))

    step, net = made(name, size=6), ConvNet(norm=False).to("meta")
    moved = []
    for _ in range(3):
        with Moves() as moves:
            run(step, net, images(6).to("meta"), Y.to("meta"))
        moved.append(moves.seen)
    assert moved == [1, 0, 0]


@pytest.fixture
def process_group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize("training", [True, False])
def test_a_model_wrapped_in_ddp_is_refused(training):
    wrapped = DistributedDataParallel(ConvNet())
    for model in (wrapped, torch.compile(wrapped, backend="eager")):
        with pytest.raises(InvalidInput, match=r"^model must not be wrapped in DistributedDataParallel.* rankmixup\.TrainStep") as caught:
            run(made(MNDCG).train(training), model)
        assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("process_group")
def test_ddp_around_a_train_step_gives_the_same_loss_and_gradients():
    net, plain = ConvNet(), ConvNet()
    out = DistributedDataParallel(TrainStep(net, made(MNDCG)))(images(6), Y)
    expected = run(made(MNDCG), plain)
    out.loss.backward()
    expected.loss.backward()
    assert out.loss == expected.loss
    for ours, theirs in zip(net.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


# What they refuse


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "rankmixup_mrl"}, r"^unknown method 'rankmixup_mrl'; did you mean 'rankmixup-mrl'"),
        ({"num_classes": 0}, r"^num_classes must be at least 1, got 0$"),
        ({"class_counts": [1, 2]}, r"^class_counts must hold 3 numbers, got \[2\]$"),
        ({"class_counts": [1, 2, -1]}, r"^class_counts must not be negative, got -1$"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        objective(**{"method": "ce", "num_classes": 3} | arguments)


@pytest.mark.parametrize("method", [CrossEntropy(), MixupTraining(), RankMixupMRL(), RankMixupMRL(mixer=Mixup(forward="joint")), MNDCG])
@pytest.mark.parametrize("wrong", [Y[:4], Y[:, None], Y.float()])
def test_labels_that_do_not_fit_are_refused(method, wrong):
    with unchecked(), pytest.raises(InvalidInput, match=r"^y must hold"):
        made(method)(ConvNet(norm=False), images(6), wrong)


class TwoOutputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Linear(36, 3)

    def forward(self, x):
        logits = self.layer1(x.flatten(1))
        return logits, logits


@pytest.mark.parametrize("mixer", [Mixup(), Mixup(forward="joint"), ManifoldMixup()])
@pytest.mark.parametrize("method", [MixupTraining(), RankMixupMRL()])
def test_a_network_that_does_not_return_logits_is_refused(method, mixer):
    with unchecked(), pytest.raises(InvalidInput, match="tuple"):
        made(dataclasses.replace(method, mixer=mixer))(TwoOutputs(), images(6), Y)
