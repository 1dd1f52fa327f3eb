"""The documentation's page of results and the README's summary, from what `rankmixup reproduce ... --write` left.

rankmixup reproduce all --scale cpu --data-root DATA --write results/cpu
python -m studies.results            # from scorecard.json: the other files of results/cpu, docs/results.md, the summary in README.md
"""

from pathlib import Path

from rankmixup.files import write_atomic
from rankmixup.reports.results import insert_summary, read_scorecard, results_page, summary, write_results

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "results" / "cpu"
COMMAND = "rankmixup reproduce all --scale cpu --data-root DATA --write results/cpu\npython -m studies.results"


def documents() -> dict[Path, str]:
    """What the documents should hold."""
    card = read_scorecard(FOLDER)
    why = FOLDER / "why.md"  # written by hand: what was tried where a claim fails
    page = results_page(card, "../results/cpu/figures", COMMAND, why.read_text() if why.is_file() else "")
    readme = ROOT / "README.md"
    return {
        ROOT / "docs" / "results.md": page.rstrip("\n") + "\n",
        readme: insert_summary(readme.read_text(), summary(card, "docs/results.md")),
    }


if __name__ == "__main__":
    write_results(read_scorecard(FOLDER), FOLDER)
    for path, text in documents().items():
        write_atomic(path, text.encode())
