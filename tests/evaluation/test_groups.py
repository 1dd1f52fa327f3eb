"""Groups: each is evaluated as its samples alone, and tests of groups are what naive permutations say."""

import csv
import json
import math
import re

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import chi2, kstest

import rankmixup as rm
from rankmixup import random
from rankmixup.cli.main import main
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import METRICS, Estimate, Evaluation, Grouping, GroupMetrics, GroupStage, holm, register_metric
from rankmixup.evaluation.conditions import Condition, with_failures
from rankmixup.evaluation.group_tests import GAP_KEYS, POSITIVE_GAP_KEYS, GroupedSamples, exact_test, permutation_tests
from rankmixup.evaluation.replicates import read_samples, sorted_samples
from rankmixup.metrics import expected_calibration_error

FEW = {"replicates": 30}


def drawn(samples: int, seed: int = 0, classes: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """Calibrated logits and their labels."""
    rng = random.stream(seed, "groups")
    logits = 2 * torch.randn(samples, classes, generator=rng, dtype=torch.float64)
    return logits, torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)


def grouped(logits: torch.Tensor, labels: torch.Tensor, codes: np.ndarray, num_bins: int = 15) -> GroupedSamples:
    return GroupedSamples.of(read_samples(logits, labels, num_bins=num_bins, from_logits=True), codes, int(codes.max()) + 1, num_bins)


def test_a_group_has_the_metrics_of_its_samples_alone():
    logits, labels = drawn(120)
    site = np.array(["b", "a", "c"])[np.arange(120) % 3]
    held_out = drawn(80, seed=1)
    report = rm.evaluate(logits, labels, groups={"site": site}, calibrate_on=held_out, **FEW)
    assert list(report.groups["site"].before.groups) == ["a", "b", "c"]
    for name, found in report.groups["site"].before.groups.items():
        mine = torch.from_numpy(site == name)
        alone = rm.evaluate(logits[mine], labels[mine], calibrate_on=held_out, **FEW)
        assert found.n == 40
        assert found.metrics == alone.metrics
        assert report.groups["site"].after.groups[name].metrics == alone.calibration.metrics
        confidence = logits[mine].softmax(1).amax(1).mean().item()
        assert found.mean_confidence == pytest.approx(confidence)
        assert found.overconfidence == pytest.approx(confidence - alone.value("accuracy"))


def test_values_of_groups_by_hand():
    """Confidence 3/4 throughout: two of four are right in one group, three of four in the other."""
    logits = torch.tensor([[np.log(3.0), 0.0]] * 8, dtype=torch.float64)
    labels = torch.tensor([0, 0, 1, 1, 0, 0, 0, 1])
    found = grouped(logits, labels, np.array([0] * 4 + [1] * 4)).values()
    assert found["ece"].tolist() == pytest.approx([0.25, 0.0])
    assert found["overconfidence"].tolist() == pytest.approx([0.25, 0.0])
    assert found["accuracy"].tolist() == [0.5, 0.75]
    assert found["brier"].tolist() == pytest.approx([(2 * 0.125 + 2 * 1.125) / 4, (3 * 0.125 + 1.125) / 4])
    # Equal confidences are exchanged freely. Of five right among eight, a group of four always has one to four: no split is closer.
    tests = permutation_tests(grouped(logits, labels, np.array([0] * 4 + [1] * 4)), np.array([True, True]), 2000, random.stream(0))
    assert tests["accuracy"].p_value == 1.0
    uneven = permutation_tests(
        grouped(logits, torch.tensor([1, 1, 1, 0, 0, 0, 0, 0]), np.array([0] * 4 + [1] * 4)), np.array([True, True]), 2000, random.stream(0)
    )
    assert uneven["accuracy"].p_value == pytest.approx(10 / 70, abs=4 * (10 / 70 * 60 / 70 / 2000) ** 0.5)
    assert uneven["accuracy"].group == 0  # both deviate by as much, and it is the worse one


