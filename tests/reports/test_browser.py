"""The report as a reader meets it: opened from a file in a real browser, clicked, typed at, printed."""

import io
import json
from dataclasses import replace

import pytest

import rankmixup as rm
from rankmixup.evaluation.groups import Grouping
from rankmixup.evaluation.paired_tests import paired_tests
from rankmixup.reports.export import to_csv, to_latex, to_markdown, write_text
from rankmixup.reports.groups import class_tables
from rankmixup.reports.html import render_report
from tests.reports.chromium import Browser, find_chromium
from tests.reports.entries import HOSTILE, make_entry, make_scores

_chromium = find_chromium()
pytestmark = [pytest.mark.browser, pytest.mark.skipif(_chromium is None, reason="no Chromium on PATH")]

SIZES = {"desktop": (1280, 900), "phone": (420, 844)}
_CLASSES = "#table-classes-0"
_LONG = "second_of_a_name_so_long_that_it_needs_two_lines_on_a_phone.npz"


def with_groups(entry):
    """The model with groups of long and short names, one of them too small for a verdict."""
    names = ["north", "south-clinic_of_a_name_so_long_that_no_phone_has_room_for_it_in_one_line", "e"]
    site = ([names[0]] * 2 + [names[1]]) * 133 + [names[2]]
    test, calibrated = entry.evaluation.test, entry.evaluation.calibrated
    options = {"groups": {"site": site}, "replicates": 20}
    found = [rm.evaluate(each.scores, each.labels, **options).groups["site"].before for each in (test, calibrated)]
    return replace(entry, evaluation=replace(entry.evaluation, groups={"site": Grouping(*found)}))


@pytest.fixture(scope="module")
def entries():
    return [
        with_groups(make_entry("first <b>model</b>", class_names=HOSTILE)),
        make_entry(_LONG, seed=1),
        make_entry("third", calibrate=False, seed=2),
    ]


