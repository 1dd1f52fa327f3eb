"""The paper's tables 1 to 8."""

from rankmixup.data import DataSource, parse_source
from rankmixup.mixers import CutMix, ManifoldMixup
from rankmixup.paper.experiment import Column, Experiment, Row

__all__ = ["MARGIN_ROWS", "Q_ROWS", "TABLES", "column"]

_DATA = {"cifar10": "CIFAR10", "cifar100": "CIFAR100", "tiny-imagenet": "Tiny-ImageNet", "imagenet": "ImageNet", "svhn": "SVHN"}
_MODELS = {"resnet50": "ResNet-50", "resnet101": "ResNet-101", "wrn-26-10": "Wide-ResNet-26-10", "resnet32": "ResNet-32"}
_METHODS = {
    "ce": "CE",
    "mmce": "MMCE",
    "ecp": "ECP",
    "label-smoothing": "LS",
    "focal": "FL",
    "mixup": "Mixup",
    "flsd": "FLSD",
    "crl": "CRL",
    "cpc": "CPC",
    "mbls": "MbLS",
    "regmixup": "RegMixup",
    "remix": "Remix",
    "unimix": "UniMix",
    "rankmixup-mrl": "RankMixup (MRL)",
    "rankmixup-mndcg": "RankMixup (M-NDCG)",
}


def column(data: str, model: str, *, unknown: str = "", imbalance: int = 1) -> Column:
    """The column of a data set and a network by name."""
    source = parse_source(data)
    if imbalance == 1:
        key, label = data, _DATA[data]
    else:
        source = DataSource.registry[data](imbalance=imbalance)
        key, label = f"{data}-lt-{imbalance}", f"{_DATA[data]}-LT, rho={imbalance}"
    key, label = f"{key}/{model}", f"{label} {_MODELS[model]}"
    if unknown:
        key, label = f"{key}/{unknown}", f"{label} against {_DATA[unknown]}"
    return Column(key, label, source, model, unknown)


def _methods(*keys: str) -> tuple[Row, ...]:
    return tuple(Row(key, _METHODS[key]) for key in keys)


MARGIN_ROWS = tuple(Row(f"rankmixup-mrl/margin={m}", f"m={m}.0", {"margin": float(m)}) for m in range(1, 6))
"""MRL with each margin m."""
Q_ROWS = tuple(Row(f"rankmixup-mndcg/q={q}", f"Q={q}", {"num_mixes": q - 1}) for q in range(2, 7))
"""M-NDCG with each number Q of samples that are ranked, the raw one among them."""
_SWEEP_COLUMNS = (column("cifar10", "resnet50"), column("tiny-imagenet", "resnet50"))
_RANKMIXUP = ("rankmixup-mrl", "rankmixup-mndcg")

_STATE_OF_THE_ART = Experiment(
    "table1",
    "Calibration of 13 training methods on CIFAR10/100 and Tiny-ImageNet",
    _methods(
        *("ce", "mmce", "ecp", "label-smoothing", "focal", "mixup", "flsd", "crl", "cpc", "mbls", "regmixup"),
        *_RANKMIXUP,
    ),
    tuple(column(data, model) for data in ("cifar10", "cifar100", "tiny-imagenet") for model in ("resnet50", "resnet101")),
    ("accuracy", "ece", "aece"),
    "Both RankMixup losses below Mixup, RegMixup and CRL in ECE and AECE; M-NDCG best on Tiny-ImageNet.",
)
_IMAGENET = Experiment(
    "table2",
    "Calibration on ImageNet",
    _methods("ce", "mixup", "crl", "mbls", "regmixup", *_RANKMIXUP),
    (column("imagenet", "resnet50"),),
    ("accuracy", "ece", "aece"),
    "M-NDCG best in ECE and AECE, MbLS next; MRL below Mixup but not below RegMixup.",
)
_WIDE = Experiment(
    "table3",
    "Calibration of wide residual networks",
    _methods("ce", "mixup", "mbls", "regmixup", *_RANKMIXUP),
    (column("cifar10", "wrn-26-10"), column("tiny-imagenet", "wrn-26-10")),
    ("accuracy", "ece", "aece"),
    "The order of table 1 with another network; MbLS best in ECE.",
)
_OOD = Experiment(
    "table4",
    "Unknown samples told from known ones by entropy",
    (Row("ce", "TS"), *_methods("label-smoothing", "focal", "mixup", "cpc", "mbls", "regmixup", "rankmixup-mndcg")),
    tuple(
        column(known, "resnet50", unknown=unknown)
        for known, other in (("cifar10", "cifar100"), ("cifar100", "cifar10"))
        for unknown in (other, "tiny-imagenet", "svhn")
    ),
    ("auroc",),
    "M-NDCG above Mixup and RegMixup in AUROC in most columns.",
)
_MARGIN = Experiment(
    "table5",
    "MRL by margin m",
    MARGIN_ROWS,
    _SWEEP_COLUMNS,
    ("ece",),
    "Small margins best; a margin of 5 harms much on CIFAR10.",
)
_Q = Experiment(
    "table6",
    "M-NDCG by number of samples Q",
    Q_ROWS,
    _SWEEP_COLUMNS,
    ("ece",),
    "ECE falls as Q grows.",
)
_MIXERS = Experiment(
    "table7",
    "Other ways to mix",
    (
        # The paper names alpha 1 for its own losses; what it gave RegMixup here it does not say.
        Row("regmixup/manifold", "RegMixup, Manifold", {"mixer": ManifoldMixup(alpha=1.0)}),
        Row("regmixup/cutmix", "RegMixup, CutMix", {"mixer": CutMix(alpha=1.0, forward="joint")}),
        Row("rankmixup-mndcg/manifold", "RankMixup, Manifold", {"mixer": ManifoldMixup(alpha=1.0)}),
        Row("rankmixup-mndcg/cutmix", "RankMixup, CutMix", {"mixer": CutMix(alpha=1.0)}),
        Row("rankmixup-mndcg/mixup", "RankMixup, Mixup"),
    ),
    _SWEEP_COLUMNS,
    ("ece", "aece"),
    "RankMixup below RegMixup with either; plain mixup best on CIFAR10, manifold mixup on Tiny-ImageNet.",
)
_LONG_TAILS = Experiment(
    "table8",
    "Long-tailed data",
    _methods("ce", "mixup", "remix", "unimix", *_RANKMIXUP),
    tuple(column(data, "resnet32", imbalance=imbalance) for data in ("cifar10", "cifar100") for imbalance in (10, 100)),
    ("accuracy", "ece"),
    "Both RankMixup losses below the others in ECE, MRL far below M-NDCG where tails are long.",
)

TABLES = (_STATE_OF_THE_ART, _IMAGENET, _WIDE, _OOD, _MARGIN, _Q, _MIXERS, _LONG_TAILS)
