"""RankMixup by hand: double loops over Python floats, from the paper's equations and the release's described behaviour."""

import math
from collections.abc import Sequence

Row = Sequence[float]


def probabilities(logits: Row) -> list[float]:
    total = math.fsum(math.exp(z - max(logits)) for z in logits)
    return [math.exp(z - max(logits)) / total for z in logits]


def confidence(logits: Row) -> float:
    return max(probabilities(logits))


def mixed_label(lam: float, own: int, other: int, num_classes: int) -> list[float]:
    return [lam * (k == own) + (1 - lam) * (k == other) for k in range(num_classes)]


def cross_entropy(logits: Row, label: Row) -> float:
    """-sum_k label_k log p_k, for any label distribution."""
    log_total = max(logits) + math.log(math.fsum(math.exp(z - max(logits)) for z in logits))
    return -math.fsum(weight * (z - log_total) for weight, z in zip(label, logits, strict=True))


def mixup(x: Sequence[Row], lam: Row, partner: Sequence[int]) -> list[list[float]]:
    return [[lam[i] * x[i][d] + (1 - lam[i]) * x[partner[i]][d] for d in range(len(x[i]))] for i in range(len(x))]


def cutmix(x: list, box: Sequence[Sequence[int]], partner: Sequence[int]) -> tuple[list, list[float]]:
    """Pixel by pixel over images [B][C][H][W]; lambda is counted, not computed."""
    mixed, lam = [], []
    for i, image in enumerate(x):
        top, bottom, left, right = box[i]
        channels, height, width = len(image), len(image[0]), len(image[0][0])
        kept, out = 0, [[[0.0] * width for _ in range(height)] for _ in range(channels)]
        for row in range(height):
            for column in range(width):
                inside = top <= row < bottom and left <= column < right
                kept += not inside
                for c in range(channels):
                    out[c][row][column] = x[partner[i]][c][row][column] if inside else image[c][row][column]
        mixed.append(out)
        lam.append(kept / (height * width))
    return mixed, lam


def cutmix_box(lam: float, centre: tuple[float, float], size: tuple[int, int]) -> tuple[int, int, int, int]:
    """CutMix's own recipe: sides int(extent * sqrt(1 - lam)), halves by integer division, cut off at the border."""
    ends = []
    for fraction, extent in zip(centre, size, strict=True):
        cut = int(extent * math.sqrt(1 - lam))
        middle = int(fraction * extent)
        ends += [min(max(middle - cut // 2, 0), extent), min(max(middle + cut // 2, 0), extent)]
    return tuple(ends)


def mrl(
    raw: Sequence[Row], mixed: Sequence[Sequence[Row]], same_class: Sequence[Sequence[bool]], *, margin: float, space: str, masking: str
) -> float:
    """The mixup ranking loss, mean over the batch and the mixes."""
    score = confidence if space == "probability" else max
    total = 0.0
    for mix, same in zip(mixed, same_class, strict=True):
        hinge = [max(0.0, score(mix[i]) - score(raw[i]) + margin) for i in range(len(raw))]
        if masking == "release":
            # The release multiplies a mask [N] with hinges [N, 1], which broadcasts to [N, N], and takes the mean of that.
            table = [[(not same[j]) * hinge[i] for j in range(len(raw))] for i in range(len(raw))]
            total += math.fsum(math.fsum(row) for row in table) / len(raw) ** 2
        elif masking == "skip":
            total += math.fsum(0.0 if same[i] else hinge[i] for i in range(len(raw))) / len(raw)
        else:
            total += math.fsum(hinge) / len(raw)
    return total / len(mixed)


def mndcg(raw: Sequence[Row], mixed: Sequence[Sequence[Row]], relevance: Sequence[Row], *, ratio: str) -> list[float]:
    """The M-NDCG loss of each sample."""
    losses = []
    for i in range(len(raw)):
        pairs = [(relevance[j][i], confidence(mixed[j][i])) for j in range(len(mixed))]
        pairs = [(1.0, confidence(raw[i])), *sorted(pairs, key=lambda pair: -pair[0])]
        dcg = math.fsum(conf / math.log2(q + 1) for q, (_, conf) in enumerate(pairs, start=1))
        ideal = math.fsum(truth / math.log2(q + 1) for q, (truth, _) in enumerate(pairs, start=1))
        gain = dcg / ideal
        if ratio == "symmetric" and gain > 1:
            gain = ideal / dcg
        losses.append(1 - gain)
    return losses


def log_odds(logits: Row) -> float:
    """Of the largest probability, which is some largest logit's; equal ones are as good as any."""
    top = list(logits).index(max(logits))
    others = [z for place, z in enumerate(logits) if place != top]
    return max(logits) - max(others) - math.log(math.fsum(math.exp(z - max(others)) for z in others))


def naive_list_loss(raw: Row, mixes: Sequence[Row], relevance: Row, margin: float) -> float:
    """Mean over all pairs of how far the less relevant one is from staying behind."""
    items = [(1.0, log_odds(raw)), *((r, log_odds(mix)) for r, mix in zip(relevance, mixes, strict=True))]
    hinges = []
    for i, (r_a, s_a) in enumerate(items):
        for r_b, s_b in items[i + 1 :]:
            ahead, behind = ((r_a, s_a), (r_b, s_b)) if r_a > r_b else ((r_b, s_b), (r_a, s_a))
            hinges.append(max(0.0, behind[1] - ahead[1] + margin * (ahead[0] - behind[0])) if r_a != r_b else 0.0)
    return math.fsum(hinges) / len(hinges)
