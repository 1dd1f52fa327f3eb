import dataclasses
import re
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.methods import EntropyPenalty, Focal, LabelSmoothing, Method, RankMixupAuto, RankMixupMRL, objective
from rankmixup.methods.dials import Controller, Dial, confidence_gap
from tests.oracles import ConvNet, images, unchecked

pytestmark = pytest.mark.filterwarnings("ignore:.* was tuned on [1-9] samples:UserWarning")

GAPS = st.lists(st.floats(-1, 1), min_size=1, max_size=30)
DIALS = {
    "linear": Dial(-20.0, 20.0, start=0.0),
    "log": Dial(0.01, 3.0, start=0.01, scale="log"),
    "raises": Dial(0.0, 1.0, start=0.5, lowers_confidence=False),
}
AUTO = [RankMixupMRL(margin="auto"), RankMixupMRL(margin="auto", space="log-odds"), RankMixupAuto(), Focal("auto"), LabelSmoothing("auto")]
AUTO += [EntropyPenalty("auto")]


def test_a_controller_by_hand():
    """Range 0 to 10, gains 0.25 and 0.1: positions 0.02 + 0.05, then 0.02 - 0.01 - 0.025, which is below 0."""
    controller = Controller({"gamma": Dial(0.0, 10.0, start=0.0)})
    controller.update(0.2, fits=True)
    assert controller.values["gamma"] == pytest.approx(0.7)
    controller.update(-0.1, fits=False)
    assert controller.values["gamma"] == 0.0
    controller.update(0.1, fits=False)  # 0.01 + 0.01 + 0.025
    assert controller.values["gamma"] == pytest.approx(0.45)


def test_the_gain_is_inversely_proportional_to_the_learning_rate():
    """0.15 at the highest rate so far, 1.5 at a tenth of it, and at most 15: positions of 0.1 + 0.25 of each, for a gap of 0.01."""
    dial = Dial(-20.0, 20.0, start=0.0, follows_lr=True)
    for lr, gain in ((0.1, 0.15), (0.2, 0.15), (0.05, 0.3), (0.01, 1.5), (0.001, 15.0), (1e-9, 15.0), (0.0, 15.0)):
        controller = Controller({"x": dial})
        controller.update(0.5, fits=False, lr=0.1)  # only the rate is noted
        controller.update(0.01, fits=True, lr=lr)
        assert controller.values["x"] == pytest.approx(40 * gain * 0.35 * 0.01)
        again = Controller({"x": dial})
        again.restore(controller.state())
        for each in (controller, again):
            each.update(-0.003, fits=False, lr=0.03)
        assert again.values == controller.values
    constant = Controller({"x": dataclasses.replace(dial, follows_lr=False)})
    constant.update(0.01, fits=True, lr=0.001)
    assert constant.values["x"] == pytest.approx(40 * 0.35 * 0.01)


def test_the_learning_rate_is_a_number():
    step = objective("rankmixup-auto", num_classes=3)
    for wrong in (-0.1, float("nan"), "high"):
        with unchecked(), pytest.raises(InvalidInput, match="lr must be"):
            step.tune(torch.zeros(2, 3), torch.tensor([0, 1]), lr=wrong)


def test_the_state_of_an_objective_with_other_dials_is_refused():
    plain, tuned = objective("ce", num_classes=3), objective("rankmixup-auto", num_classes=3)
    with pytest.raises(InvalidInput, match=r"^state must be that of rankmixup-auto with margin in -20\.\.20, got that of 'ce'$"):
        tuned.load_state_dict(plain.state_dict())
    with pytest.raises(InvalidInput, match=r"^state must be that of ce, got that of 'rankmixup-auto with margin in -20\.\.20'$"):
        plain.load_state_dict(tuned.state_dict())


def test_a_logarithmic_dial_multiplies():
    dial = Dial(0.01, 1.0, start=0.1, scale="log")
    assert dial.position(0.1) == pytest.approx(0.5)
    assert dial.value(0.75) == pytest.approx(10**-0.5)
    assert (dial.value(0.0), dial.value(1.0)) == (0.01, 1.0)


@pytest.mark.parametrize("dial", DIALS.values(), ids=DIALS)
@given(gaps=GAPS)
def test_it_stays_in_range_and_moves_against_the_gap(dial, gaps):
    controller = Controller({"x": dial})
    for gap in gaps:
        before = controller._integrals["x"]
        controller.update(gap, fits=True)
        assert dial.low <= controller.values["x"] <= dial.high
        toward_less_confidence = gap if dial.lowers_confidence else -gap
        assert (controller._integrals["x"] - before) * toward_less_confidence >= 0
    again = Controller({"x": dial})
    again.restore(controller.state())
    again.update(0.1, fits=False)
    controller.update(0.1, fits=False)
    assert (again.values, again.updates) == (controller.values, controller.updates)