@pytest.fixture(scope="module")
def address(entries, tmp_path_factory):
    same = {entry.name: replace(entry.evaluation, test=make_scores(sharpness=1 + number)) for number, entry in enumerate(entries)}
    tests = paired_tests(same, replicates=20)
    return write_text(tmp_path_factory.mktemp("report") / "report.html", render_report(entries, tests=tests)).as_uri()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    assert _chromium is not None
    with Browser(_chromium, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def page(browser, address):
    """The page freshly opened; whatever a test does on it must neither be complained of nor ask for anything."""
    browser.problems.clear()
    browser.requests.clear()
    browser.emulate(*SIZES["desktop"])
    browser.open(address)
    yield browser
    browser.run("1")  # takes in what is still on its way
    assert browser.problems == []
    assert [request for request in browser.requests if not request.startswith("data:")] == [address]


def column(page, table, number):
    found = json.dumps(f"{table} tbody tr > :nth-child({number})")
    return page.run(f"[...document.querySelectorAll({found})].map((cell) => cell.textContent)")


def direction(page, table, number):
    found = json.dumps(f"{table} thead th:nth-child({number})")
    return page.run(f"document.querySelector({found}).getAttribute('aria-sort')")


def test_sections_tables_and_figures_are_visible(page):
    for section in ("summary", "metrics", "differences", "figures", "ood", "models", "protocol", "reading"):
        assert page.run(f"document.getElementById('{section}').offsetHeight") > 50
    assert page.run("document.querySelectorAll('.table').length") == 5 + 3 * 2 + 2 + 3  # of the page, each model, calibrated models, groups
    assert page.run("[...document.querySelectorAll('.table')].every((table) => table.querySelectorAll('.tools button').length === 3)")
    assert page.run("[...document.querySelectorAll('figure svg')].every((svg) => svg.getBoundingClientRect().height > 100)")
    assert page.run("document.querySelectorAll('figure svg').length") == 3 + 6 + 6 + 4


def test_links_lead_to_their_sections(page):
    page.click('nav a[href="#protocol"]')
    assert page.run(
        "new Promise((done) => setTimeout(() => done(document.getElementById('protocol').getBoundingClientRect().top < 200), 300))"
    )


@pytest.mark.parametrize("number", [2, 3, 5])
def test_a_click_sorts_by_number_and_another_turns_it_round(page, number):
    before = column(page, _CLASSES, number)
    in_order = sorted(before, key=float)
    for expected, name in ((in_order, "ascending"), (in_order[::-1], "descending")):
        page.click(f"{_CLASSES} thead th:nth-child({number}) button")
        assert [float(text) for text in column(page, _CLASSES, number)] == [float(text) for text in expected]
        assert direction(page, _CLASSES, number) == name
    assert direction(page, _CLASSES, 1) == "none"


def test_rows_stay_together_and_missing_cells_go_last(page):
    summary = "#table-summary"
    rows = dict(zip(column(page, summary, 1), column(page, summary, 4), strict=True))
    last = page.run(f"document.querySelectorAll('{summary} thead th').length")
    for _ in range(2):
        page.click(f"{summary} thead th:nth-child({last}) button")
        assert dict(zip(column(page, summary, 1), column(page, summary, 4), strict=True)) == rows
        assert column(page, summary, 1)[-1] == "third"


def test_the_keyboard_alone_is_enough(page):
    page.press("Tab", 9)
    assert page.run("document.activeElement.textContent") == "To the summary"
    for _ in range(40):
        page.press("Tab", 9)
        if page.run("document.activeElement.closest('#table-summary thead') !== null"):
            break
    assert page.run("document.activeElement.textContent") == "model"
    assert page.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.press("Enter", 13, "\r")
    assert direction(page, "#table-summary", 1) == "ascending"
    page.press(" ", 32, " ")
    assert direction(page, "#table-summary", 1) == "descending"
    assert column(page, "#table-summary", 1) == ["third", _LONG, "first <b>model</b>"]


@pytest.mark.parametrize(("position", "write"), [(1, to_latex), (2, to_csv), (3, to_markdown)])
def test_copies_are_what_the_library_writes(page, entries, position, write):
    page.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    page.click(f"{_CLASSES} .tools button:nth-of-type({position})")
    assert page.run("navigator.clipboard.readText()") == write(class_tables(entries[0].name, entries[0].evaluation)[0])
    assert page.run("document.getElementById('status').textContent").startswith("Copied as ")


def test_copies_have_the_order_that_is_shown(page):
    page.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    page.click("#table-classes-1 thead th:nth-child(3) button")
    page.click("#table-classes-1 .tools button:nth-of-type(2)")
    copied = [line.split(",")[0] for line in page.run("navigator.clipboard.readText()").splitlines()]
    assert copied[1:] == column(page, "#table-classes-1", 1)


def test_without_a_clipboard_the_text_is_shown_to_be_copied_by_hand(page):
    page.run("navigator.clipboard.writeText = () => Promise.reject(new Error('refused')), 0")
    page.click(f"{_CLASSES} .tools button:nth-of-type(1)")
    page.run("new Promise((done) => setTimeout(done, 100))")
    assert page.run("document.getElementById('by-hand').value").startswith("\\begin{table}")
    assert page.run("getSelection().toString() === document.getElementById('by-hand').value || document.activeElement.id === 'by-hand'")
    page.press("Escape", 27)
    assert page.run("document.getElementById('by-hand')") is None


def test_names_from_outside_stay_text(page):
    assert [name.strip() for name in column(page, _CLASSES, 1)] == [name.strip() for name in HOSTILE]
    assert page.run("document.querySelectorAll('script').length") == 3
    assert page.run("document.querySelectorAll('img, b, iframe, object').length") == 0
    assert page.run("document.querySelector('article h3').textContent") == "first <b>model</b>"
    assert page.run("[...document.querySelectorAll('svg text')].some((text) => text.textContent.includes('first <b>model</b>'))")


def test_a_request_would_be_refused(browser, address):
    """The page's own policy, not only its contents, keeps it from asking for anything."""
    browser.open(address)
    refused = "fetch('https://example.org/').then(() => 'sent', () => 'refused')"
    assert browser.run(refused) == "refused"
    browser.run("const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s)")
    assert browser.run("window.ran") is None


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_the_window_in_light_and_dark(page, size, scheme):
    from matplotlib.image import imread

    width, height = SIZES[size]
    page.emulate(width, height, scheme=scheme)
    assert page.run("document.documentElement.scrollWidth") == width
    assert page.run("[...document.querySelectorAll('svg')].every((svg) => svg.getBoundingClientRect().right <= innerWidth)")
    picture = imread(io.BytesIO(page.screenshot(whole=False)))[..., :3]
    assert picture.shape[:2] == (height, width)
    assert picture.mean() > 0.8 if scheme == "light" else picture.mean() < 0.3
    # Words on the page and in figures are light on dark and dark on light.
    ink = page.run("getComputedStyle(document.querySelector('svg text')).fill")
    assert ink == page.run("getComputedStyle(document.body).color")


@pytest.mark.parametrize("size", SIZES)
def test_no_cell_is_clipped_and_no_word_is_broken(page, size):
    """Wide tables scroll by themselves on a phone; on a desktop none has to."""
    page.emulate(*SIZES[size])
    cells = "[...document.querySelectorAll('th, td, caption span')]"
    assert page.run(f"{cells}.filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.textContent)") == []
    lines = "(range, node) => { range.selectNodeContents(node); return new Set([...range.getClientRects()].map((r) => r.top)).size }"
    broken = (
        "(() => { const range = document.createRange(); const lines = " + lines + "; const found = [];"
        "for (const part of document.querySelectorAll('table, h3, strong')) {"
        "const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);"
        "while (walker.nextNode()) { const text = walker.currentNode; if (/^\\S+$/.test(text.data.trim()) && !text.data.includes('-')"
        " && lines(range, text) > 1) found.push(text.data) } } return found })()"
    )
    assert page.run(broken) == []
    if size == "desktop":
        wide = "[...document.querySelectorAll('.scroll')].filter((each) => each.scrollWidth > each.clientWidth)"
        assert page.run(f"{wide}.map((each) => each.parentElement.id)") == []


def test_prints_everything_on_white(page):
    page.emulate(*SIZES["desktop"], scheme="dark", media="print")
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.run("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert page.run("getComputedStyle(document.querySelector('.tools')).display") == "none"
    assert page.run("[...document.querySelectorAll('.scroll')].every((each) => getComputedStyle(each).maxHeight === 'none')")
    assert page.pdf().startswith(b"%PDF")