def test_p_values_against_a_naive_loop(rng):
    logits, labels = drawn(90)
    codes = np.array([0] * 20 + [1] * 30 + [2] * 40)
    logits[:20] *= 3
    found = permutation_tests(grouped(logits, labels, codes, 5), np.array([True] * 3), 1500, random.stream(1))
    confidence = logits.softmax(1).amax(1)
    order = confidence.argsort()
    strata = [order[:50], order[50:]]
    chance = -logits.log_softmax(1).gather(1, labels[:, None]).squeeze(1)

    def values(key: str, groups: torch.Tensor) -> list[float]:
        parts = [groups == group for group in range(3)]
        if key == "ece":
            return [expected_calibration_error(logits[part], labels[part], num_bins=5).item() for part in parts]
        return [chance[part].mean().item() for part in parts]

    for key in ("ece", "nll"):
        table = [values(key, torch.from_numpy(codes))]
        for _ in range(600):
            groups = torch.from_numpy(codes.copy())
            for rows in strata if key == "ece" else [torch.arange(90)]:
                groups[rows] = groups[rows[torch.randperm(len(rows), generator=rng)]]
            table.append(values(key, groups))
        table = np.array(table)
        statistic = (np.abs(table - table.mean(0)) / table.std(0)).max(1)
        p_value = np.mean(statistic >= statistic[0] - 1e-9)
        assert found[key].p_value == pytest.approx(p_value, abs=4 * (0.25 / 600) ** 0.5), key
        assert found[key].observed == pytest.approx(table[0, found[key].group]), key
        assert found[key].expected == pytest.approx(table[:, found[key].group].mean(), rel=0.1), key


def test_order_of_samples_and_names_of_groups_change_nothing(rng):
    logits, labels = drawn(150)
    site = np.array(["a", "b", "c"])[np.arange(150) % 3]
    first = rm.evaluate(logits, labels, groups=site, **FEW).groups["group"].before
    order = torch.randperm(150, generator=rng)
    renamed = {"a": "z", "b": "y", "c": "x"}
    other = [renamed[each] for each in site[order.numpy()]]
    second = rm.evaluate(logits[order], labels[order], groups=other, **FEW).groups["group"].before
    for key in GAP_KEYS:
        assert first.gaps[key].p_value == second.gaps[key].p_value, key
        assert first.gaps[key].value == pytest.approx(second.gaps[key].value), key
        assert renamed[first.gaps[key].extreme] == second.gaps[key].extreme, key


def test_p_values_are_uniform_where_groups_are_drawn_at_random():
    """The p-value is a multiple of 1/40; its distance from uniform cannot be less than that of the grid."""
    found = []
    for seed in range(150):
        codes = torch.randint(3, (150,), generator=random.stream(seed, "codes")).numpy()
        tests = permutation_tests(grouped(*drawn(150, seed), codes), np.array([True] * 3), 39, random.stream(seed, "permutations"))
        found.append([tests[key].p_value for key in GAP_KEYS])
    jitter = torch.rand(150, 5, generator=random.stream(0, "jitter")).numpy() / 40
    for key, column in zip(GAP_KEYS, (np.array(found) - jitter).T, strict=True):
        assert kstest(column, "uniform").pvalue > 1e-4, key


def test_a_harder_group_is_less_accurate_but_not_worse_calibrated():
    logits, labels = drawn(3000)
    codes = (torch.arange(3000) % 2).numpy()
    logits[codes == 1] /= 3
    labels = torch.multinomial(logits.softmax(1), 1, generator=random.stream(5)).squeeze(1)
    gaps = permutation_tests(grouped(logits, labels, codes), np.array([True, True]), 200, random.stream(0))
    assert gaps["accuracy"].p_value < 0.01
    assert min(gaps["ece"].p_value, gaps["overconfidence"].p_value) > 0.01


