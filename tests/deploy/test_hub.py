"""Upload, against a stub of the Hub's interface."""

import huggingface_hub
import pytest

import rankmixup as rm
from rankmixup.errors import InvalidInput


class Stub:
    calls: list = []  # noqa: RUF012 - shared with the test on purpose

    def __init__(self, token=None):
        self.calls.append(("HfApi", token))

    def create_repo(self, repo_id, *, private, exist_ok):
        self.calls.append(("create_repo", repo_id, private, exist_ok))

    def upload_folder(self, *, repo_id, folder_path, commit_message):
        self.calls.append(("upload_folder", repo_id, sorted(path.name for path in folder_path.iterdir()), commit_message))
        return f"https://hub.example/{repo_id}/commit/1"


@pytest.mark.slow
def test_the_checked_folder_is_uploaded(stored_mlp, monkeypatch):
    monkeypatch.setattr(huggingface_hub, "HfApi", Stub)
    monkeypatch.setattr(Stub, "calls", [])
    model = rm.load(stored_mlp)
    assert model.push_to_hub("me/colours", ["pt2"], private=True, token="secret") == "https://hub.example/me/colours/commit/1"
    files = ["README.md", "SHA256SUMS", "config.json", "model.pt2", "model.safetensors", "reliability.png"]
    assert Stub.calls == [
        ("HfApi", "secret"),
        ("create_repo", "me/colours", True, True),
        ("upload_folder", "me/colours", files, "Upload a calibrated model"),
    ]
    with pytest.raises(InvalidInput, match="repo_id must be USER/NAME, got 'colours'"):
        model.push_to_hub("colours")


def test_the_stub_has_the_signature_of_the_real_interface():
    import inspect

    for name in ("create_repo", "upload_folder"):
        real = inspect.signature(getattr(huggingface_hub.HfApi, name)).parameters
        assert set(inspect.signature(getattr(Stub, name)).parameters) <= set(real), name


def test_the_hub_can_parse_the_card(stored_mlp, tmp_path):
    card = huggingface_hub.ModelCard.load(rm.load(stored_mlp).export(tmp_path / "model", licence="apache-2.0").folder / "README.md")
    assert card.data.license == "apache-2.0"
    assert card.data.library_name == "rankmixup"
    assert {each.metric_type for each in card.data.eval_results} >= {"accuracy", "nll", "ece"}
