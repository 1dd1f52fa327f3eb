"""A figure as SVG that can stand inside an HTML page: small, without styles or requests of its own, light or dark as the page is."""

import io
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from rankmixup.reports.figures.style import drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_FONTS = "'DejaVu Sans', Verdana, sans-serif"


def inline_svg(figure: "Figure", *, prefix: str, description: str) -> str:
    """Markup of `figure`; `prefix` keeps its identifiers apart from those of other figures on the page, `description` is read aloud."""
    stream = io.StringIO()
    with drawing(fonttype="none"):
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(stream.getvalue())  # noqa: S314 - matplotlib wrote it just now
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', stream.getvalue()))
    for parent in list(root.iter()):
        for child in list(parent):
            # matplotlib's style sheet would style the whole page; what it says is what `svg` in the page's own says.
            if child.tag == f"{_SVG}metadata" or (child.tag == f"{_SVG}defs" and all(each.tag == f"{_SVG}style" for each in child)):
                parent.remove(child)
        _simplify(parent, prefix, used)
    for side in ("width", "height"):
        root.attrib[side] = f"{float(root.attrib[side].removesuffix('pt')):.0f}pt"
    root.attrib |= {"role": "img", "aria-label": description, "fill": "currentColor", "font-family": _FONTS, "stroke-linejoin": "round"}
    return ElementTree.tostring(root, encoding="unicode")


def _simplify(element: ElementTree.Element, prefix: str, used: set[str]) -> None:
    attributes = element.attrib
    # A page that forbids inline styles ignores `style`; as attributes the same properties are allowed.
    for name, value in re.findall(r"([\w-]+)\s*:\s*([^;]*[^;\s])", attributes.pop("style", "")):
        if name == "font":
            size = re.search(r"([\d.]+)px", value)
            attributes["font-size"] = size.group(1) if size else "10"
        elif name != "font-family":
            attributes[name] = value.removesuffix("px")
    identifier = attributes.pop("id", None)
    if identifier in used:
        attributes["id"] = f"{prefix}-{identifier}"
    for name, value in list(attributes.items()):
        if name == _HREF:
            del attributes[_HREF]
            attributes["href"] = f"#{prefix}-{value.removeprefix('#')}"
        elif value.startswith("url(#"):
            attributes[name] = f"url(#{prefix}-{value[5:]}"
        elif name in ("fill", "stroke") and value in ("#000000", "black"):
            attributes[name] = "currentColor"
        elif name in ("d", "transform", "x", "y", "points"):
            short = " ".join(value.split())  # and two decimals: a hundredth of a point cannot be seen
            attributes[name] = re.sub(r"-?\d+\.\d+", lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), short)
    element.tag = element.tag.removeprefix(_SVG)  # inside HTML, svg needs no namespace
    if element.tail and not element.tail.strip():
        element.tail = None
    if element.text and element.tag != "text" and not element.text.strip():
        element.text = None
