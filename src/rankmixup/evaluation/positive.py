"""One class against all others: which one, how often it is right to expect it, and how well its probability separates it."""

from rankmixup.errors import InvalidInput, require, require_whole, shown
from rankmixup.evaluation.results import Positive
from rankmixup.evaluation.scores import Scores
from rankmixup.metrics.calibration import Bins, bin_top_label
from rankmixup.metrics.ties import odds_groups


def positive_index(scores: Scores, positive: int | str | None = None) -> int | None:
    """The class that `positive` means: an index, a name, or an index as text; by default class 1 of two, and none of more."""
    classes, names = scores.scores.shape[1], scores.class_names or ()
    if positive is None:
        return 1 if classes == 2 else None
    if not isinstance(positive, str):
        return require_whole("positive", positive, least=0, most=classes - 1)
    by_name = names.index(positive) if positive in names else None
    # Longer texts are no index of anything, and Python refuses to read thousands of digits.
    by_number = int(positive) if positive.isdecimal() and len(positive) < 10 and int(positive) < classes else None
    unclear = by_name is not None and by_number is not None and by_name != by_number
    require(not unclear, f"positive must be clear, but {positive!r} is both the name of class {by_name} and the number of another")
    found = by_number if by_name is None else by_name
    if found is None:
        known = f"one of {', '.join(map(repr, names[:20]))} or " if names else ""
        raise InvalidInput(f"positive must be {known}an index in 0..{classes - 1}, got {shown(positive)}")
    return found


def positive_bins(scores: Scores, index: int, num_bins: int) -> Bins:
    """Sums over equal-width bins of the probability of one class, with the frequency of that class as accuracy."""
    return bin_top_label(scores.probs[:, index].cpu(), (scores.labels == index).double().cpu(), num_bins, scores.precision)


def describe_positive(scores: Scores, index: int, num_bins: int) -> Positive:
    """Frequency, mean probability, calibration error and AUROC of one class."""
    is_positive, logits = (scores.labels == index).double(), scores.logits.double()
    others = logits.index_fill(1, logits.new_tensor([index]).long(), -float("inf")).logsumexp(dim=1)
    frequency = is_positive.mean().item()
    auroc = odds_groups(logits[:, index] - others, is_positive).auroc().item() if 0 < frequency < 1 else None
    mean, ece = scores.probs[:, index].mean().item(), positive_bins(scores, index, num_bins).ece().item()
    return Positive(index, scores.class_names[index] if scores.class_names else None, frequency, mean, ece, auroc)
