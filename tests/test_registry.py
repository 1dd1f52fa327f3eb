"""Registries: names to classes, unknown names, plugins that are looked up late."""

import re

import pytest

from rankmixup import registry as registry_module
from rankmixup.errors import InvalidInput
from rankmixup.methods import Method
from rankmixup.mixers import Mixer
from rankmixup.registry import Registry, first_line


@pytest.fixture
def shapes():
    shapes = Registry("shape")

    @shapes.register("round-one")
    class Circle:
        """All points at one distance.

        From another.
        """

    @shapes.register("angular-one")
    class Square:
        """Four sides."""

    return shapes


class Own:
    """Ours."""


class Theirs:
    """Another package's."""


class Plugin:
    """Stands for an installed package's entry point."""

    def __init__(self, load):
        self.load = load


@pytest.fixture
def plugins(monkeypatch):
    """What `entry_points` finds, and the groups that it was asked for."""
    found, asked = [], []
    monkeypatch.setattr(registry_module, "entry_points", lambda group: asked.append(group) or found)
    return found, asked


def test_names_lead_to_entries_and_classes_learn_their_name(shapes):
    assert shapes["round-one"].__name__ == "Circle"
    assert shapes["round-one"].name == "round-one"
    assert "round-one" in shapes
    assert "square" not in shapes


def test_listing_is_sorted_and_summaries_are_first_lines(shapes):
    assert list(shapes) == ["angular-one", "round-one"]
    assert shapes.summaries() == {"angular-one": "Four sides", "round-one": "All points at one distance"}


def test_functions_can_be_registered():
    builders = Registry("builder")

    @builders.register("f")
    def build():
        """Builds."""
        return 3

    assert builders["f"]() == 3
    assert not hasattr(build, "name")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("round-on", r"^unknown shape 'round-on'; did you mean 'round-one'"),
        ("Round_One", r"^unknown shape 'Round_One'; did you mean 'round-one'"),
        ("xyz", r"^unknown shape 'xyz'; valid names: angular-one, round-one$"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_ones(shapes, name, message):
    with pytest.raises(InvalidInput, match=message):
        shapes[name]


def test_a_name_is_given_once(shapes):
    with pytest.raises(InvalidInput, match=r"^shape 'round-one' is already registered; choose another name$"):
        shapes.register("round-one")(Own)
    circle = shapes["round-one"]
    assert shapes.register("round-one")(circle) is circle  # the same again, as when a module is loaded twice


def test_what_is_defined_again_replaces_what_it_was():
    shapes, cell = (
        Registry("shape"),
        "@shapes.register('mine', 'own')\nclass Mine:\n    sides = {}\n@shapes.register('f')\ndef f(): return {}",
    )
    notebook = {"__name__": "__main__", "shapes": shapes}
    for sides in (3, 4):  # a cell of a notebook, edited and run again
        exec(cell.format(sides, sides), notebook)
        assert shapes["mine"].sides == shapes["own"].sides == shapes["f"]() == sides
    for name in ("mine", "own"):
        with pytest.raises(InvalidInput, match=f"shape '{name}' is already registered"):
            shapes.register(name)(Own)
        with pytest.raises(InvalidInput, match=f"shape '{name}' is already registered"):
            exec(f"@shapes.register('{name}')\nclass Mine: ...", {"__name__": "another_module", "shapes": shapes})
    assert shapes["mine"].sides == 4


def test_an_alias_leads_to_its_entry_and_is_not_listed(shapes):
    shapes.register("flat-one", "plane", "sheet")(Own)
    assert shapes["plane"] is shapes["sheet"] is shapes["flat-one"] is Own
    assert Own.name == "flat-one"
    assert "sheet" in shapes
    assert list(shapes) == ["angular-one", "flat-one", "round-one"]
    assert shapes.summaries()["flat-one"] == "Ours (alias plane, sheet)"
    for names in (["plane"], ["another", "sheet"], ["another", "round-one"]):
        with pytest.raises(InvalidInput, match=r"^shape '(plane|sheet|round-one)' is already registered"):
            shapes.register(*names)(Theirs)
    assert "another" not in shapes


def test_plugins_are_loaded_once_and_only_when_a_name_is_missing(plugins):
    found, asked = plugins
    registry, loaded = Registry("thing", "things"), []
    registry.register("own")(Own)
    found.append(Plugin(lambda: loaded.append(1) or registry.register("theirs")(Theirs)))
    assert registry["own"] is Own
    assert asked == []
    assert registry["theirs"] is Theirs
    assert list(registry) == ["own", "theirs"]
    assert "theirs" in registry
    assert (asked, loaded) == (["things"], [1])


def test_listing_loads_plugins(plugins):
    registry = Registry("thing", "things")
    plugins[0].append(Plugin(lambda: registry.register("theirs")(Theirs)))
    assert list(registry) == ["theirs"]


def test_a_registry_without_a_group_looks_for_none(shapes, plugins):
    list(shapes)
    with pytest.raises(InvalidInput):
        shapes["xyz"]
    assert plugins[1] == []


@pytest.mark.parametrize("base", [Method, Mixer])
def test_registered_names_are_kebab_case_and_have_a_summary(base):
    for name, summary in base.registry.summaries().items():
        assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name)
        assert summary
        assert base.registry[name].name == name


def test_the_core_is_registered():
    assert {"ce", "mixup", "rankmixup-mrl", "rankmixup-mndcg"} <= set(Method.registry)
    assert {"mixup", "cutmix", "manifold"} <= set(Mixer.registry)


def test_first_line_of_what_has_no_docstring_is_empty():
    assert first_line(lambda: None) == ""
