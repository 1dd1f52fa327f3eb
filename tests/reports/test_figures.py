import itertools
import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb

from rankmixup.evaluation import Scores
from rankmixup.evaluation.diagrams import (
    confidence_histogram,
    lambda_curve,
    reliability,
    risk_coverage_curve,
    score_densities,
    temperature_curve,
)
from rankmixup.metrics import overconfidence_error, underconfidence_error
from rankmixup.reports import figures
from rankmixup.reports.figures.style import STYLES, label
from tests.reports.entries import HOSTILE, make_scores


def probs_of(confidence: list[float], correct: list[int]) -> Scores:
    """Two classes, the first predicted: confidences and correctness as given."""
    top = torch.tensor(confidence, dtype=torch.float64)
    return Scores(torch.stack([top, 1 - top], dim=1), 1 - torch.tensor(correct), from_logits=False)


FOUR = probs_of([0.95, 0.85, 0.75, 0.65], [1, 0, 1, 1])
CURVE = [0.5, None, 0.7, 0.9]


def test_reliability_shows_accuracy_and_count_of_each_bin():
    scores = probs_of([0.91, 0.93, 0.95, 0.97, 0.55, 0.57], [1, 1, 1, 0, 1, 0])
    figure = figures.reliability_figure({"a": reliability([scores], 10)})
    above, below = figure.axes
    points = next(line for line in above.lines if line.get_marker() == "o")
    np.testing.assert_allclose(points.get_xdata(), [0.55, 0.95])
    np.testing.assert_allclose(points.get_ydata(), [0.5, 0.75])
    assert [bar.get_height() for bar in below.patches] == [0, 0, 0, 0, 0, 2, 0, 0, 0, 4]
    assert "ECE 14.67 %" in above.get_title()  # (2 * |0.56 - 0.5| + 4 * |0.94 - 0.75|) / 6


def test_reliability_pools_runs_and_has_a_panel_for_each_method():
    figure = figures.reliability_figure({"a": reliability([FOUR, FOUR], 10), "b": reliability([FOUR], 10)})
    first, second = figure.axes[2:]
    assert sum(bar.get_height() for bar in first.patches) == 8
    assert sum(bar.get_height() for bar in second.patches) == 4


def test_histograms_are_shares_of_right_and_of_wrong():
    figure = figures.confidence_histogram_figure({"a": confidence_histogram([FOUR], 10)})
    (axes,) = figure.axes
    right, _, wrong, _ = (patch.get_data().values for patch in axes.patches)
    np.testing.assert_allclose(right[[6, 7, 9]], 1 / 3)
    np.testing.assert_allclose(wrong[8], 1)
    assert right.sum() == pytest.approx(1)
    assert wrong.sum() == pytest.approx(1)
    figure.draw_without_rendering()
    _, tallest = axes.transData.transform((0, 1))
    assert axes.get_legend().get_window_extent().y0 > tallest  # the legend covers no bar


def test_risk_is_the_error_among_the_most_confident():
    (axes,) = figures.risk_coverage_figure({"a": risk_coverage_curve([FOUR])}).axes
    (line,) = axes.lines
    np.testing.assert_allclose(line.get_xdata(), [25, 50, 75, 100])
    np.testing.assert_allclose(line.get_ydata(), [0, 50, 100 / 3, 25])


def test_curves_of_many_samples_are_thinned():
    (axes,) = figures.risk_coverage_figure({"a": risk_coverage_curve([make_scores(5000)])}).axes
    assert len(axes.lines[0].get_xdata()) == 150
    assert axes.lines[0].get_xdata()[-1] == 100


def test_bars_are_over_and_underconfidence():
    scores = make_scores()
    (axes,) = figures.over_under_figure({"a": reliability([scores])}).axes
    under, over = (bar.get_width() for bar in axes.patches)
    assert over == pytest.approx(100 * overconfidence_error(scores.scores, scores.labels, from_logits=True).item())
    assert -under == pytest.approx(100 * underconfidence_error(scores.scores, scores.labels, from_logits=True).item())


def drawn_temperature(scores: Scores, fitted: float | None):
    return figures.temperature_figure({"a": temperature_curve(scores.logits, scores.labels, fitted=fitted)})


def test_fitted_temperature_is_marked():
    for axes in drawn_temperature(make_scores(), 2.5).axes:
        assert [2.5, 2.5] in [list(line.get_xdata()) for line in axes.lines]
    unmarked = drawn_temperature(make_scores(), None)
    assert "fitted" not in " ".join(line.get_label() for line in unmarked.axes[0].lines)


def test_densities_of_unknown_scores_have_area_one():
    (axes,) = figures.ood_figure(score_densities(make_scores(100), {"svhn": make_scores(50, sharpness=0.5)})).axes
    assert len(axes.patches) == 2
    for patch in axes.patches:
        values, edges, _ = patch.get_data()
        assert (values * np.diff(edges)).sum() == pytest.approx(1)


def test_lambda_figure_has_a_line_for_each_method_however_many():
    many = {f"method {i}": CURVE for i in range(len(STYLES) + 2)}
    (axes,) = figures.confidence_by_lambda_figure(many).axes
    assert [text.get_text() for text in axes.get_legend().get_texts()][1:] == list(many)


