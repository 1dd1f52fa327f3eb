"""Sphinx: the pages of this folder, and the reference made from docstrings."""

project = "rankmixup"
author = "the rankmixup authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "rankmixup"
exclude_patterns = ["images"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # shapes in annotations are for readers of the source, not for cross-references
autodoc_default_options = {"members": True, "show-inheritance": False}
default_role = "literal"  # docstrings use single backticks for code
