"""Sphinx: the pages of this folder, and those that the extensions in _ext make from the code."""

import sys
import tomllib
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_ext"))

import rankmixup  # noqa: E402

PROJECT = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY = PROJECT.get("urls", {}).get("Repository", "https://github.com/rankmixup/rankmixup")

project = "rankmixup"
author = "the rankmixup authors"
version = release = rankmixup.__version__
project_copyright = f"{author}, Apache-2.0. Version {release}"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_design", "sphinx_copybutton"]
extensions += ["generated", "mathml", "cards", "choices", "commands", "api"]  # of _ext
exclude_patterns = ["images", "schemas", "_ext", "_static"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
default_role = "literal"  # docstrings use single backticks for code
nitpicky = True
# Without a network only names of this library can be looked up; of these, not what a module keeps to itself and type variables.
nitpick_ignore_regex = [
    ("py:.*", r"(?!rankmixup\.).*"),
    ("py:.*", r"rankmixup(\.\w+){3,}"),
    ("py:.*", r"rankmixup\.(config\.C|registry\.(T|Entry))"),
]

html_theme = "furo"
html_title = f"rankmixup {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["tables.js"]
html_math_renderer = "mathml"
html_theme_options = {"source_repository": REPOSITORY, "source_branch": "main", "source_directory": "docs/"}
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div:not(.highlight-output) > div.highlight > pre"  # what tutorials printed is not for copying
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "show-inheritance": False, "exclude-members": "registry"}
maximum_signature_line_length = 100  # longer signatures have one parameter per line
python_use_unqualified_type_names = True