def test_a_dial_rests_until_the_network_fits_its_training_samples():
    """And the integral does not move meanwhile: the first update is that of a new controller."""
    controller, new = (Controller({"x": DIALS["linear"]}) for _ in range(2))
    for _ in range(10):
        controller.update(0.3, fits=False)
        assert controller.values["x"] == -20.0
    for each in (controller, new):
        each.update(0.1, fits=True)
    assert controller.values == new.values


@pytest.mark.parametrize(("loss", "acts"), [(0.61, False), (0.59, True)])
def test_it_fits_below_a_share_of_the_loss_of_guessing(loss, acts):
    """Logits [t, 0, 0] of samples of the first class: the cross-entropy is log(1 + 2 exp(-t)), log 3 is that of guessing."""

    class Given(nn.Module):
        def forward(self, x):
            t = -torch.log((torch.tensor(3.0) ** loss - 1) / 2)
            return torch.stack([t, torch.tensor(0.0), torch.tensor(0.0)]).expand(len(x), 3).clone().requires_grad_()

    step = objective("rankmixup-auto", num_classes=3)
    step(Given(), torch.zeros(4, 1), torch.zeros(4, dtype=torch.long))
    step.tune(torch.zeros(2, 3), torch.tensor([1, 2]))
    assert (step.dials["margin"] > -20.0) == acts


def test_no_windup():
    """However long a network is underconfident, the dial leaves the end of its range with the first overconfident epoch."""
    controller = Controller({"x": DIALS["linear"]})
    for _ in range(1000):
        controller.update(-0.5, fits=True)
    assert controller.values["x"] == -20.0
    controller.update(0.1, fits=False)
    assert controller.values["x"] == pytest.approx(-20 + 40 * 0.035)


def test_the_gap_is_confidence_less_accuracy(rng):
    logits, target = torch.randn(50, 4, generator=rng), torch.randint(4, (50,), generator=rng)
    probs = logits.double().softmax(1)
    sure = sum(row.max().item() for row in probs) / 50
    right = sum(int(row.argmax()) == int(label) for row, label in zip(probs, target, strict=True)) / 50
    assert confidence_gap(logits, target) == pytest.approx(sure - right)


@pytest.mark.parametrize("method", AUTO, ids=repr)
def test_every_dial_trains_and_is_tuned(method, rng):
    step, model = objective(method, num_classes=3), ConvNet()
    ((name, start),) = step.dials.items()
    dial = method.dials[name]
    assert start == dial.low == getattr(step.active, name)
    x, y = images(6), torch.tensor([0, 1, 2, 0, 1, 1])
    sure_and_wrong = nn.functional.one_hot((y + 1) % 3, 3) * 10.0
    assert step.tune(sure_and_wrong, y)[name] > start
    assert step(model, x, y).loss.isfinite()
    assert getattr(step.active, name) == step.dials[name]
    step.epoch = 1
    assert step(model, x, y).loss.isfinite()
    assert type(method).from_dict(method.to_dict()) == method


def test_a_larger_value_asks_for_less_confidence(rng):
    """Every dial declares so. The gradient moves the logits of a fitted sample; less of it must raise their confidence."""
    logits = torch.tensor([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0]], dtype=torch.float64)
    y = torch.tensor([0, 1])

    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.logits = nn.Parameter(logits.clone())

        def forward(self, x):
            return self.logits

    for method in (Method.registry[key]() for key in Method.registry):
        for name, dial in method.dials.items():
            asked = []
            for position in (0.1, 0.5, 0.9):
                model, step = Fixed(), objective(dataclasses.replace(method, **{name: dial.value(position)}), num_classes=3, seed=1)
                if method.name == "rankmixup-mrl":
                    continue  # the published form raises raw logits; see the tests of log-odds
                step(model, torch.zeros(2, 1), y).loss.backward()
                asked.append(model.logits.grad.gather(1, y.unsqueeze(1)).sum().item())
            assert asked == sorted(asked, reverse=not dial.lowers_confidence), (method.name, name, asked)


@pytest.mark.filterwarnings("ignore:.* never acted:UserWarning")
def test_exact_resume_within_and_between_epochs():
    def trained(restart_after):
        with random.global_seed(0, "weights"):
            model = ConvNet()
        step, optimiser = objective("rankmixup-auto", num_classes=3, seed=0), torch.optim.SGD(model.parameters(), 0.1)
        x, y = images(6), torch.tensor([0, 1, 2, 0, 1, 1])
        for number in range(6):
            step.epoch = number // 2
            if number == restart_after:
                state = step.state_dict()
                step = objective("rankmixup-auto", num_classes=3, seed=99)
                step.load_state_dict(state)
            optimiser.zero_grad()
            step(model, x, y).loss.backward()
            optimiser.step()
            if number % 2 == 1:
                with torch.no_grad():
                    step.tune(model.eval()(x), y)
                model.train()
        return [*model.state_dict().values(), torch.tensor(list(step.dials.values()))]

    plain = trained(None)
    for place in (1, 2, 5):
        for one, other in zip(plain, trained(place), strict=True):
            assert torch.equal(one, other)


