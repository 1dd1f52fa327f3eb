"""The study of shift as tables, figures and a page. Everything follows from shift.json."""

from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from rankmixup.errors import require
from rankmixup.evaluation import Shift
from rankmixup.evaluation.shift_results import Stage
from rankmixup.experiments.shift import ShiftStudy
from rankmixup.experiments.tournament import COLUMNS
from rankmixup.files import read_json, write_json
from rankmixup.reports.export import MARKDOWN_ESCAPES, DataTable, escape, to_csv, to_markdown, write_text
from rankmixup.reports.figures import save_figure, shift_figure
from rankmixup.reports.shift import READING, program_table, reversal_lines, shift_view, source_line
from rankmixup.reports.tables import shown, shown_p_value

_TESTS = (
    "p: of no difference from CE, paired over seeds (Student's t), with Holm's correction over all methods, severities, and before and "
    "after temperature scaling."
)
_ORDERS = (
    "Two methods change places if one is better on clean images and the other on the mean over all corruptions and severities. The p-value "
    "is the larger one of the two paired tests over seeds, two-sided, with Holm's correction over all pairs of methods."
)


def ranking_table(found: Shift, metric: str, stage: Stage) -> DataTable:
    """A row for each method: the metric at every severity, and the p-value of the difference from the baseline at the highest."""
    last = found.severities[-1]
    columns = ["method", "clean", *(f"severity {severity}" for severity in found.severities), f"p at {last}"]
    rows = []
    for name, method in found.methods.items():
        values = [shown(metric, method.at(severity).of(stage)[metric].value) for severity in (0, *found.severities)]
        difference = method.difference(last, stage, metric)
        rows.append([name, *values, shown_p_value(difference.p_holm if difference else None)])
    return DataTable(columns, rows)


def study_view(study: ShiftStudy) -> RenderableType:
    """For a terminal."""
    parts: list[RenderableType] = []
    for key, found in study.columns.items():
        parts += [Text(COLUMNS[key].label, style="bold"), shift_view(found), Text()]
    return Group(*parts) if parts else Text("No finished runs of cross-entropy.")


def study_page(study: ShiftStudy, figures: str, command: str = "", notes: str = "") -> str:
    """A page in Markdown; `figures` is where the images are, `command` what made them, `notes` what somebody wrote about them."""
    intro = "Methods of the tournament on corrupted test images. Ours, not the paper's."
    parts = ["# Calibration under shift", f"{intro} {study.runs} runs, which are also the tournament's."]
    parts += [f"```bash\n{command}\n```"] if command else []
    parts += [notes.strip()] if notes else []
    parts += [f"{READING} {_TESTS}", _ORDERS]
    kinds: tuple[tuple[str, Stage, str], ...] = (
        ("ece", "before", "ECE, %"),
        ("ece", "after", "ECE after temperature scaling, %"),
        ("nll", "after", "NLL after temperature scaling"),
        ("accuracy", "before", "Accuracy, %"),
    )
    for key, found in study.columns.items():
        parts += [f"## {COLUMNS[key].label}", f"{source_line(found)}.", f"![Box plots by severity]({figures}/shift-{key}.png)"]
        significant = [each for each in found.reversals if each.p_holm < 0.05]
        said = f"Orders that turn round under shift: {len(found.reversals)} seen, {len(significant)} shown (p &lt; 0.05)."
        listed = [f"- {escape(line, MARKDOWN_ESCAPES)}" for line in reversal_lines(sorted(found.reversals, key=lambda each: each.p_holm))]
        parts += [said, *(["\n".join(listed)] if listed else [])]
        for metric, stage, title in kinds:
            parts += [f"**{title}**", to_markdown(ranking_table(found, metric, stage))]
    return "\n\n".join(parts) + "\n"


def write_study(study: ShiftStudy, folder: Path) -> list[Path]:
    """Write shift.json and .csv, and a figure for each column; returns what was written."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    write_json(folder / "shift.json", study.to_dict())
    tables = {key: program_table(found) for key, found in study.columns.items()}
    head = next(iter(tables.values())).columns
    merged = DataTable(["data set", *head], [[COLUMNS[key].label, *row] for key, table in tables.items() for row in table.rows])
    written = [folder / "shift.json", write_text(folder / "shift.csv", to_csv(merged))]
    for key, found in study.columns.items():
        written += save_figure(shift_figure(found), folder / "figures" / f"shift-{key}")
    return written


def add_to_study(study: ShiftStudy, folder: Path) -> list[Path]:
    """Likewise, beside the columns that are there already."""
    return write_study(study.beside(read_study(folder)) if (folder / "shift.json").is_file() else study, folder)


def read_study(folder: Path) -> ShiftStudy:
    """What `write_study` wrote."""
    data = read_json(folder / "shift.json")
    require(isinstance(data, dict) and data.get("schema") == 1, f"{folder / 'shift.json'} must be a study of schema 1")
    return ShiftStudy.from_dict(data)
