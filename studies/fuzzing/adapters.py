"""What other libraries call: the scikit-learn estimator, states of objectives in checkpoints, class counts, temperatures in heads."""

import io
import math
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import rankmixup as rm
from rankmixup.errors import InvalidInput
from rankmixup.integrations.samples import INDEX, Indexed, IndexedCollator, count_classes
from rankmixup.integrations.sklearn_training import drawn
from rankmixup.integrations.transformers_calibration import fold_temperature
from rankmixup.methods import Objective
from rankmixup.sklearn import RankMixupClassifier
from studies.fuzzing.case import Difference, Verdict, require_one_sentence
from studies.fuzzing.damage import damage
from studies.fuzzing.values import hostile

__all__ = ["try_adapter"]

_METHODS = ("ce", "label-smoothing", "focal", "mbls", "mixup", "regmixup", "rankmixup-mrl", "rankmixup-mndcg", "rankmixup-auto", "crl")
_DIALS = ({}, {"margin": "auto"})
_LABELS = (("a", "b", "c"), (0, 1, 2), (-5, 7, 10**6), (False, True), (1.0, 3.0, -2.0), ("", "x", "é"))
_PARAMETERS: dict[str, tuple[Any, ...]] = {
    "method": ("ce", "MRL", "x", None, 3, "mixup", "rankmixup-auto", "crl"),
    "network": ("mlp", "resnet8", "", None, nn.Linear(2, 2), lambda features, classes: nn.Linear(features, classes), lambda *_: 3),
    "calibrate": ("temperature", None, "isotonic", "x", 3),
    "epochs": (1, 2, 0, -1, 1.5, math.nan, "2", None, True),
    "batch_size": (1, 2, 1000, 0, -3, 2.5, None, 10**30),
    "learning_rate": (0, 1e-3, 1.0, 1e30, -1, math.nan, math.inf, None, "x"),
    "weight_decay": (0, 0.1, 1e30, -1, math.nan),
    "validation_fraction": (0, 0.1, 0.5, 0.999, 1, -0.1, math.nan, None),
    "n_iter_no_change": (1, 10, 0, None),
    "standardize": (True, False, 1, None, "yes"),
    "random_state": (0, 1, -1, None, 1.5, "x", 2**40, np.random.RandomState(0)),
    "class_weight": (None, "balanced", "x", {}, {"a": 2.0}, {0: -1.0}, {0: math.nan}, 3),
    "device": ("cpu", "auto", "meta", "x", "", None),
    "verbose": (0, False, -1, 1.5, None),
}


def try_adapter(rng: np.random.Generator, folder: Path) -> Verdict:
    """One use."""
    kind = rng.choice(["estimator", "state", "samples", "head"], p=[0.2, 0.35, 0.25, 0.2])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return {"estimator": _estimator, "state": _state, "samples": _samples, "head": _head}[kind](rng)


