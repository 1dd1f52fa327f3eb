"""Upload to the Hugging Face Hub."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rankmixup.deploy.export import export_model
from rankmixup.deploy.model import CalibratedModel
from rankmixup.errors import import_extra, require, shown
from rankmixup.files import removable


def push_to_hub(
    model: CalibratedModel,
    repo_id: str,
    to: Sequence[str] = ("safetensors",),
    *,
    private: bool = False,
    token: str | None = None,
    commit_message: str = "Upload a calibrated model",
    **options: Any,
) -> str:
    """Export the model to a temporary folder, check it, and upload it; returns the address of the commit.

    Args:
        model: What is uploaded.
        repo_id: Name of the repository, `USER/NAME`; it is made if there is none.
        to: Formats, as for `export_model`.
        private: Whether a repository that is made is private.
        token: The Hub's token; by default that of `hf auth login`.
        commit_message: Title of the commit.
        **options: Passed on to `export_model`.
    """
    hub = import_extra("huggingface_hub", "push_to_hub", "hub")
    valid = isinstance(repo_id, str) and repo_id.count("/") == 1 and all(repo_id.split("/"))
    require(valid, f"repo_id must be USER/NAME, got {shown(repo_id)}")
    with removable(), tempfile.TemporaryDirectory() as parent:
        exported = export_model(model, Path(parent) / "model", to, **options)
        api = hub.HfApi(token=token)
        api.create_repo(repo_id, private=private, exist_ok=True)
        return str(api.upload_folder(repo_id=repo_id, folder_path=exported.folder, commit_message=commit_message))
