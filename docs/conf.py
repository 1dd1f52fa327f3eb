"""Sphinx: the pages of this folder, and the reference made from docstrings."""

from rankmixup import metrics

project = "rankmixup"
author = "the rankmixup authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "rankmixup"
exclude_patterns = ["images"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
maximum_signature_line_length = 120  # longer signatures have one parameter per line
autodoc_default_options = {"members": True, "show-inheritance": False, "exclude-members": "registry"}
default_role = "literal"  # docstrings use single backticks for code

# autodoc documents only the names in a module's namespace; those that resolve on first use are put there.
vars(metrics).update({name: getattr(metrics, name) for name in metrics.__all__})
