"""A page for each method, metric and calibrator, and a table of all: texts from cards.toml, the rest from the code and the stored study."""

import dataclasses
import json
import re
import tomllib
from typing import Literal, get_args, get_origin, get_type_hints

from docutils.statemachine import StringList
from generated import DOCS, table, write_page
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

from rankmixup import methods
from rankmixup.evaluation import METRICS
from rankmixup.evaluation.registry import DETECTION_METRICS
from rankmixup.experiments.tournament import LABELS, Tournament
from rankmixup.methods import LossMethod, Method
from rankmixup.posthoc import CALIBRATORS

SOURCE = "docs/cards.toml"
TEXTS = tomllib.loads((DOCS / "cards.toml").read_text(encoding="utf-8"))
STUDY = Tournament.from_dict(json.loads((DOCS.parent / "results" / "cpu" / "tournament.json").read_text(encoding="utf-8")))
NEEDED = ("title", "idea", "equation", "where", "use", "reference")
INTERVALS = {
    "wilson": "Wilson's interval",
    "bootstrap": "bootstrap, corrected for bias and skewness (BCa)",
    "inversion": "inversion of the consistency test, because sampling noise biases the value upwards",
}
FLOORS = {
    "confidence": "labels drawn from the confidence of each prediction",
    "labels": "labels drawn from all probabilities of each sample",
    None: "none: the metric is not 0 for a calibrated model",
}
STUDY_COLUMNS = ["data", "accuracy:", "ECE:", "ECE, T:", "ECE of CE, T:", "NLL:", "NLL, T:", "as good as CE, T"]
STUDY_NOTE = """Means over five seeds of a small network, in percent except NLL; *T*: after temperature scaling. The last column says
whether the method, without temperature scaling, is as well calibrated and as accurate as cross-entropy (CE) with it, by paired 95 %
intervals. [The tournament](../results/tournament.md) explains the study.
"""
NEEDS = {"class_counts": "the training samples of each class (`class_counts`)", "index": "the position of each sample in the training set"}


def registered(kind):
    """What the library itself registers, by name; plug-ins have their own documentation."""
    if kind == "metrics":
        own = {key: metric for key, metric in METRICS.items() if _module(metric.function).startswith("rankmixup.")}
        return own | DETECTION_METRICS
    registry = {"methods": Method.registry, "calibrators": CALIBRATORS}[kind]
    return {key: registry[key] for key in registry if registry[key].__module__.startswith("rankmixup.")}


def _module(function):
    return getattr(function, "func", function).__module__


def text_of(kind, key):
    """The text of a card; a missing one is refused with what to write where."""
    text = TEXTS[kind].get(key, {})
    missing = [name for name in NEEDED if not text.get(name)]
    if missing:
        raise LookupError(f"{key!r} of {kind} has no card: write {', '.join(missing)} below [{kind}.{key}] in {SOURCE}")
    return text


def head(text):
    return f"# {text['title']}\n\n{text['idea']}\n\n$$\n{text['equation']}\n$$\n\n{text['where']}\n"


def tail(text):
    return f"## When to use it\n\n{text['use']}\n\n## Reference\n\n{text['reference']}\n"


def help_of(cls, field):
    """The text below a field in the source of its class, or of the base class that has it."""
    for base in cls.__mro__:
        if base.__module__.startswith("rankmixup."):
            found = ModuleAnalyzer.for_module(base.__module__).find_attr_docs().get((base.__qualname__, field))
            if found:
                return " ".join(found).strip()
    return ""


def shown(value):
    """A default as one would write it: of a mixer, only what differs from the mixer's own defaults."""
    if not dataclasses.is_dataclass(value):
        return repr(value)
    changed = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if getattr(value, field.name) != field.default}
    return f"{type(value).__name__}({', '.join(f'{name}={given!r}' for name, given in changed.items())})"


