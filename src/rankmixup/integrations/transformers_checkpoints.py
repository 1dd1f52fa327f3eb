"""Checkpoints of Hugging Face's Trainer that hold the random stream and the state of a method."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import safe_open
from safetensors.torch import save

from rankmixup import random
from rankmixup.errors import require
from rankmixup.files import readable, write_atomic
from rankmixup.methods import Objective

if TYPE_CHECKING:
    from transformers import Trainer as _Base
else:
    _Base = object


class ObjectiveCheckpoints(_Base):
    """Saves `objective` in every checkpoint that can be resumed, one file for each process, and goes on with it."""

    objective: Objective
    """The method with its random stream and its state."""
    _renamed = False

    # Both are called by every process, also under DeepSpeed, and before a checkpoint is sent to the Hub.
    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        path = _file(output_dir, self.args.process_index)
        path.parent.mkdir(parents=True, exist_ok=True)  # another process may come first
        tensors = {name: value.detach().cpu().contiguous() for name, value in self.objective.state_dict().items()}
        write_atomic(path, save(tensors, {"objective": self.objective.extra_repr()}))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        rank = self.args.process_index
        own = _file(checkpoint, rank)
        path = own if own.exists() else _file(checkpoint, 0)
        require(path.exists(), f"{checkpoint} must hold {path.name}, as checkpoints of this class do; start from its weights instead")
        with readable(path, "the saved state of a method", Exception), safe_open(path, framework="pt") as file:
            saved, tensors = (file.metadata() or {}).get("objective"), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        require(saved == self.objective.extra_repr(), f"the method must be that of {path}, {saved}, got {self.objective.extra_repr()}")
        self.objective.load_state_dict(tensors)
        if path != own:  # there was no such process
            self.objective.draw_from(random.stream(self.args.seed, "mixing", rank, self.state.global_step))

    # Checkpoints have the names that weights have on the Hub. Some versions of Trainer do not translate them when they load one, and go on
    # with untrained weights after a warning.
    def _issue_warnings_after_load(self, load_result: Any) -> None:
        self._renamed = bool(load_result.missing_keys and load_result.unexpected_keys)
        if not self._renamed:
            super()._issue_warnings_after_load(load_result)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        self._load_renamed(resume_from_checkpoint)

    def _load_best_model(self) -> None:
        super()._load_best_model()
        self._load_renamed(self.state.best_model_checkpoint)

    def _load_renamed(self, folder: str | None) -> None:
        if self._renamed:
            model: Any = self.accelerator.unwrap_model(self.model)
            model.load_state_dict(type(model).from_pretrained(folder, config=model.config).state_dict())
        self._renamed = False


def _file(folder: str, rank: int) -> Path:
    return Path(folder) / f"rankmixup_objective_{rank}.safetensors"