class Untrained(nn.Module):
    """Logits of zero, so that no network ever fits."""

    def forward(self, x):
        return torch.zeros(len(x), 3, requires_grad=True)


def sure(share, n=200):
    """Logits that are sure of class 0, and labels of which this share is 0."""
    return torch.tensor([9.0, 0.0, 0.0]).expand(n, 3), (torch.arange(n) >= share * n).long()


UNSURE = torch.zeros(200, 3), torch.zeros(200, dtype=torch.long)
"""Always right with a confidence of a third."""
X, Y = torch.zeros(2, 1), torch.tensor([0, 1])


def told(step, work):
    """The warnings of some steps or tunings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for arguments in work:
            step.tune(*arguments) if len(arguments) == 2 else step(*arguments)
    return [str(each.message) for each in seen]


def test_a_loop_that_never_tunes_is_reminded_once():
    """It sets no epoch either, so that nothing is refused."""
    step, batch = objective("rankmixup-auto", num_classes=3), (Untrained(), X, Y)
    assert told(step, [batch] * 499) == []
    (sentence,) = told(step, [batch] * 700)
    assert sentence.startswith("after 500 steps: margin of rankmixup-auto never acted, because it was never tuned: call tune(")


@pytest.mark.parametrize("prepare", [lambda step: step.tune(*UNSURE), lambda step: setattr(step, "reminds", False)])
def test_a_loop_that_tunes_or_wants_no_reminder_has_none(prepare):
    step = objective("rankmixup-auto", num_classes=3)
    prepare(step)
    for _ in range(501):
        step(Untrained(), X, Y)
    objective("ce", num_classes=3).tune(*sure(1.0, n=2))


def test_few_samples_are_said_at_once_and_once():
    step = objective("rankmixup-auto", num_classes=3)
    (sentence,) = told(step, [sure(0.5, n=16), sure(0.6, n=16)])
    error = "of which the gap has a standard error of up to 12 points"
    assert sentence == f"margin of rankmixup-auto was tuned on 16 samples, {error}: use at least 200 validation samples"


def test_three_tunings_without_effect_are_said():
    """As in a fine-tuning of three epochs, which is cross-entropy to the last digit, even if the network fits after the last of them."""
    step = objective("rankmixup-auto", num_classes=3)
    for epoch in range(3):
        step.epoch = epoch
        step(Untrained(), X, Y)
        if epoch < 2:
            step.tune(*sure(0.5))
    step._fit.zero_()
    rule = r"^margin of rankmixup-auto never acted in training, .* only at the last of its 3 tunings .*: train longer"
    with pytest.warns(UserWarning, match=rule):
        step.tune(*sure(0.5))
    assert step.dials["margin"] > -20.0
    assert "never acted" in step.dial_trouble()


@pytest.mark.parametrize(("samples", "limit", "able"), [(UNSURE, "-20", "raise"), (sure(0.0), "20", "lower")])
def test_a_dial_at_its_limit_is_said(samples, limit, able):
    step = objective("rankmixup-auto", num_classes=3)
    where = f"ended at its limit of {limit}, where it can {able} confidence no further"
    expected = f"margin of rankmixup-auto {where}: fit a temperature afterwards"
    (sentence,) = told(step, [samples, (Untrained(), X, Y)] * 30)
    assert re.fullmatch(rf"{re.escape(expected)} \(so far, after \d+ tunings\)", sentence)
    again = objective("rankmixup-auto", num_classes=3)
    again.load_state_dict(step.state_dict())
    assert step.dial_trouble() == again.dial_trouble() == expected


def test_a_dial_that_worked_is_not_spoken_of():
    step = objective("rankmixup-auto", num_classes=3)
    for _ in range(5):
        step.tune(*sure(0.9))
        step(Untrained(), X, Y)
    assert step.dial_trouble() == step.dial_trouble(kept={"margin": 1.0}) == objective("ce", num_classes=3).dial_trouble() == ""
    assert "had no effect in the epoch that is kept" in step.dial_trouble(kept={"margin": -20.0})


def test_a_dial_that_nobody_tunes_is_refused():
    step = objective("rankmixup-auto", num_classes=3)
    x, y = images(6), torch.tensor([0, 1, 2, 0, 1, 1])
    step(ConvNet(), x, y)
    step.epoch = 1
    with pytest.raises(
        InvalidInput, match=r"must be set by feedback: call tune\(val_logits, val_y\) after each epoch, got no call by epoch 1$"
    ):
        step(ConvNet(), x, y)
    with pytest.raises(InvalidInput, match="3 classes"):
        step.tune(torch.zeros(2, 4), torch.tensor([0, 1]))
    with pytest.raises(InvalidInput, match="at least one sample"):
        step.tune(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long))
    with pytest.raises(InvalidInput, match="logits must be finite"):
        step.tune(torch.full((2, 3), torch.nan), torch.tensor([0, 1]))


def test_a_method_without_dials_is_left_alone():
    step = objective("ce", num_classes=3)
    assert step.tune(torch.zeros(2, 3), torch.tensor([0, 1])) == {}
    assert step.active == step.method
