"""Isotonic regression: a monotone map of the probability of each class."""

from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from rankmixup.posthoc.base import CalibrationModule, Calibrator, Fitted, over_rows, register_calibrator


class IsotonicModule(CalibrationModule):
    """Maps the probability of class k from `inputs[k]` to `outputs[k]`, linear between them, and normalises; gives log-probabilities.

    A new one knows a single class; `load_state_dict` gives it those of a fitted one.
    """

    inputs: Tensor
    outputs: Tensor
    identity: ClassVar = {"inputs": [[0.0, 1.0]], "outputs": [[0.0, 1.0]]}

    def class_maps(self, probs: Float[Tensor, "B K"]) -> Float[Tensor, "B K"]:
        """The map of each class, before the classes are normalised."""
        x = probs.T.contiguous()
        upper = _count_below(self.inputs, x).clamp(1, self.inputs.shape[1] - 1)
        (left, right), (low, high) = ((table.gather(1, upper - 1), table.gather(1, upper)) for table in (self.inputs, self.outputs))
        share = ((x - left) / (right - left)).clamp(0, 1)
        return torch.lerp(low, high, share).T.contiguous()

    def forward(self, logits: Float[Tensor, "B K"]) -> Float[Tensor, "B K"]:
        # Steps are steep: in float32 a rounding error of the input would be one of the output many times its size.
        exact = logits.to(self.inputs.dtype)
        probs = self.class_maps((exact - exact.logsumexp(dim=1, keepdim=True)).exp())
        return (probs.log() - probs.sum(dim=1, keepdim=True).log()).to(logits.dtype)


def _count_below(steps: Float[Tensor, "K S"], values: Float[Tensor, "K B"]) -> Int[Tensor, "K B"]:
    """How many of the ascending steps of a class lie below each value."""
    if torch.compiler.is_compiling():
        # As comparisons, because ONNX has no search; the steps of a class are few.
        return (values.unsqueeze(2) > steps.unsqueeze(1)).sum(dim=2)
    return torch.searchsorted(steps, values)


@register_calibrator("isotonic")
class IsotonicCalibration(Calibrator):
    """Monotone regression of each class against the rest, normalised (Zadrozny and Elkan, 2002), which may change predictions.

    **Deviation:** each map is drawn towards 1/K by the weight of one sample, p to (N p + 1/K) / (N + 1): no probability is
    exactly 0, which the next sample could make infinitely wrong, and a sample that every class disowns gets equal probabilities.

    >>> logits = torch.tensor([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [4.0, 0.0]])
    >>> scaler = IsotonicCalibration().fit(logits, torch.tensor([1, 0, 0, 1]))  # class 0: right 0 times, then 2 of 3
    >>> [round(p, 4) for p in scaler.predict_proba(logits)[:, 0].tolist()]  # (0 + .5) / 5, (4 * 2 / 3 + .5) / 5
    [0.1, 0.6333, 0.6333, 0.6333]
    """

    module_type = IsotonicModule
    objectives = ("squared error",)

    def _fit(self, logits: Float[Tensor, "N K"], target: Int[Tensor, " N"]) -> Fitted:
        from sklearn.isotonic import IsotonicRegression

        samples, classes = logits.shape
        normaliser = torch.cat(over_rows(logits, lambda rows, _: rows.logsumexp(dim=1)))
        inputs, outputs = [], []
        for index in range(classes):
            # Column by column, so that no float64 copy of a large matrix is made.
            probs = (logits[:, index].double() - normaliser).exp()
            regression = IsotonicRegression().fit(probs.numpy(), (target == index).double().numpy())
            inputs.append(torch.from_numpy(regression.X_thresholds_))
            outputs.append(torch.from_numpy((samples * regression.y_thresholds_ + 1 / classes) / (samples + 1)))
        steps = max(2, *(len(thresholds) for thresholds in inputs))
        # Filled up with inputs that no probability reaches, a unit apart so that no step is divided by zero.
        filled = [torch.cat([each, 2 + torch.arange(steps - len(each), dtype=torch.float64)]) for each in inputs]
        constant = [F.pad(each, (0, steps - len(each)), value=each[-1].item()) for each in outputs]
        module = IsotonicModule(inputs=torch.stack(filled), outputs=torch.stack(constant))
        return Fitted(module, {"steps": [float(len(thresholds)) for thresholds in inputs]})