def _estimator(rng: np.random.Generator) -> Verdict:
    """Probabilities are some, and predictions their classes; what is wrong is refused as scikit-learn does, by a ValueError."""
    labels = _LABELS[int(rng.integers(len(_LABELS)))]
    size, features = int(rng.choice([4, 12, 40])), int(rng.integers(1, 5))
    x = rng.normal(size=(size, features)) * rng.choice([1e-3, 1.0, 1e6])
    codes = rng.integers(len(labels), size=size)
    arguments: dict[str, Any] = {"X": x, "y": np.array(labels)[codes]}
    if rng.random() < 0.3:
        arguments["sample_weight"] = rng.random(size) * (rng.random(size) < 0.8)
    parameters: dict[str, Any] = {"method": str(rng.choice(_METHODS)), "epochs": 2, "batch_size": 8, "random_state": 0}
    changed = rng.random()
    if changed < 0.4:
        name = str(rng.choice(list(_PARAMETERS)))
        parameters[name] = _PARAMETERS[name][int(rng.integers(len(_PARAMETERS[name])))]
    elif changed < 0.7:
        name = str(rng.choice(list(arguments)))
        arguments[name] = hostile(rng, arguments[name] if name != "y" else codes)
    try:
        estimator = RankMixupClassifier(**parameters).fit(**arguments)
        probabilities, predicted = estimator.predict_proba(x), estimator.predict(x)
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:
        torch_says = ("Can't call numpy() on Tensor that requires grad", "Internal error: NestedTensorImpl")
        if isinstance(error, RuntimeError) and not str(error).startswith(torch_says):
            raise
        require_one_sentence(str(error).split("\n")[0])  # scikit-learn's own advice has more lines
        if changed >= 0.7 and not isinstance(error, InvalidInput):  # right arguments
            raise
        return "refused"
    finite = np.isfinite(probabilities).all() and (probabilities >= 0).all()
    if probabilities.shape != (size, len(estimator.classes_)) or not finite or abs(probabilities.sum(axis=1) - 1).max() > 1e-5:
        raise Difference(f"probabilities must be some for {len(estimator.classes_)} classes, got {probabilities[:2].tolist()}")
    if not np.array_equal(predicted, estimator.classes_[probabilities.argmax(axis=1)]):
        raise Difference("predictions must be the most probable classes")
    scores = estimator.decision_function(x)
    logits = np.stack([np.zeros(size), scores], axis=1) if scores.ndim == 1 else scores
    softmax = np.exp(logits - logits.max(axis=1, keepdims=True))
    if abs(softmax / softmax.sum(axis=1, keepdims=True) - probabilities).max() > 1e-5:
        raise Difference("the softmax of the decision function must be the probabilities")
    if "sample_weight" not in arguments and changed >= 0.7 and not np.array_equal(estimator.classes_, np.unique(arguments["y"])):
        raise Difference(f"classes must be {np.unique(arguments['y'])}, got {estimator.classes_}")
    return "agrees"


def _objective(rng: np.random.Generator, classes: int) -> Objective:
    method = str(rng.choice(_METHODS))
    fields: dict[str, Any] = {"margin": "auto"} if method == "rankmixup-mrl" and rng.random() < 0.5 else {}
    return rm.objective(method, classes, seed=int(rng.integers(3)), dataset_size=20, **fields)


def _train(step: Objective, classes: int, steps: int, rng: np.random.Generator) -> list[float]:
    network = nn.Linear(4, classes)
    nn.init.constant_(network.bias, 0.1)
    nn.init.constant_(network.weight, 0.2)
    losses = []
    for _ in range(steps):
        x, y = torch.from_numpy(rng.normal(size=(6, 4))).float(), torch.from_numpy(rng.integers(classes, size=6))
        losses.append(step(network, x, y, torch.arange(6)).loss.item())
        if step.dials:
            step.tune(torch.from_numpy(rng.normal(size=(30, classes))), torch.from_numpy(rng.integers(classes, size=30)))
    return losses


def _state(rng: np.random.Generator) -> Verdict:
    """The state of one objective in another: the same steps follow where they are of one method, else it is refused."""
    classes = int(rng.choice([2, 3]))
    first, other = _objective(rng, classes), _objective(rng, classes)
    _train(first, classes, int(rng.integers(1, 4)), rng)
    state, kind = first.state_dict(), rng.random()
    if kind < 0.5:
        torch.save(state, file := io.BytesIO())
        file.seek(0)
        state = torch.load(file, weights_only=True)
    else:
        key = str(rng.choice(list(state)))
        if kind < 0.75 and isinstance(state[key], torch.Tensor) and state[key].dtype == torch.uint8:
            content = damage(rng, state[key].numpy().tobytes())
            state[key] = torch.frombuffer(bytearray(content or b"\0"), dtype=torch.uint8).clone()
        else:
            state[key] = hostile(rng, state[key])
    try:
        other.load_state_dict(state)
    except (RuntimeError, InvalidInput, TypeError) as error:
        if not isinstance(error, InvalidInput) and not str(error).startswith(("Error(s) in loading", "Expected state_dict")):
            raise
        return "refused"
    seed = int(rng.integers(2**31))
    losses = [_train(each, classes, 3, np.random.default_rng(seed)) for each in (first, other)]
    if not all(map(math.isfinite, losses[1])):
        raise Difference(f"steps behind a state that was taken must have finite losses, got {losses[1]}")
    if kind >= 0.5:
        return "answered"
    if type(first.method) is not type(other.method) and (first.dials or other.dials):
        raise Difference(f"the state of {first.method} must be refused by {other.method}")
    if first.method == other.method and losses[0] != losses[1]:
        raise Difference(f"{first.method} must go on as if nothing had happened: {losses[0]}, got {losses[1]}")
    return "agrees" if first.method == other.method else "answered"


