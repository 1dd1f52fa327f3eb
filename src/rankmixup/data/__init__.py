"""Data sets by name."""

from rankmixup.data.base import Dataset, DataSource, ImageFiles, Split, parse_source, register
from rankmixup.data.batches import evaluation_batches, steps_per_epoch, training_batches
from rankmixup.data.cifar import Cifar10, Cifar100
from rankmixup.data.corruptions import CORRUPTIONS, corrupt
from rankmixup.data.digits import Digits
from rankmixup.data.fashion_mnist import FashionMnist
from rankmixup.data.given import GivenData
from rankmixup.data.imagenet import ImageNet, TinyImageNet
from rankmixup.data.own import Folder, Npz
from rankmixup.data.splits import complete_splits
from rankmixup.data.svhn import Svhn
from rankmixup.data.synthetic import Synthetic
from rankmixup.data.view import View

__all__ = [
    "CORRUPTIONS",
    "Cifar10",
    "Cifar100",
    "DataSource",
    "Dataset",
    "Digits",
    "FashionMnist",
    "Folder",
    "GivenData",
    "ImageFiles",
    "ImageNet",
]
__all__ += ["Npz", "Split", "Svhn", "Synthetic", "TinyImageNet", "View", "complete_splits", "corrupt", "evaluation_batches", "parse_source"]
__all__ += ["register", "steps_per_epoch", "training_batches"]
