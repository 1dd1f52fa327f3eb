"""Histogram binning: the confidence of a prediction becomes the accuracy of its bin."""

from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankmixup.posthoc.base import CalibrationModule, Calibrator, Fitted, over_rows, register_calibrator, softmax_top

_LEAD = 1e-6
"""How far the predicted class stays above the next one."""


class HistogramModule(CalibrationModule):
    """Gives the predicted class the entry of `values` between whose `edges` its confidence lies; gives log-probabilities."""

    edges: Tensor
    values: Tensor
    identity: ClassVar = {"edges": [], "values": [1.0]}

    def forward(self, logits: Float[Tensor, "B K"]) -> Float[Tensor, "B K"]:
        exact = logits.to(self.values.dtype)
        _, prediction, total = softmax_top(exact)
        index = prediction.unsqueeze(1)
        # The other classes share what is left as they did before; in logarithms, so that a confidence of 1 leaves something to share.
        others = exact.scatter(1, index, -torch.inf).log_softmax(dim=1)
        share = others.amax(dim=1).exp()
        value = self.values[torch.bucketize(total.reciprocal(), self.edges)].maximum(share / (1 + share) + _LEAD).unsqueeze(1)
        return (others + (-value).log1p()).scatter(1, index, value.log()).to(logits.dtype)


@register_calibrator("histogram")
class HistogramBinning(Calibrator):
    """Replaces the confidence of each prediction by the accuracy of its bin (top-label form; Gupta and Ramdas, 2022).

    Bins hold equally many of the fitted samples; equal confidences share a bin. The other classes share the rest in their old
    proportions, and predictions never change: where a bin's accuracy would put another class first, the prediction is kept
    just above it.
    **Deviation:** a bin with n samples, r of them right, gives (r + 1/K) / (n + 1), so that no class is ever impossible.

    >>> logits = torch.tensor([[1.0, 0.0]] * 4 + [[2.0, 0.0]] * 4)
    >>> binning = HistogramBinning(num_bins=2).fit(logits, torch.tensor([0, 0, 1, 0, 0, 0, 0, 0]))
    >>> [round(p, 4) for p in binning.predict_proba(logits)[:, 0].tolist()[::4]]  # (3 + .5) / 5 and (4 + .5) / 5
    [0.7, 0.9]
    """

    module_type = HistogramModule
    objectives = ("bin accuracy",)
    keeps_predictions = True

    def _fit(self, logits: Float[Tensor, "N K"], target: Int[Tensor, " N"]) -> Fitted:
        tops = over_rows(logits, lambda rows, _: softmax_top(rows))
        _, prediction, total = (torch.cat(column) for column in zip(*tops, strict=True))
        confidence = total.reciprocal()
        ranked = confidence.sort().values
        ranks = [round(step * len(ranked) / self.num_bins) for step in range(1, self.num_bins)]
        edges = ranked[[rank - 1 for rank in ranks if rank > 0]].unique()
        edges = edges[edges < ranked[-1]]
        index = torch.bucketize(confidence, edges)
        count, right = (torch.bincount(each, minlength=len(edges) + 1) for each in (index, index[prediction == target]))
        values = (right + 1 / logits.shape[1]) / (count + 1).double()
        return Fitted(HistogramModule(edges=edges, values=values), {"edges": edges.tolist(), "values": values.tolist()})
