"""Training: the loop, on one device or many."""

from rankmixup.training.loop import is_first_process, train
from rankmixup.training.progress import Silent, Watcher

__all__ = ["Silent", "Watcher", "is_first_process", "train"]