def fields_of(cls, symbols):
    rows, hints = [], get_type_hints(cls)
    for field in dataclasses.fields(cls):
        if field.init:
            symbol = symbols.get(field.name) or symbols.get(f"{field.name}.alpha", "")
            default = getattr(cls, "objectives", [None])[0] if field.name == "objective" else field.default
            choices = [f"`{choice!r}`" for choice in get_args(hints[field.name]) if get_origin(hints[field.name]) is Literal]
            meaning = help_of(cls, field.name) + (f" One of {', '.join(choices)}." if choices else "")
            rows.append([f"`{field.name}`", f"${symbol}$" if symbol else "", f"`{shown(default)}`", meaning])
    columns = ["field", "symbol", "default", "meaning"]
    if not symbols:
        columns, rows = [columns[0], *columns[2:]], [[row[0], *row[2:]] for row in rows]
    return table(columns, rows) if rows else "It has none.\n"


def standing_rows(key):
    """One row for each data set of the study, and each setting of the method that took part."""
    baseline = {each.column: each for each in STUDY.of("ce")}
    for row in [row for row in LABELS if row == key or (row in STUDY.costs and row.startswith(f"{key}/"))]:
        for each in STUDY.of(row):
            setting = row.partition("/")[2]
            name = STUDY.columns[each.column] + (f" (`{setting}`)" if setting else "")
            percent = [each.plain["accuracy"], each.plain["ece"], each.after["ece"], baseline[each.column].after["ece"]]
            losses = [f"{values['nll'].value:.3f}" for values in (each.plain, each.after)]
            yield [name, *(f"{100 * value.value:.1f}" for value in percent), *losses, each.calibrates or ""]


def cost_of(key):
    return f"{STUDY.costs[key]:.2f}" if key in STUDY.costs else ""


def method_page(key, cls):
    text, method = text_of("methods", key), cls()
    names = text.get("functions") or ([cls.function.__name__] if issubclass(cls, LossMethod) else [])
    homes = {name: "methods" if name in methods.__all__ else "mixers" for name in names}
    links = ", ".join(f"{{py:func}}`~rankmixup.{home}.{name}`" for name, home in homes.items())
    needs = f"\n\nIt needs {' and '.join(NEEDS[need] for need in cls.needs)}." if cls.needs else ""
    tuned = [f"`--{name} auto`" for name in method.dials]
    dial = f"\n\n{' and '.join(tuned)} is set by feedback from validation samples." if tuned else ""
    forwarded = f"The network sees {method.forwarded} sample{'s' * (method.forwarded > 1)} for each sample of the batch."
    cost = f" A step takes {cost_of(key)} times as long as one of cross-entropy (ResNet-8 on a CPU, side by side)." if cost_of(key) else ""
    study = list(standing_rows(key))
    functions = f"; as functions: {links}" if links else ""
    parts = [
        head(text),
        f"```bash\nrankmixup train {key} --data digits\n```\n",
        f'In Python: `rm.objective("{key}", num_classes=...)`, class {{py:class}}`~rankmixup.methods.{cls.__name__}`{functions}.{needs}\n',
        f"## Fields\n\n{fields_of(cls, text.get('symbols', {}))}{dial}\n",
        f"## Cost\n\n{forwarded}{cost}\n",
        f"## In our study\n\n{table(STUDY_COLUMNS, study)}\n\n{STUDY_NOTE}" if study else "",
        tail(text),
    ]
    write_page(f"methods/{key}.md", SOURCE, "\n".join(parts))