def test_the_overconfident_group_is_found_and_p_values_are_corrected_over_all_groupings():
    logits, labels = drawn(900)
    site = np.array(["north", "south", "east"])[np.arange(900) % 3]
    logits[torch.from_numpy(site == "south")] *= 4
    report = rm.evaluate(logits, labels, groups={"site": site, "half": np.arange(900) < 450}, replicates=200)
    gap = report.groups["site"].before.gaps["ece"]
    assert (gap.extreme, gap.largest, gap.verdict) == ("south", "south", "groups differ")
    assert gap.observed > 0.15 > gap.expected
    assert report.groups["half"].before.gaps["ece"].verdict == "no difference shown"
    both = [report.groups[name].before.gaps[key] for name in ("site", "half") for key in GAP_KEYS]
    assert [each.p_holm for each in both] == holm([each.p_value for each in both])
    text = " ".join(str(report).split())
    assert "ECE: groups differ (corrected p = 0.050)" in text or "ECE: groups differ (corrected p = 0.04" in text
    json.dumps(report.to_dict(), allow_nan=False)


def test_small_groups_are_listed_without_a_verdict_and_not_tested():
    logits, labels = drawn(60)
    site = ["a"] * 28 + ["b"] * 23 + ["c"] * 9
    stage = rm.evaluate(logits, labels, groups=site, **FEW).groups["group"].before
    small = stage.groups["c"]
    assert (small.n, small.too_small, small.metrics["ece"].verdict, small.metrics["ece"].low) == (9, True, None, None)
    assert small.metrics["ece"].value == pytest.approx(expected_calibration_error(logits[51:], labels[51:]).item())
    assert {gap.extreme for gap in stage.gaps.values()} <= {"a", "b"}
    alone = rm.evaluate(logits, labels, groups=["a"] * 59 + [None], **FEW).groups["group"].before
    assert list(alone.groups) == ["a", "(missing)"]
    assert set(alone.gaps.values()) == {None}


def test_infinite_nll_is_not_tested():
    probs = torch.tensor([[1.0, 0.0]] * 20 + [[0.5, 0.5]] * 20, dtype=torch.float64)
    labels = torch.tensor([0] * 19 + [1] + [0, 1] * 10)
    report = rm.evaluate(probs, labels, from_logits=False, groups=[0] * 20 + [1] * 20, **FEW)
    assert report.groups["group"].before.gaps["nll"] is None
    assert report.groups["group"].before.gaps["ece"] is not None
    json.dumps(report.to_dict(), allow_nan=False)


def test_logits_of_a_group_may_look_like_probabilities():
    logits = torch.tensor([[0.3, 0.7], [2.0, 1.0], [0.0, 3.0]], dtype=torch.float64)
    report = rm.evaluate(logits, [0, 0, 1], groups=["x", "y", "y"], **FEW)
    assert report.groups["group"].before.groups["x"].metrics["nll"].value == pytest.approx(np.log(1 + np.exp(0.4)))


def test_a_metric_of_logits_is_computed_on_the_logits_of_the_group(monkeypatch):
    """Not on shifted ones, even where the logits of a group, large or small, look like probabilities."""
    monkeypatch.setattr(METRICS, "_entries", dict(METRICS._entries))
    register_metric("largest", most=9.0, needs="logits")(lambda logits, target: logits.amax(dim=1))
    register_metric("whole", most=9.0, needs="logits")(lambda logits, target: logits.amax())
    logits = torch.tensor([[0.27, 0.73]] * 13 + [[2.0, 1.0], [0.0, 3.0]] * 6, dtype=torch.float64)
    groups = ["x"] * 10 + ["few"] * 3 + ["y"] * 12
    found = rm.evaluate(logits, [0, 1] * 12 + [0], groups=groups, **FEW).groups["group"].before.groups
    for name, value in (("x", 0.73), ("few", 0.73), ("y", 2.5)):
        assert found[name].metrics["largest"].value == pytest.approx(value)
        assert found[name].metrics["whole"].value == pytest.approx(max(value, 3.0 if name == "y" else 0))


