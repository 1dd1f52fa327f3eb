"""The scorecard as files, as the documentation's page of results, and as the summary in the README. All follow from scorecard.json."""

from pathlib import Path

from rankmixup.errors import InvalidInput, require
from rankmixup.files import read_json, write_atomic, write_json
from rankmixup.paper.evidence import Outcome
from rankmixup.paper.scorecard import Scorecard
from rankmixup.reports import html
from rankmixup.reports.export import MARKDOWN_ESCAPES, DataTable, to_csv, to_latex, to_markdown
from rankmixup.reports.figures import inline_svg, save_figure
from rankmixup.reports.figures.scorecard import scorecard_figures
from rankmixup.reports.html_figures import FigureCard
from rankmixup.reports.scorecard import (
    CLAIMS_READING,
    PARTS_READING,
    READING,
    claim_parts_table,
    claims_table,
    experiment_tables,
    not_run,
    program_table,
    summary_line,
)

BEGIN, END = "<!-- scorecard: begin -->", "<!-- scorecard: end -->"
"""Between them a document holds the summary."""
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
    texts = {
        "scorecard.csv": to_csv(program_table(card)),
        "claims.csv": to_csv(claim_parts_table(card)),
        "scorecard.md": results_page(card, "figures"),
        "scorecard.tex": "\n\n".join(f"% {table.caption}\n{to_latex(table)}" for table in _tables(card)),
        "scorecard.html": _html_page(card),
    }
    write_json(folder / "scorecard.json", card.to_dict())
    for name, text in texts.items():
        write_atomic(folder / name, (text.rstrip("\n") + "\n").encode())
    drawn = [path for _, name, _, figure in scorecard_figures(card) for path in save_figure(figure, figures / name)]
    return [folder / name for name in ("scorecard.json", *texts)] + drawn


def read_scorecard(folder: Path) -> Scorecard:
    """What `write_results` wrote."""
    data = read_json(folder / "scorecard.json")
    require(isinstance(data, dict) and data.get("schema") == 1, f"{folder / 'scorecard.json'} must be a scorecard of schema 1")
    return Scorecard.from_dict(data)


def _tables(card: Scorecard) -> list[DataTable]:
    found = [table for key in card.titles for table in experiment_tables(card, key)]
    return [*found, claims_table(card), claim_parts_table(card)] if card.claims else found


def results_page(card: Scorecard, figures: str, command: str = "", why: str = "") -> str:
    """A page in Markdown; `figures` is where the images are, `command` what made them, `why` a text about what fails and why."""
    parts = ["# Results", "", summary_line(card), *_verdict_lines(card), ""]
    if command:
        parts += ["```bash", command, "```", ""]
    parts += ["## Claims of the paper", "", to_markdown(claims_table(card)), "", CLAIMS_READING, ""]
    parts += [why.strip(), ""] if why.strip() else []
    drawn = [(key, name, caption) for key, name, caption, _ in scorecard_figures(card)]
    for key, title in card.titles.items():
        parts += [f"## {key}: {title}", ""]
        for name, caption in ((name, caption) for of, name, caption in drawn if of == key):
            parts += [f"![{caption}]({figures}/{name}.png)", ""]
        for table in experiment_tables(card, key):
            parts += [f"{_escape(table.caption)}.", "", to_markdown(table), ""]
        if missing := not_run(card, key):
            parts += [f"Not run: {', '.join(missing)}.", ""]
    parts += [READING, "", "## Parts of the claims", "", to_markdown(claim_parts_table(card)), "", PARTS_READING, ""]
    return "\n".join(parts)


def _escape(text: str) -> str:
    return "".join(MARKDOWN_ESCAPES.get(letter, letter) for letter in text)


def summary(card: Scorecard, page: str) -> str:
    """One screen: what holds, what does not, and what is inconclusive; `page` has the rest."""
    parts = [_escape(summary_line(card)), *_verdict_lines(card), "", f"Every cell with its interval, and every test: [{page}]({page})."]
    return "\n".join(parts)


def _verdict_lines(card: Scorecard) -> list[str]:
    lines: list[str] = []
    for outcome, words in _OUTCOMES.items():
        claims = [claim for claim in card.claims if claim.outcome == outcome]
        if not claims:
            continue
        lines += ["", f"**{words}** ({len(claims)} of {len(card.claims)} claims):", ""]
        for claim in claims:
            p_value = claim.p_against_holm if outcome == "does not hold" else claim.p_holm
            said = "" if outcome == "not run" or p_value is None else f" (p {_p(p_value)})"
            lines.append(f"- ({claim.number}) {_escape(claim.sentence.rstrip('.'))}{said}")
    return lines


def _p(p_value: float) -> str:
    return "&lt; 0.001" if p_value < 0.001 else f"= {p_value:.3f}"


def insert_summary(document: str, text: str) -> str:
    """The document with the summary between its markers, whatever stood there before.

    >>> insert_summary(f"a {BEGIN} old {END} b", "new").replace(BEGIN, "(").replace(END, ")").split()
    ['a', '(', 'new', ')', 'b']
    """
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise InvalidInput(f"the document must hold the markers {BEGIN} and {END}, one of them is missing")
    return f"{before}{BEGIN}\n{text.strip()}\n{END}{after}"


def _html_page(card: Scorecard) -> str:
    """The same in a single HTML file, in the style of the report."""
    figures = list(scorecard_figures(card))
    experiments = [
        {
            "key": key,
            "title": title,
            "tables": list(experiment_tables(card, key)),
            "missing": not_run(card, key),
            "figures": [
                FigureCard(name, (inline_svg(figure, prefix=f"f-{name}", description=caption),), caption)
                for of, name, caption, figure in figures
                if of == key
            ],
        }
        for key, title in card.titles.items()
    ]
    return html.render_page(
        "scorecard.html.j2",
        title=f"Reproducing the paper, at scale {card.scale}",
        summary=summary_line(card),
        claims=claims_table(card),
        claims_reading=CLAIMS_READING,
        parts=claim_parts_table(card),
        parts_reading=PARTS_READING,
        experiments=experiments,
        reading=READING,
        data=card.to_dict(),
    )
