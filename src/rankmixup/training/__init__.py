"""Training: the loop, on one device or many."""

from rankmixup.training.loop import is_first_process, train
from rankmixup.training.memory import keep_freed_memory
from rankmixup.training.progress import ProgressWatcher, Watcher

__all__ = ["ProgressWatcher", "Watcher", "is_first_process", "keep_freed_memory", "train"]