@pytest.mark.parametrize(
    ("text", "groups", "passed_over"),
    [
        ("groups.site.accuracy<60%", "", "c"),
        ("groups.site.ece>10%", "a", "c"),
        ("groups.site.ece>1%", "a, b", "c"),
        ("groups.site.ece<20%", "b, a", "c"),
        ("groups.site.ece>13%", "", "c"),
        ("groups.site.ece>80%", "", "c"),
        ("groups.site.ece>5%:low", "a", "b, c"),
        ("groups.site.ece>9%:low", "", "b, c"),
        ("calibrated.groups.site.nll>5", "", "c"),
    ],
)
def test_a_condition_holds_if_it_does_for_any_group(text, groups, passed_over):
    """One group has an ECE of 12 % (8 to 15 %), the other of 2 %; a group of nine samples, of 50 %, does not count, which is said."""

    def group(n: int, ece: Estimate) -> GroupMetrics:
        return GroupMetrics(n, 0.8, 0.0, {"ece": ece, "accuracy": Estimate(0.8), "nll": Estimate(0.5)})

    stage = GroupStage({"a": group(50, Estimate(0.12, 0.08, 0.15)), "b": group(50, Estimate(0.02)), "c": group(9, Estimate(0.5))})
    report = Evaluation("a", 109, 2, {}, groups={"site": Grouping(stage, stage)})
    message = rf"^condition '{re.escape(text)}' passes over groups of fewer than 10 samples or without a (value|low) of \w+: {passed_over}$"
    with pytest.warns(UserWarning, match=message):
        assert with_failures(report, [Condition.parse(text)]).failed == ((f"{text} ({groups})",) if groups else ())


def test_conditions_on_groups_that_are_not_there():
    report = rm.evaluate(*drawn(30), groups={"site": [0] * 15 + [1] * 15}, **FEW)
    with pytest.raises(InvalidInput, match="unknown grouping 'sight'; did you mean 'site'"):
        Condition.parse("groups.sight.ece>5%").holds(report)
    with pytest.raises(InvalidInput, match="must go with scores to calibrate on"):
        Condition.parse("calibrated.groups.site.ece>5%").holds(report)
    with pytest.raises(InvalidInput, match=r"must go with groups of samples \(--group\)"):
        Condition.parse("groups.site.ece>5%").holds(rm.evaluate(*drawn(30), **FEW))


def test_without_groups_the_key_is_empty():
    assert rm.evaluate(*drawn(20), **FEW).to_dict()["groups"] == {}


@pytest.mark.slow
def test_level_and_power_of_the_study():
    from studies.groups import Case, has_level, row

    null = row(Case("null", 5, 0.1), 2000, 200, 0, 99)
    assert all(has_level(null[key], 200) for key in GAP_KEYS)
    assert row(Case("power", 2, 0.2, 0.5), 2000, 30, 0, 99)["ece"] > 0.8


SITES = {"north": 0.79, "east": 0.84, "south": 0.51, "west": 1.24}
"""Observed over expected events."""


