"""Which method to use where: rules, applied to the stored study when the site is built, so that no advice can outlive its numbers."""

from statistics import mean

from cards import STUDY
from docutils.statemachine import StringList
from generated import DOCS, table
from sphinx.util.docutils import SphinxDirective

from rankmixup.experiments.tournament import BASELINE, COLUMNS, LIMIT, ROWS
from rankmixup.methods import LossMethod, Method

SOURCE = "results/cpu/tournament.json"
TAILED = [key for key in STUDY.columns if COLUMNS[key].data.imbalance > 1]
BALANCED = [key for key in STUDY.columns if key not in TAILED]
COLUMNS_OF_CHOICES = ["you want", "method", "why", "ECE - CE, T:", "accuracy - CE:", "yes/open/no:", "cost:"]
COLUMNS_OF_ALL = [
    "method",
    "ECE - CE, T:",
    "accuracy - CE:",
    "yes/open/no:",
    "long tails: ECE - CE, T:",
    "accuracy - CE:",
    "yes/open/no:",
    "cost:",
]


def standings(row, columns):
    """The row in those of these columns in which it took part."""
    return [each for each in STUDY.of(row) if each.column in columns and each.ece_above is not None]


def mean_of(row, columns, name):
    return mean(getattr(each, name).value for each in standings(row, columns))


def candidates(columns, fits=lambda row: True):
    """Rows that took part in all columns and fit, lowest ECE first, without those that lose more accuracy than the study allows."""
    rows = [row for row in ROWS if row != BASELINE and fits(row) and len(standings(row, columns)) == len(columns)]
    rows = [row for row in rows if mean_of(row, columns, "accuracy_above") >= -LIMIT]
    return sorted(rows, key=lambda row: mean_of(row, columns, "ece_above"))


def tuned(row):
    return "auto" in row or any(value == "auto" for value in vars(Method.registry[row.partition("/")[0]]()).values())


def plain_loss(row):
    return issubclass(Method.registry[row.partition("/")[0]], LossMethod)


def linked(row):
    return f"[{ROWS[row]}](../methods/{row.partition('/')[0]}.md)"


def answers(row, columns):
    """In how many data sets it is as good as cross-entropy with temperature scaling, in how many that is open, and in how many not."""
    given = [each.calibrates for each in standings(row, columns)]
    return "/".join(str(given.count(answer)) for answer in ("yes", "open", "no"))


def points(row, columns, name):
    text = f"{100 * mean_of(row, columns, name):+.1f}"
    return "+0.0" if text == "-0.0" else text


def numbers(row, columns):
    if not standings(row, columns):
        return ["", "", ""]
    return [*(points(row, columns, name) for name in ("ece_above", "accuracy_above")), answers(row, columns)]


def cost(row):
    return f"{STUDY.costs[row]:.2f}" if row in STUDY.costs else ""


def best(wish, columns, among, fits=lambda row: True):
    """The rows of the table for the two methods with the lowest mean ECE."""
    found = candidates(columns, fits)
    kind = "long tails" if columns is TAILED else "data sets"
    whys = [f"lowest mean ECE of {len(found)} {among} on {len(columns)} {kind}", "next lowest"]
    for position, (row, why) in enumerate(zip(found, whys, strict=False)):
        yield ["" if position else wish, linked(row), why, *numbers(row, columns), cost(row)]


def temperature(wish):
    """The row of the table for cross-entropy with temperature scaling, which the others are compared with."""
    found = standings(BASELINE, BALANCED)
    before, after = (100 * mean(part(each)["ece"].value for each in found) for part in (lambda each: each.plain, lambda each: each.after))
    why = f"takes the mean ECE of CE from {before:.1f} % to {after:.1f} %"
    method = f"{linked(BASELINE)} and [temperature scaling](../calibrators/temperature.md)"
    return [wish, method, why, "+0.0", "+0.0", "", cost(BASELINE)]


def choices():
    """The table of situations."""
    rows = [
        *best("calibrated by training, with validation samples", BALANCED, "methods"),
        temperature("calibrated by a second step, with held-out samples"),
        *best(
            "calibrated by training, without validation samples",
            BALANCED,
            "methods without feedback",
            lambda row: not tuned(row),
        ),
        *best("a plain loss, nothing mixed", BALANCED, "such losses", plain_loss),
        *best("to train on a long tail and judge all classes alike", TAILED, "methods"),
    ]
    paper = [row for row in ROWS if row in ("rankmixup-mrl", "rankmixup-mndcg")]
    rows += [["to reproduce the paper", linked(row), "the paper's own losses", *numbers(row, BALANCED), cost(row)] for row in paper]
    return table(COLUMNS_OF_CHOICES, rows)


def everything():
    """The table of all rows of the study."""
    parts = [[linked(row), *numbers(row, BALANCED), *numbers(row, TAILED), cost(row)] for row in ROWS]
    return table(COLUMNS_OF_ALL, parts)


class StudyTable(SphinxDirective):
    """`{study} choices`: situations and methods. `{study} methods`: every method, on data with and without a long tail."""

    required_arguments = 1

    def run(self):
        self.env.note_dependency(str(DOCS.parent / SOURCE))
        text = {"choices": choices, "methods": everything}[self.arguments[0]]()
        sortable = ["```{rst-class} sortable", "```", ""] if self.arguments[0] == "methods" else []
        return self.parse_text_to_nodes(StringList([*sortable, *text.splitlines()], source=SOURCE))


def setup(app):
    app.add_directive("study", StudyTable)
    return {"parallel_read_safe": True}
