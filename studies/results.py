"""The documentation's pages of results and the README's summaries, from what `rankmixup reproduce ... --write` left.

rankmixup reproduce all --scale cpu --data-root DATA --write results/cpu
rankmixup reproduce tournament --scale cpu --data-root DATA --write results/cpu
rankmixup reproduce ablation --scale cpu --data-root DATA --write results/cpu --columns digits
rankmixup reproduce ablation --scale cpu --data-root DATA --write results/cpu --columns cifar10-lt-100 --seeds 3
rankmixup reproduce sweeps --scale cpu --data-root DATA --write results/cpu --seeds 2
rankmixup reproduce shift --scale cpu --data-root DATA --write results/cpu --columns cifar10
python -m studies.finetune
python -m studies.sklearn_study
python -m studies.results       # from their JSON: other files of results/cpu, README.md, docs/results, and tables of other pages of docs
"""

from pathlib import Path

from rankmixup.experiments.tournament import CHANGED
from rankmixup.files import write_atomic
from rankmixup.reports.export import to_markdown
from rankmixup.reports.results import insert_summary, read_scorecard, results_page, summary, write_results
from rankmixup.reports.shift_study import read_study, study_page, write_study
from rankmixup.reports.tournament import read_tournament, summary_table, tournament_page, write_tournament
from studies import finetune, sklearn_study

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "results" / "cpu"
COMMAND = "rankmixup reproduce all --scale cpu --data-root DATA --write results/cpu\npython -m studies.results"
TOURNAMENT = """\
rankmixup reproduce tournament --scale cpu --data-root DATA --write results/cpu
rankmixup reproduce ablation --scale cpu --data-root DATA --write results/cpu --columns digits
rankmixup reproduce ablation --scale cpu --data-root DATA --write results/cpu --columns cifar10-lt-100 --seeds 3
rankmixup reproduce sweeps --scale cpu --data-root DATA --write results/cpu --seeds 2
python -m studies.results"""
SHIFT = "rankmixup reproduce shift --scale cpu --data-root DATA --write results/cpu --columns cifar10\npython -m studies.results"
SHORT = ("ce", "label-smoothing", "focal", "mixup", "regmixup", "rankmixup-mrl", "rankmixup-mndcg", "rankmixup-auto")
"""Rows of the short table, in the README and on the page about the method."""


def documents() -> dict[Path, str]:
    """What the documents should hold."""
    card = read_scorecard(FOLDER)
    why = FOLDER / "why.md"  # written by hand: what was tried where a claim fails
    page = results_page(card, "../../results/cpu/figures", COMMAND, why.read_text() if why.is_file() else "")
    found = read_tournament(FOLDER)
    changed = {name.capitalize(): read_tournament(FOLDER, name) for name in CHANGED if (FOLDER / f"{name}.json").is_file()}
    said = FOLDER / "tournament-notes.md"  # written by hand: what to use when, and what went wrong
    tournament = tournament_page(found, changed, "../../results/cpu/figures", TOURNAMENT, said.read_text() if said.is_file() else "")
    readme, tuning, estimator = ROOT / "README.md", ROOT / "docs" / "guides" / "finetune.md", ROOT / "docs" / "guides" / "sklearn.md"
    text = insert_summary(readme.read_text(), summary(card, "docs/results/reproduction.md"))
    method, short = ROOT / "docs" / "explanations" / "method.md", to_markdown(summary_table(found, SHORT))
    return {
        **_shift_page(),
        ROOT / "docs" / "results" / "reproduction.md": page.rstrip("\n") + "\n",
        ROOT / "docs" / "results" / "tournament.md": tournament,
        tuning: insert_summary(tuning.read_text(), finetune.table(finetune.read_study()), "finetune"),
        estimator: insert_summary(estimator.read_text(), sklearn_study.table(sklearn_study.read_study()), "sklearn"),
        method: insert_summary(method.read_text(), short, "tournament"),
        readme: insert_summary(text, short, "tournament"),
    }


def _shift_page() -> dict[Path, str]:
    """The page about shift, where that study was run."""
    if not (FOLDER / "shift.json").is_file():
        return {}
    said = FOLDER / "shift-notes.md"  # written by hand: what it shows
    page = study_page(read_study(FOLDER), "../../results/cpu/figures", SHIFT, said.read_text() if said.is_file() else "")
    return {ROOT / "docs" / "results" / "shift.md": page}


if __name__ == "__main__":
    write_results(read_scorecard(FOLDER), FOLDER)
    for name in ("tournament", *CHANGED):
        if (FOLDER / f"{name}.json").is_file():
            write_tournament(read_tournament(FOLDER, name), FOLDER, name)
    if (FOLDER / "shift.json").is_file():
        write_study(read_study(FOLDER), FOLDER)
    for path, text in documents().items():
        write_atomic(path, text.encode())
