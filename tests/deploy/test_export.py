"""Exported files give the probabilities of the source, or nothing is left of them."""

import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

import rankmixup as rm
from rankmixup.deploy import export
from rankmixup.errors import Interrupted, InvalidInput, WorkFailed
from rankmixup.posthoc import CALIBRATORS


@pytest.fixture(scope="module")
def exported(stored, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported") / "model"
    return rm.load(stored).export(folder, ["safetensors", "onnx", "pt2"], licence="mit")


def test_run_onnx_and_pt2_agree(stored, exported, new_images):
    """To 1e-5, on images that none of them has seen."""
    import onnxruntime

    model = rm.load(stored)
    expected, x = model.predict_proba(new_images), model.preprocess(new_images)
    session = onnxruntime.InferenceSession(exported.folder / "model.onnx", providers=["CPUExecutionProvider"])
    onnx = session.run(["probabilities"], {"images": x.contiguous().numpy()})[0]
    pt2 = torch.export.load(exported.folder / "model.pt2").module()(x).detach()
    for found in (onnx, pt2.numpy(), rm.load(exported.folder).predict_proba(new_images).numpy()):
        assert np.abs(found - expected.numpy()).max() < 1e-5
    assert json.loads(session.get_modelmeta().custom_metadata_map["class_names"]) == list(model.class_names)
    assert max(exported.differences.values()) < 1e-5
    assert exported.compared_on == f"{len(stored.scores('test'))} test samples"


@pytest.mark.slow
def test_a_fresh_process_loads_the_folder_without_the_run(exported, stored, new_images, tmp_path):
    folder = shutil.copytree(exported.folder, tmp_path / "elsewhere")
    code = f"import rankmixup as rm; print(rm.load({str(folder)!r}).predict_proba({str(new_images)!r}).tolist())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == rm.load(stored).predict_proba(new_images).tolist()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:platt calibration did not converge")  # of so few samples, those of two classes may not overlap
@pytest.mark.parametrize("to", ["pt2", "onnx"])
@pytest.mark.parametrize("name", list(CALIBRATORS))
def test_every_calibrator_is_inside_the_graph(name, to, request, tmp_path):
    stored = request.getfixturevalue("stored_two" if CALIBRATORS[name].binary else "stored")
    model = rm.load(stored, calibrate_with=name)
    found = model.export(tmp_path / "model", [to])
    assert max(found.differences.values()) < 1e-5
    again = rm.load(found.folder)
    assert again.calibrator.report_ == model.calibrator.report_
    x = stored.run.data.load().test.x
    assert torch.equal(again.predict_proba(x), model.predict_proba(x))
    assert not torch.allclose(again.predict_proba(x), rm.load(found.folder, calibrate_with=None).predict_proba(x), atol=1e-4)


@pytest.mark.slow
def test_graphs_can_take_bytes(stored_mlp, tmp_path):
    model = rm.load(stored_mlp)
    found = model.export(tmp_path / "model", ["pt2"], normalise_inside=True)
    x = stored_mlp.run.data.load().test.x
    served = torch.export.load(found.folder / "model.pt2").module()(x.contiguous()).detach()
    assert torch.allclose(served.double(), model.predict_proba(x), atol=1e-5)


def test_a_folder_can_be_exported_again(exported, stored, tmp_path, new_images):
    again = rm.load(exported.folder).export(tmp_path / "again", ["pt2"])
    assert again.compared_on == "64 random samples"
    assert (again.folder / "README.md").read_bytes() == (exported.folder / "README.md").read_bytes()
    assert torch.equal(rm.load(again.folder).predict_proba(new_images), rm.load(stored).predict_proba(new_images))


def test_nothing_is_left_of_files_that_differ(stored_mlp, tmp_path, monkeypatch):
    model = rm.load(stored_mlp)
    wrong = lambda path, batches: [torch.full((len(batch), 3), 1 / 3) for batch in batches]  # noqa: E731
    monkeypatch.setitem(export._GRAPHS, "pt2", (export.write_pt2, wrong))
    with pytest.raises(WorkFailed, match=r"probabilities of the pt2 file must be within .* of the source"):
        model.export(tmp_path / "model", ["pt2"])
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_where_a_signal_stops_it(stored_mlp, tmp_path, monkeypatch):
    """Late, when all but the card is written."""
    monkeypatch.setattr(export, "write_card", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Interrupted, match="stopped by SIGTERM") as caught:
        rm.load(stored_mlp).export(tmp_path / "model")
    assert caught.value.exit_status == 143
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_what_is_there_is_not_overwritten(stored, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine").write_text("precious")
    model = rm.load(stored)
    with pytest.raises(InvalidInput, match="must be a new folder or an empty one"):
        model.export(tmp_path / "model")
    assert (tmp_path / "model" / "mine").read_text() == "precious"
    for to, message in (
        ("onnx", "to must be a list of formats"),
        (["torchscript"], "to must be 'safetensors', 'onnx' or 'pt2'"),
        ([], "list"),
    ):
        with pytest.raises(InvalidInput, match=message):
            model.export(tmp_path / "other", to)


def test_the_card_has_what_the_hub_reads(exported, stored):
    head, text = (exported.folder / "README.md").read_text().removeprefix("---\n").split("\n---\n", 1)
    metadata = {line.partition(": ")[0]: json.loads(line.partition(": ")[2]) for line in head.splitlines()}
    assert metadata["license"] == "mit"
    assert metadata["library_name"] == "rankmixup"
    assert metadata["pipeline_tag"] == "image-classification"
    (result,) = metadata["model-index"][0]["results"]
    values = {each["type"]: each["value"] for each in result["metrics"]}
    assert values["ece"] == pytest.approx(stored.result().temperature["nll"].test["ece"])
    assert "![Reliability diagram](reliability.png)" in text
    assert "95 % interval" in text
    assert str(stored.path.parent.parent) not in text + (exported.folder / "config.json").read_text()


@pytest.mark.slow
def test_names_from_outside_cannot_leave_their_cell(stored_mlp, tmp_path):
    model = rm.load(stored_mlp)
    model.class_names = ("<script>alert(1)</script>", "[a](javascript:b)", "blue")
    card = (model.export(tmp_path / "model").folder / "README.md").read_text()
    assert "<script>" not in card
    assert "[a](javascript" not in card


def test_sums_are_those_of_sha256sum(exported):
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=exported.folder, check=True)


def test_the_card_of_a_model_without_its_calibrator_does_not_praise_it(exported, tmp_path):
    card = (rm.load(exported.folder, calibrate_with=None).export(tmp_path / "model").folder / "README.md").read_text()
    assert "without the calibrator" in card
    assert "calibrated by" not in card
    with pytest.raises(InvalidInput, match="must be in a folder that exists"):
        rm.load(exported.folder).export(tmp_path / "a" / "b")
