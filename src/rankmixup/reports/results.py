"""The scorecard as files, as the documentation's page of results, and as the summary in the README. All follow from scorecard.json."""

from collections import defaultdict
from pathlib import Path

from rankmixup.errors import InvalidInput, require
from rankmixup.files import read_json, write_json
from rankmixup.paper.evidence import Outcome
from rankmixup.paper.scorecard import Scorecard
from rankmixup.reports import scorecard
from rankmixup.reports.export import MARKDOWN_ESCAPES, escape, to_csv, to_latex, to_markdown, write_text
from rankmixup.reports.figures import inline_svg, save_figure
from rankmixup.reports.figures.scorecard import scorecard_figures
from rankmixup.reports.html import render_page
from rankmixup.reports.html_figures import FigureCard

BEGIN, END = "<!-- scorecard: begin -->", "<!-- scorecard: end -->"
"""Between such lines a document holds what is generated."""
_OUTCOMES: dict[Outcome, str] = {
    "holds": "Hold",
    "does not hold": "Do not hold",
    "cannot tell": "Inconclusive",
    "not run": "Not run at this scale",
}


def write_results(card: Scorecard, folder: Path) -> list[Path]:
    """Write scorecard.json, .csv, .md, .tex and .html, claims.csv, and every figure as PNG and SVG; returns what was written."""
    figures = folder / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    tables = [table for key in card.titles for table in scorecard.experiment_tables(card, key)]
    if card.claims:
        tables += [scorecard.claims_table(card), scorecard.claim_parts_table(card)]
    texts = {
        "scorecard.csv": to_csv(scorecard.program_table(card)),
        "claims.csv": to_csv(scorecard.claim_parts_table(card)),
        "scorecard.md": results_page(card, "figures"),
        "scorecard.tex": "\n\n".join(map(to_latex, tables)),
        "scorecard.html": _html_page(card),
    }
    write_json(folder / "scorecard.json", card.to_dict())
    written = [write_text(folder / name, text) for name, text in texts.items()]
    drawn = [path for _, name, _, figure in scorecard_figures(card) for path in save_figure(figure, figures / name)]
    return [folder / "scorecard.json", *written, *drawn]


def read_scorecard(folder: Path) -> Scorecard:
    """What `write_results` wrote."""
    data = read_json(folder / "scorecard.json")
    require(isinstance(data, dict) and data.get("schema") == 1, f"{folder / 'scorecard.json'} must be a scorecard of schema 1")
    return Scorecard.from_dict(data)


def results_page(card: Scorecard, figures: str, command: str = "", why: str = "") -> str:
    """A page in Markdown; `figures` is where the images are, `command` what made them, `why` a text about what fails and why."""
    parts = ["# Results", scorecard.summary_line(card) + "".join(f"\n{line}" for line in _verdict_lines(card))]
    if command:
        parts.append(f"```bash\n{command}\n```")
    parts += ["## Claims of the paper", to_markdown(scorecard.claims_table(card)), scorecard.CLAIMS_READING]
    parts += [why.strip()] if why.strip() else []
    drawn = [(key, f"![{caption}]({figures}/{name}.png)") for key, name, caption, _ in scorecard_figures(card)]
    for key, title in card.titles.items():
        parts += [f"## {key}: {title}", *(image for of, image in drawn if of == key)]
        for table in scorecard.experiment_tables(card, key):
            parts += [f"{escape(table.caption, MARKDOWN_ESCAPES)}.", to_markdown(table)]
        if missing := scorecard.not_run(card, key):
            parts.append(f"Not run: {', '.join(missing)}.")
    parts += [scorecard.READING, "## Parts of the claims", to_markdown(scorecard.claim_parts_table(card)), scorecard.PARTS_READING]
    return "\n\n".join(parts)


def summary(card: Scorecard, page: str) -> str:
    """A paragraph: how many claims hold, how many do not, and how many are inconclusive; `page` has the rest."""
    line = escape(scorecard.summary_line(card), MARKDOWN_ESCAPES)
    counts = {words: sum(claim.outcome == outcome for claim in card.claims) for outcome, words in _OUTCOMES.items()}
    said = "; ".join(f"{words.lower()}: {count}" for words, count in counts.items() if count)
    return f"{line} Of {len(card.claims)} claims of the paper: {said}. Every cell, interval and test: [{page}]({page})."


def _verdict_lines(card: Scorecard) -> list[str]:
    lines: list[str] = []
    for outcome, words in _OUTCOMES.items():
        if claims := [claim for claim in card.claims if claim.outcome == outcome]:
            lines += ["", f"**{words}** ({len(claims)} of {len(card.claims)} claims):", ""]
        for claim in claims:
            p_value = claim.p_against_holm if outcome == "does not hold" else claim.p_holm
            said = ""
            if outcome != "not run" and p_value is not None:
                said = " (p &lt; 0.001)" if p_value < 0.001 else f" (p = {p_value:.3f})"
            lines.append(f"- ({claim.number}) {escape(claim.sentence.rstrip('.'), MARKDOWN_ESCAPES)}{said}")
    return lines


def insert_summary(document: str, text: str, name: str = "scorecard") -> str:
    """The document with the text between the markers of this name, in place of what was there.

    >>> insert_summary(f"a {BEGIN} old {END} b", "new").replace(BEGIN, "(").replace(END, ")").split()
    ['a', '(', 'new', ')', 'b']
    """
    first, last = (marker.replace("scorecard", name) for marker in (BEGIN, END))
    before, begin, rest = document.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise InvalidInput(f"the document must hold the markers {first} and {last}, one of them is missing")
    return f"{before}{first}\n{text.strip()}\n{last}{after}"


def _html_page(card: Scorecard) -> str:
    """The same in a single HTML file, in the style of the report."""
    figures: defaultdict[str, list[FigureCard]] = defaultdict(list)
    for key, name, caption, figure in scorecard_figures(card):
        figures[key].append(FigureCard(name, (inline_svg(figure, prefix=f"f-{name}", description=caption),), caption))
    title = f"Reproducing the paper, at scale {card.scale}"
    return render_page("scorecard.html.j2", title=title, card=card, tables=scorecard, figures=figures, data=card.to_dict())
