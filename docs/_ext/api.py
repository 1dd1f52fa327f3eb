"""A page for each public module: a table of its names, then the signature and docstring of each."""

import importlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path

from generated import write_page
from sphinx.pycode import ModuleAnalyzer

import rankmixup

WITHOUT_ALL = {"rankmixup.integrations.lightning"}
"""Modules below a package that are imported by name though the package does not list them."""
HIDDEN = {"rankmixup.sklearn": "set_fit_request, set_score_request"}
"""Members that another library adds."""
PLAIN_ARRAY = re.compile(
    r"~?(?:numpy\.)?ndarray\[~?tuple\[.*?, \.\.\.\], ~?(?:numpy\.)?dtype\[.*?\]\] \| ~?(?:collections\.abc\.)?Sequence\[.*?\]"
)


def public_modules():
    """Every module of the library that users import names from."""
    for info in pkgutil.walk_packages(rankmixup.__path__, "rankmixup."):
        name = info.name
        if name.startswith("rankmixup.cli") or name.endswith("__main__"):
            continue
        module = importlib.import_module(name)
        first_level = name.count(".") == 1 and not info.ispkg
        if (
            first_level
            or name in WITHOUT_ALL
            or ((info.ispkg or name.startswith("rankmixup.integrations.")) and hasattr(module, "__all__"))
        ):
            yield module


def public_names(module):
    """What `__all__` lists, or, without it, the functions and classes that the module defines."""
    if hasattr(module, "__all__"):
        return sorted(set(module.__all__), key=str.lower)
    own = {name: value for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    return [name for name, value in own.items() if not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value))]


def home_of(module, name):
    """The package that exports what this module has from it; the module itself for its own names."""
    parts = (getattr(getattr(module, name), "__module__", None) or "").split(".")
    for length in range(len(parts), 1, -1):
        package = sys.modules.get(".".join(parts[:length]))
        if name in getattr(package, "__all__", ()):
            return package
    return module


def kind_of(value):
    if inspect.isclass(value):
        return "class"
    return "function" if inspect.isroutine(value) else "data"


def text_of_data(module, name):
    """The text below a constant, wherever below the module it is defined."""
    for where in [module.__name__, *(each for each in sys.modules if each.startswith(f"{module.__name__}."))]:
        found = ModuleAnalyzer.for_module(where).find_attr_docs().get(("", name)) if where in sys.modules else None
        if found:
            return [f"   {line}" for line in found]
    return []


def entry(module, name):
    kind = kind_of(getattr(module, name))
    if kind == "data":
        return [f".. py:data:: {name}", f"   :module: {module.__name__}", "", *text_of_data(module, name), ""]
    options = ["   :members:"] if kind == "class" else []
    if module.__name__ in HIDDEN and kind == "class":
        options.append(f"   :exclude-members: {HIDDEN[module.__name__]}")
    return [f".. auto{kind}:: {module.__name__}.{name}", *options, ""]


def summary_line(module, name):
    value = getattr(module, name)
    doc = " ".join(text_of_data(module, name)) if kind_of(value) == "data" else inspect.getdoc(value) or ""
    role = {"class": "class", "function": "func", "data": "data"}[kind_of(value)]
    return f"   * - :py:{role}:`~{home_of(module, name).__name__}.{name}`\n     - {first_sentence(doc)}"


def first_sentence(doc):
    """The first line of a docstring; a name without one has an empty cell."""
    return doc.strip().partition("\n")[0].strip() or "\\"


def listing(module, names):
    return ["", ".. list-table::", "   :widths: 35 65", "", *(summary_line(module, name) for name in names), ""]


def page_of(module):
    """The text of a module's page."""
    names = public_names(module)
    lines = [f".. py:module:: {module.__name__}", "", inspect.getdoc(module) or ""]
    own = [name for name in names if home_of(module, name) is module]
    lines += listing(module, names) if len(names) > 3 or own != names else [""]
    for kind, title in (("function", "Functions"), ("class", "Classes"), ("data", "Data")):
        entries = [line for name in own if kind_of(getattr(module, name)) == kind for line in entry(module, name)]
        lines += [f".. rubric:: {title}", "", *entries] if entries else []
    return f"# {module.__name__}\n\n```{{eval-rst}}\n" + "\n".join(lines) + "\n```\n"


def write_modules(app):
    for module in public_modules():
        source = "src/rankmixup/" + Path(module.__file__).relative_to(Path(rankmixup.__file__).parent).as_posix()
        write_page(f"reference/api/{module.__name__}.md", source, page_of(module))


def shorten_types(app, what, name, obj, options, signature, returned):
    """Arrays and sequences, which every function takes in place of tensors, under their short name."""
    return tuple(part and PLAIN_ARRAY.sub("PlainArray", part) for part in (signature, returned))


def resolve_in_package(app, env, node, contnode):
    """A name in a signature has the module that defines it; its documentation is with the package that exports it."""
    target = node.get("reftarget", "")
    parts = target.split(".")
    if node.get("refdomain") != "py" or parts[0] != "rankmixup":
        return None
    python = env.domains.python_domain
    for length in range(len(parts) - 2, 0, -1):
        candidate = ".".join([*parts[:length], parts[-1]])
        if candidate in python.objects:
            return python.resolve_xref(env, node["refdoc"], app.builder, "obj", candidate, node, contnode)
    return None


def setup(app):
    app.connect("builder-inited", write_modules)
    app.connect("autodoc-process-signature", shorten_types)
    app.connect("missing-reference", resolve_in_package)
    return {"parallel_read_safe": True}
