"""Training: the loop, on one device or many."""

from rankmixup.training.loop import train
from rankmixup.training.progress import Silent, Watcher

__all__ = ["Silent", "Watcher", "train"]
