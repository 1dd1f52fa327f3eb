"""Where our recipe of a cell is known to differ from what the paper did, or the paper does not say what it did."""

__all__ = ["known_deviations"]

_METHODS = {
    "mmce": "weight and form of MMCE are not given in the paper",
    "ecp": "entropy is not divided by the number of classes, as the release does",
    "crl": "CRL is trained by the common recipe, not by its authors' own",
    "cpc": "no official code of CPC is known",
    "regmixup": "RegMixup is trained by the common recipe, with half weights and alpha 10",
    "unimix": "the paper's row is UniMix + Bayias",
    "rankmixup-mrl": "MRL leaves out pairs of one class, where the release scales the whole term",
}
_DATA = {
    "cifar100": "the release normalises test images of CIFAR-100 by other constants than training images",
    "tiny-imagenet": "margin 1 and batch 32 as in the text; the paper's number is that of margin 2",
    "imagenet": "the paper gives no recipe for ImageNet",
}
_LONG_TAIL = "the paper gives no recipe for long tails, and its release validates on test samples and balances classes"
_UNKNOWN = "images of unknown classes are resized and normalised as those of the run, which the paper does not say"


def known_deviations(row: str, column: str) -> tuple[str, ...]:
    """What docs/deviations.md has in full, of one cell.

    >>> known_deviations("crl", "cifar10/resnet50")
    ("CRL is trained by the common recipe, not by its authors' own",)
    """
    data, _, *unknown = column.split("/")
    found = [_METHODS.get(row.partition("/")[0])]
    found += [_LONG_TAIL] if "-lt-" in data else [_DATA.get(data)]
    found += [_UNKNOWN] if unknown else []
    return tuple(each for each in found if each)