def metric_page(key, metric):
    text = text_of("metrics", key)
    function = getattr(metric.function, "func", metric.function)
    most = "no upper limit" if metric.most == float("inf") else f"{metric.most:g}"
    rows = [
        ["key", f"`{key}`"],
        ["range", f"0 to {most}" if most[0].isdigit() else f"from 0, {most}"],
        ["better", "higher" if metric.higher_is_better else "lower"],
        ["confidence interval", INTERVALS[metric.interval]],
        ["noise floor", FLOORS[metric.floor]],
        ["function", f"{{py:func}}`~rankmixup.metrics.{function.__name__ if function else 'ood_detection'}`"],
        ["batch by batch", f"{{py:class}}`~rankmixup.metrics.{metric.streaming or 'OODDetection'}`"],
    ]
    if metric.min_classes > 2:
        rows.insert(3, ["classes", f"at least {metric.min_classes}"])
    explained = "[Confidence intervals and noise floors](../explanations/uncertainty.md) explains both.\n"
    write_page(f"metrics/{key}.md", SOURCE, "\n".join([head(text), table(["", ""], rows), "", explained, tail(text)]))


def calibrator_page(key, cls):
    text = text_of("calibrators", key)
    used = f"rm.posthoc.{cls.__name__}().fit(val_logits, val_labels).predict_proba(logits)"
    predictions = "never change" if cls.keeps_predictions else "may change"
    objectives = ", ".join(f"`{name}`" for name in cls.objectives)
    parts = [
        head(text),
        f"```bash\nrankmixup evaluate test.npz --calibrate-on val.npz --calibrate-with {key}\n```\n",
        f"In Python: `{used}`, class {{py:class}}`~rankmixup.posthoc.{cls.__name__}`.\n",
        table(["", ""], [["predictions", predictions], ["objectives", objectives]]),
        f"\n## Fields\n\n{fields_of(cls, {})}\n",
        tail(text),
    ]
    write_page(f"calibrators/{key}.md", SOURCE, "\n".join(parts))


PAGES = {"methods": method_page, "metrics": metric_page, "calibrators": calibrator_page}


def mean_points(key, name):
    values = [100 * getattr(each, name).value for each in STUDY.of(key) if getattr(each, name)]
    return f"{sum(values) / len(values):+.1f}" if values else ""


def all_of(kind):
    """The table of all pages of a kind."""
    texts = {key: text_of(kind, key) for key in registered(kind)}
    links = {key: f"[{text['title']}]({key}.md)" for key, text in texts.items()}
    first = {key: re.split(r"[.:] |\.$", text["idea"])[0] + "." for key, text in texts.items()}
    if kind == "methods":
        columns = ["method", "key", "idea", "cost:", "ECE - CE, T:", "accuracy - CE:"]
        numbers = {key: [cost_of(key), mean_points(key, "ece_above"), mean_points(key, "accuracy_above")] for key in texts}
        return table(columns, [[links[key], f"`{key}`", first[key], *numbers[key]] for key in texts])
    if kind == "metrics":
        columns = ["metric", "key", "idea", "better", "interval", "floor"]
        short = {"wilson": "Wilson", "bootstrap": "bootstrap", "inversion": "inversion"}
        rows = [
            [links[key], f"`{key}`", first[key], "higher" if each.higher_is_better else "lower", short[each.interval], each.floor or ""]
            for key, each in registered(kind).items()
        ]
        return table(columns, rows)
    columns = ["calibrator", "key", "idea", "predictions"]
    kept = {True: "never change", False: "may change"}
    return table(columns, [[links[key], f"`{key}`", first[key], kept[each.keeps_predictions]] for key, each in registered(kind).items()])


class AllCards(SphinxDirective):
    """`{all-cards} KIND`: the table of all methods, metrics or calibrators, which a script makes sortable and searchable."""

    required_arguments = 1

    def run(self):
        lines = ["```{rst-class} sortable", "```", "", *all_of(self.arguments[0]).splitlines()]
        return self.parse_text_to_nodes(StringList(lines, source=SOURCE))


def write_cards(app):
    for kind, page in PAGES.items():
        for key, entry in registered(kind).items():
            page(key, entry)


def setup(app):
    app.connect("builder-inited", write_cards)
    app.add_directive("all-cards", AllCards)
    return {"parallel_read_safe": True}