def all_figures(scores: Scores, name: str = "a"):
    bins = {name: reliability([scores])}
    yield figures.reliability_figure(bins)
    yield figures.confidence_histogram_figure({name: confidence_histogram([scores])})
    yield figures.risk_coverage_figure({name: risk_coverage_curve([scores])})
    yield figures.over_under_figure(bins)
    yield figures.temperature_figure({name: temperature_curve(scores.logits, scores.labels, fitted=1.5)})
    yield figures.ood_figure(score_densities(scores, {name: scores}))
    yield figures.confidence_by_lambda_figure({name: lambda_curve([(torch.randn(5, 2), torch.rand(5), scores.logits)])})


@pytest.mark.parametrize(
    "scores",
    [
        pytest.param(probs_of([0.7], [1]), id="one sample"),
        pytest.param(probs_of([0.9, 0.8], [1, 1]), id="all right"),
        pytest.param(probs_of([0.9, 0.8], [0, 0]), id="all wrong"),
        pytest.param(probs_of([1.0, 1.0], [1, 0]), id="confidence 1"),
        pytest.param(probs_of([0.6] * 20, [1, 0] * 10), id="ties"),
        pytest.param(Scores(torch.zeros(3, 1), torch.zeros(3, dtype=torch.long)), id="one logit"),
        pytest.param(Scores(torch.randn(6, 3).half(), torch.tensor([0, 1, 2] * 2)), id="half precision"),
    ],
)
def test_every_figure_can_be_drawn(scores):
    for figure in all_figures(scores):
        assert "<svg" in figures.inline_svg(figure, prefix="f", description="")


def test_any_name_is_drawn_as_text():
    names = [*HOSTILE, r"$\frac{", "_hidden", "x" * 500]
    for figure in (
        figures.confidence_histogram_figure(dict.fromkeys(names, confidence_histogram([FOUR]))),  # in titles,
        figures.risk_coverage_figure(dict.fromkeys(names, risk_coverage_curve([FOUR]))),  # in a legend,
        figures.over_under_figure(dict.fromkeys(names, reliability([FOUR]))),  # at an axis,
        figures.confidence_by_lambda_figure(dict.fromkeys(names, CURVE)),
    ):
        root = ElementTree.fromstring(figures.inline_svg(figure, prefix="f", description="".join(names)))
        assert {element.tag for element in root.iter()} <= {
            "svg",
            "g",
            "path",
            "defs",
            "clipPath",
            "rect",
            "use",
            "text",
            "pattern",
            "tspan",
        }
        texts = ["".join(element.itertext()) for element in root.iter("text")]
        for name in names:
            assert any(label(name).replace(r"\$", "$").strip() in text for text in texts)


def test_names_that_differ_only_where_they_are_cut_are_numbered():
    names = [f"{'folder/' * 9}{number}{'/folder' * 9}" for number in range(3)]
    (risk,), (bars,), (ranking,) = (
        figure.axes
        for figure in (
            figures.risk_coverage_figure(dict.fromkeys(names, risk_coverage_curve([FOUR]))),
            figures.over_under_figure(dict.fromkeys(names, reliability([FOUR]))),
            figures.confidence_by_lambda_figure(dict.fromkeys(names, CURVE)),
        )
    )
    for texts in (risk.get_legend().get_texts(), bars.get_yticklabels(), ranking.get_legend().get_texts()[1:]):
        assert len({text.get_text() for text in texts}) == 3


def test_the_same_figure_gives_the_same_svg():
    first, second = (
        figures.inline_svg(figures.reliability_figure({"a": reliability([FOUR])}), prefix="f", description="") for _ in range(2)
    )
    assert first == second


def test_inline_svg_has_no_style_no_black_and_only_identifiers_of_its_own():
    markup = "".join(figures.inline_svg(figure, prefix=f"f{i}", description="d") for i, figure in enumerate(all_figures(FOUR)))
    assert "style" not in markup
    assert "http" not in markup
    assert "#000000" not in markup
    identifiers = re.findall(r' id="([^"]*)"', markup)
    assert len(identifiers) == len(set(identifiers))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]*)', markup)) <= set(identifiers)


def test_inline_svg_keeps_colours_hatching_and_dashes():
    markup = figures.inline_svg(figures.reliability_figure({"a": reliability([FOUR])}), prefix="f", description='d "quoted"')
    root = ElementTree.fromstring(markup)
    assert root.attrib["aria-label"] == 'd "quoted"'
    attributes = [element.attrib for element in root.iter()]
    assert any("stroke-dasharray" in each for each in attributes)
    assert any(each.get("fill", "").startswith("url(#f-") for each in attributes)
    assert any(each.get("stroke", "").upper() == "#D55E00" for each in attributes)


def test_saved_as_png_and_svg(tmp_path):
    paths = figures.save_figure(figures.reliability_figure({"日本語 $x": reliability([FOUR])}), str(tmp_path / "figure"))
    assert [path.name for path in paths] == ["figure.png", "figure.svg"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert ElementTree.parse(paths[1]).getroot().tag.endswith("svg")


def test_series_can_be_told_apart_in_grey():
    assert len({line + marker for _, line, marker in STYLES}) == len({marker for *_, marker in STYLES}) == len(STYLES)
    grey = [np.dot(to_rgb(colour), (0.2126, 0.7152, 0.0722)) for colour, *_ in STYLES]
    assert all(abs(a - b) > 0.08 for a, b in itertools.pairwise(grey))
