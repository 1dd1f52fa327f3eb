"""Training: the loop, on one device or many."""

from rankmixup.training.check import check_run
from rankmixup.training.processes import keep_freed_memory
from rankmixup.training.progress import ProgressWatcher, Watcher
from rankmixup.training.shift import shift
from rankmixup.training.train import Workplace, is_first_process, train, train_at

__all__ = ["ProgressWatcher", "Watcher", "Workplace", "check_run", "is_first_process", "keep_freed_memory", "shift", "train", "train_at"]
