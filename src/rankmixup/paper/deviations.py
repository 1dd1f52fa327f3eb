"""Where our recipe of a cell is known to differ from what the paper did, or the paper does not say what it did."""

from rankmixup.paper.published import read_toml

_KNOWN = read_toml("deviations")


def known_deviations(row: str, column: str) -> tuple[str, ...]:
    """The deviations of one cell.

    >>> known_deviations("crl", "cifar10/resnet50")
    ("CRL is trained by the common recipe, not by its authors' own",)
    """
    data, _, *unknown = column.split("/")
    of_data = _KNOWN["long_tail"] if "-lt-" in data else _KNOWN["data"].get(data)
    found = (_KNOWN["methods"].get(row.partition("/")[0]), of_data, _KNOWN["unknown"] if unknown else None)
    return tuple(each for each in found if each)