def vendor(samples: int = 400) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Probabilities, events and sites, so that every site has its ratio at all probabilities."""
    probs = expit(np.linspace(-3, 1.4, samples))
    events = [np.diff(np.floor(np.cumsum(ratio * probs)), prepend=0.0) for ratio in SITES.values()]
    return np.tile(probs, 4), np.concatenate(events).astype(int), np.repeat(list(SITES), samples).tolist()


@pytest.fixture(scope="module")
def vendor_report() -> Evaluation:
    probs, events, sites = vendor()
    return rm.evaluate(probs, events, from_logits=False, groups={"site": sites}, replicates=200)


def test_sites_whose_events_are_predicted_too_often_and_too_rarely_differ(vendor_report):
    """The confidence of the winner hides it: the p-value of the likelihood ratio is the oracle."""
    probs, events, sites = vendor()
    stage = vendor_report.groups["site"].before
    for site, ratio in SITES.items():
        positive = stage.groups[site].positive
        assert positive.metrics["observed_over_expected"].value == pytest.approx(ratio, abs=0.02)
    assert stage.groups["south"].positive.verdict == "miscalibrated"
    assert stage.groups["south"].positive.p_value < 1e-8
    assert list(stage.gaps) == [*POSITIVE_GAP_KEYS, *GAP_KEYS]
    gap = stage.gaps["positive.observed_over_expected"]
    assert (gap.smallest, gap.largest, gap.verdict) == ("south", "west", "groups differ")
    assert {gap.extreme} <= {"south", "west"}
    assert gap.observed == stage.groups[gap.extreme].value("positive.observed_over_expected")
    odds, code = np.log(probs / (1 - probs)), np.unique(sites, return_inverse=True)[1]

    def loss(at: np.ndarray, shifts: np.ndarray) -> float:
        margin = shifts + at[0] * odds
        return float((np.logaddexp(0, margin) - events * margin).sum())

    alike = minimize(lambda at: loss(at, at[1]), [1.0, 0.0]).fun
    apart = minimize(lambda at: loss(at, at[1:][code]), [1.0, 0, 0, 0, 0]).fun
    oracle = chi2.sf(2 * (alike - apart), 3)
    assert oracle < 1e-10
    assert math.log(gap.p_value) == pytest.approx(math.log(oracle), rel=0.2)
    assert min(stage.gaps[key].p_value for key in ("ece", "overconfidence")) > 100 * gap.p_value


def test_the_worst_site_is_named_everywhere(tmp_path, capsys):
    probs, events, sites = vendor()
    with (tmp_path / "vendor.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["prob", "label", "site"], *zip(probs, events, sites, strict=True)])
    conditions = ["groups.site.positive.observed_over_expected<0.8", "groups.site.positive.ece>9%", "positive.slope>3"]
    command = ["evaluate", str(tmp_path / "vendor.csv"), "--group", "site", "--replicates", "100"]
    command += [text for each in conditions for text in ("--fail-if", each)]
    files = {kind: tmp_path / name for kind, name in (("html", "a.html"), ("markdown", "a.md"), ("csv", "a.csv"), ("group-csv", "b.csv"))}
    command += [str(text) for kind, path in files.items() for text in (f"--{kind}", path)]
    assert main(command) == 1
    shown = " ".join(capsys.readouterr().out.split())
    worst = "miscalibrated groups by observed/expected, the worst first: south 0.5"
    assert shown.index("class 1: frequency") < shown.index("Confidence of the predicted class")
    assert worst in shown
    assert "observed/expected of the positive class: groups differ (corrected p <0.001)" in shown
    assert "failed: groups.site.positive.observed_over_expected<0.8 (south, north)" in shown
    assert "failed: groups.site.positive.ece>9% (south" in shown
    assert "positive.slope>3" not in shown
    assert worst in files["markdown"].read_text()
    page = re.sub(r"<wbr>|\s+", " ", files["html"].read_text()).replace("\xa0", " ")
    assert "vendor.csv: class 1: predicted too often, miscalibrated" in page
    headline = page[page.index('class="verdict') : page.index("table-positive")]
    assert "Groups by site: miscalibrated groups by observed/expected, the worst first: south 0.5" in headline
    assert page.index("Groups by site: probability of the positive class") < page.index("Groups by site: confidence of predictions")
    for kind in ("csv", "group-csv"):
        rows = list(csv.DictReader(files[kind].read_text().splitlines()))
        assert {"positive.observed_over_expected", "positive.slope", "positive.ece", "ece"} <= {row["metric"] for row in rows}
    assert main([*command[:6], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["groups"]["site"]["before"]
    assert found["groups"]["south"]["positive"]["verdict"] == "miscalibrated"
    assert found["gaps"]["positive.observed_over_expected"]["smallest"] == "south"
    assert found["gaps"]["positive.observed_over_expected"]["p_holm"] < 1e-8


def test_the_exact_test_is_what_permutations_tend_to():
    logits, labels = drawn(200, classes=2)
    codes = (torch.arange(200) % 3).numpy()
    labels[:20] = 1
    samples = grouped(logits, labels, codes)
    exact, drawn_ones = exact_test(samples, np.array([True] * 3)), [samples.values()["overconfidence"]]
    rng = random.stream(3, "permutations")
    drawn_ones += [samples.values(torch.randperm(200, generator=rng).numpy())["overconfidence"] for _ in range(3000)]
    values = np.stack(drawn_ones)[1:]
    away = values - values.mean(axis=0)
    assert exact.observed == pytest.approx(drawn_ones[0][exact.group])
    assert exact.expected == pytest.approx(values[:, exact.group].mean(), abs=5 * values[:, exact.group].std() / 3000**0.5)
    assert exact.deviation == pytest.approx((exact.observed - exact.expected) / values[:, exact.group].std(), rel=0.1)
    first = drawn_ones[0] - values.mean(axis=0)
    inverse = np.linalg.pinv(away.T @ away / 3000, hermitian=True, rcond=1e-9)
    share = np.mean(np.einsum("ri,ij,rj->r", away, inverse, away) >= first @ inverse @ first)
    assert exact.p_value == pytest.approx(share, abs=0.05)


def test_p_values_of_the_positive_class_are_uniform_where_groups_are_drawn_at_random():
    """Also of a model whose probabilities are far too extreme: groups of it are all alike."""
    found = []
    for seed in range(200):
        logits, labels = drawn(200, seed, classes=2)
        codes = torch.randint(3, (200,), generator=random.stream(seed, "codes")).numpy()
        samples = sorted_samples((3 * logits).softmax(1)[:, 1], labels == 1, 15)
        found.append(exact_test(GroupedSamples.of(samples, codes, 3, 15), np.array([True] * 3)).p_value)
    assert kstest(found, "uniform").pvalue > 1e-4


def test_groups_without_events_and_small_groups_have_what_is_defined():
    probs = np.tile(expit(np.linspace(-2, 1, 20)), 3)
    labels = np.array([0] * 20 + [0, 1] * 10 + [1] * 5 + [0] * 15)
    groups = ["none"] * 20 + ["half"] * 20 + ["few"] * 5 + ["some"] * 15
    stage = rm.evaluate(probs, labels, from_logits=False, groups=groups, **FEW).groups["group"].before
    none, few = stage.groups["none"].positive, stage.groups["few"].positive
    assert (none.metrics["intercept"], none.metrics["slope"], none.metrics["auroc"]) == (None, None, None)
    ratio = none.metrics["observed_over_expected"]
    assert (ratio.value, ratio.low) == (0.0, 0.0)
    assert 0 < ratio.high < 1
    assert (few.verdict, few.metrics["ece"].low, few.p_value) == (None, None, None)
    assert stage.gaps["positive.slope"] is None  # only one group has a slope
    nobody = rm.evaluate(probs, 0 * labels, from_logits=False, groups=groups, **FEW)
    assert nobody.groups["group"].before.gaps["positive.observed_over_expected"] is None
    json.dumps(nobody.to_dict(), allow_nan=False)
    assert "not tested" in str(nobody)


def test_with_many_classes_groups_are_about_the_class_that_is_chosen():
    logits, labels = drawn(90)
    site = ["a", "b", "c"] * 30
    plain = rm.evaluate(logits, labels, groups=site, **FEW).groups["group"].before
    assert list(plain.gaps) == list(GAP_KEYS)
    assert "positive" not in plain.groups["a"].to_dict()
    chosen = rm.evaluate(logits, labels, groups=site, positive=2, **FEW).groups["group"].before
    rows = torch.arange(90) % 3 == 0
    alone = rm.evaluate(logits[rows], labels[rows], positive=2, **FEW).positive
    assert chosen.groups["a"].positive == alone
    assert {key: gap.value for key, gap in chosen.gaps.items() if key in GAP_KEYS} == {key: gap.value for key, gap in plain.gaps.items()}
