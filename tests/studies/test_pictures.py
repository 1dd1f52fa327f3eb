"""The pictures of the explanation of calibration: the script draws all that the page shows, and the page says what it finds."""

import re
from pathlib import Path

import pytest

import rankmixup as rm
from studies.pictures import FEW, calibrated, indifferent, main, models

PAGE = (Path(__file__).parents[2] / "docs" / "explanations" / "calibration.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_script_draws_every_picture_of_the_page_the_same_each_time(tmp_path, capsys):
    shown = set(re.findall(r"images/(calibration-[\w-]+\.png)", PAGE))
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        main(tmp_path / folder)
    drawn = {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    assert set(drawn) == shown
    assert drawn == {path.name: path.read_bytes() for path in (tmp_path / "two").iterdir()}
    fitted = re.search(r"temperature: ([\d.]+)", capsys.readouterr().out)
    assert f"a T of {float(fitted[1]):.2f} was found" in PAGE


def test_the_page_has_the_numbers_of_the_simulation():
    few = rm.evaluate(calibrated(FEW, "few").logits, calibrated(FEW, "few").labels).metrics["ece"]
    found = models()
    many = rm.functional.expected_calibration_error(found["calibrated"].logits, found["calibrated"].labels)
    assert (
        f"with {FEW} samples; its ECE is {100 * few.value:.1f} %, while that of the same model with 10,000 samples is {100 * many:.1f} %"
        in PAGE
    )
    assert f"which is {100 * few.floor.low:.1f} % to {100 * few.floor.high:.1f} % for these {FEW} samples" in PAGE


def test_the_models_are_what_they_are_called():
    found = models()
    for name, verdict, sign in (
        ("calibrated", "not distinguishable", 0),
        ("overconfident", "miscalibrated", 1),
        ("underconfident", "miscalibrated", -1),
    ):
        report = rm.evaluate(found[name].logits, found[name].labels, replicates=200)
        assert report.metrics["ece"].verdict.startswith(verdict)
        assert sign * (report.value("oe") - report.value("ue")) >= 0
    useless = indifferent(found["calibrated"])
    assert rm.functional.expected_calibration_error(useless.probs, useless.labels, from_logits=False).item() == pytest.approx(0, abs=1e-12)
