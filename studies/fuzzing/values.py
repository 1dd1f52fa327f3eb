"""Generated values: scores that are right, and things that are passed where scores, labels or numbers belong."""

from typing import Any

import numpy as np
import torch

__all__ = ["Sample", "draw_sample", "hostile", "hostile_json"]

_SIZES = (1, 2, 3, 10, 50, 200)
_CLASSES = (2, 3, 5, 10, 100)  # one column would be the scores of class 1 of two
_SCALES = (0.01, 1.0, 5.0, 50.0, 1000.0)


class Sample:
    """Scores [N, K] with labels [N], and what they are in float64."""

    def __init__(self, scores: np.ndarray, labels: np.ndarray, from_logits: bool):
        self.scores, self.labels, self.from_logits = scores, labels, from_logits

    @property
    def exact(self) -> np.ndarray:
        """The scores in float64."""
        return self.scores.astype(np.float64)


def draw_sample(rng: np.random.Generator, *, classes: int | None = None) -> Sample:
    """Scores of any size, scale and precision, with ties now and then."""
    size, classes = int(rng.choice(_SIZES)), classes or int(rng.choice(_CLASSES))
    scores = rng.normal(size=(size, classes)) * rng.choice(_SCALES)
    labels = rng.integers(classes, size=size)
    if rng.random() < 0.7:
        scores[np.arange(size), labels] += abs(scores).mean() * 2
    if rng.random() < 0.2:
        scores = scores.round(rng.integers(0, 2))
    from_logits = bool(rng.random() < 0.7)
    if from_logits:
        scores += 2.0 * bool(np.all(abs(scores.sum(axis=1) - 1) < 0.01))  # logits that look like probabilities are refused
    else:
        scores = np.exp(scores - scores.max(1, keepdims=True))
        scores /= scores.sum(1, keepdims=True)
    scores = scores.astype(rng.choice([np.float16, np.float32, np.float64], p=[0.1, 0.4, 0.5]))
    labels = labels.astype(rng.choice([np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]))
    return Sample(scores, labels, from_logits)


def hostile(rng: np.random.Generator, like: Any) -> Any:
    """Something to pass in the place of `like`, an array or a number: of a wrong kind, or right but unusual."""
    array = like.numpy() if isinstance(like, torch.Tensor) else like
    if isinstance(array, np.ndarray) and rng.random() < 0.75:
        changed = _pick(rng, _CHANGES)(rng, array)  # in one way
        plain = isinstance(changed, np.ndarray) and changed.dtype.kind in "iuf" and changed.dtype.isnative and changed.dtype.itemsize <= 8
        return torch.from_numpy(changed.copy()) if plain and isinstance(like, torch.Tensor) else changed
    return _pick(rng, _OBJECTS)()


def _pick(rng: np.random.Generator, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


_OBJECTS = (
    lambda: None,
    lambda: "x",
    lambda: b"\xff",
    lambda: "",
    dict,
    list,
    lambda: [[]],
    lambda: [[1.0], [2.0, 3.0]],
    lambda: [None],
    lambda: ["cat", "dog"],
    object,
    lambda: 3,
    lambda: 0,
    lambda: -1,
    lambda: True,
    lambda: 2**63,
    lambda: 2**64,
    lambda: 10**400,
    lambda: 2.5,
    lambda: 1e308,
    lambda: float("nan"),
    lambda: float("-inf"),
    lambda: 1 + 2j,
    lambda: np.float16(2),
    lambda: np.int8(-1),
    lambda: np.array(3),
    lambda: torch.tensor(3.0),
    lambda: torch.nn.Linear(2, 2),
    lambda: (number for number in range(3)),
    lambda: range(3),
)


def _with_value(value: float) -> Any:
    def change(rng: np.random.Generator, like: np.ndarray) -> np.ndarray:
        changed = like.astype(np.int64 if isinstance(value, int) and like.dtype.kind in "iu" else np.float64)
        if changed.size:
            changed.reshape(-1)[int(rng.integers(changed.size))] = value
        return changed

    return change


def _as(dtype: Any) -> Any:
    return lambda rng, like: like.astype(dtype)


def _tensor(make: Any) -> Any:
    def change(rng: np.random.Generator, like: np.ndarray) -> torch.Tensor:
        return make(torch.from_numpy(np.ascontiguousarray(like.astype(np.float64 if like.dtype.kind == "f" else np.int64))))

    return change


_CHANGES = (
    *(_with_value(value) for value in (np.nan, np.inf, -np.inf, 1e300, -1, 10**6, 2**62, 0.5)),
    *(_as(dtype) for dtype in ("f2", "f4", "f8", ">f8", ">f4", np.longdouble, "i1", "u1", ">i8", "u8", ">u4", "u2", bool)),
    *(_as(dtype) for dtype in (complex, object, str, "S8", "M8[s]", "m8[s]")),
    lambda rng, like: like.astype([("a", "f8"), ("b", "i4")]),
    lambda rng, like: np.ma.masked_array(like, mask=rng.random(like.shape) < 0.5),
    lambda rng, like: np.ma.masked_array(like),
    lambda rng, like: like[..., None],
    lambda rng, like: like[None],
    lambda rng, like: like[:0],
    lambda rng, like: like.reshape(-1)[:1].reshape(()) if like.size else like,
    lambda rng, like: like.T,
    lambda rng, like: like[::-1],
    lambda rng, like: np.asfortranarray(like),
    lambda rng, like: np.concatenate([like, like]),
    lambda rng, like: (
        np.eye(max(2, int(like.max()) + 1 if like.size and like.dtype.kind in "iu" else 2))[: len(like)] if like.ndim else like
    ),
    lambda rng, like: (rng.random((*like.shape, 3)) < 0.5).astype(np.int64),
    lambda rng, like: like.tolist(),
    lambda rng, like: tuple(like.tolist()) if like.ndim else like,
    lambda rng, like: like.view(np.matrix) if like.ndim == 2 else like,
    _tensor(lambda tensor: tensor.to_sparse()),
    _tensor(lambda tensor: tensor.to("meta")),
    _tensor(lambda tensor: tensor.to(torch.bfloat16)),
    _tensor(lambda tensor: tensor.to(torch.float16)),
    _tensor(lambda tensor: tensor.to(torch.float8_e4m3fn)),
    _tensor(lambda tensor: tensor.to(torch.complex64)),
    _tensor(lambda tensor: tensor.to(torch.uint16)),
    _tensor(lambda tensor: tensor.double().requires_grad_()),
    _tensor(lambda tensor: tensor[..., :1].expand(tensor.shape)),
    _tensor(lambda tensor: torch.nested.nested_tensor([tensor.double().reshape(-1)])),
    _tensor(lambda tensor: torch.nn.Parameter(tensor.double())),
)


_DEEP = "[" * 100_000 + "]" * 100_000


def hostile_json(rng: np.random.Generator) -> str:
    """The text of a JSON value that is not what belongs there, or no JSON at all."""
    texts = ("null", "true", "-1", "0", "1e999", "NaN", "-Infinity", '""', '"x"', "[]", "{}", "[[1]]", '{"a": {}}', "1" * 5000, "0.5")
    return _pick(rng, (*texts, '"\\ud800"', '"' + "x" * 100_000 + '"', _DEEP, '"a\\nb"', "2" + "0" * 30))