def _samples(rng: np.random.Generator) -> Verdict:
    """Counts, positions and weighted draws, by plain loops."""
    classes, size = int(rng.integers(2, 5)), int(rng.integers(1, 30))
    labels = rng.integers(classes, size=size)
    kind = int(rng.integers(3))
    if kind == 0:
        weight = rng.random(size) * rng.choice([1e-6, 1.0, 1e6], size=size) * (rng.random(size) < 0.8)
        weight[int(rng.integers(size))] += 1.0
        found = Counter(drawn(torch.from_numpy(weight), float(rng.random())).tolist())
        for place, share in enumerate(size * weight / weight.sum()):
            if not math.floor(share - 1e-9) <= found[place] <= math.ceil(share + 1e-9):
                raise Difference(f"sample {place} must be drawn {share:.3f} times of {size}, give or take one, got {found[place]}")
        return "agrees"
    convert = (int, np.int64, torch.tensor, float)[int(rng.integers(4))]
    dataset = [{str(rng.choice(["label", "labels"])): convert(int(label)), "x": 1.0} for label in labels]
    if kind == 1 and len({next(iter(each)) for each in dataset}) == 1:
        counted = count_classes(dataset, ["label", "labels"], classes).tolist()
        if counted != [int((labels == number).sum()) for number in range(classes)]:
            raise Difference(f"the classes of {labels.tolist()} must be counted, got {counted}")
        return "agrees"
    places = rng.integers(size, size=int(rng.integers(1, 6))).tolist()
    made = IndexedCollator(lambda samples: {"n": len(samples), "x": [each["x"] for each in samples]})([Indexed(dataset)[i] for i in places])
    if made[INDEX].tolist() != places or made["n"] != len(places):
        raise Difference(f"the positions of a batch must be {places}, got {made}")
    return "agrees"


class _Twice(nn.Module):
    """A network whose logits are not those of its last layer."""

    def __init__(self, classes: int):
        super().__init__()
        self.fc = nn.Linear(5, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.fc(x) + 1.0


def _head(rng: np.random.Generator) -> Verdict:
    """A temperature in the last layer divides all logits, or nothing is changed."""
    classes = int(rng.integers(2, 5))
    bodies = (nn.Identity(), nn.Linear(5, 5), nn.Sequential(nn.Linear(5, 5), nn.ReLU()), nn.LayerNorm(5))
    tails = (nn.Linear(5, classes), nn.Linear(5, classes, bias=False), nn.Sequential(nn.Linear(5, classes), nn.Identity()), _Twice(classes))
    tail = tails[int(rng.integers(4))]
    after = (nn.Identity(), nn.Identity(), nn.Softmax(dim=1), nn.Tanh())[int(rng.integers(4))]
    model = nn.Sequential(bodies[int(rng.integers(4))], tail, after).to((torch.float32, torch.float64)[int(rng.integers(2))])
    dtype = next(model.parameters()).dtype
    x = torch.from_numpy(rng.normal(size=(7, 5))).to(dtype)
    temperature = float(rng.choice([0.01, 0.5, 1.0, 1.7, 30.0, 100.0]))
    before, kept = model(x).detach(), {name: value.clone() for name, value in model.state_dict().items()}
    linear = not isinstance(tail, _Twice) and isinstance(after, nn.Identity)
    try:
        fold_temperature(model, temperature, lambda: model(x).detach())
    except InvalidInput as error:
        if linear:
            raise Difference(f"the last layer of {model} gives its logits, it was refused: {error}") from error
        if any(not torch.equal(value, kept[name]) for name, value in model.state_dict().items()):
            raise Difference(f"a model whose temperature is refused must stay as it is, {model} changed") from error
        raise
    if (model(x).detach() - before / temperature).abs().max() > 1e-3 * before.abs().max() / temperature + 1e-6:
        raise Difference(f"logits of {model} must be divided by {temperature}")
    return "agrees"
