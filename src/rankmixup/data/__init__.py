"""Data sets by name."""

from rankmixup.data.base import Dataset, DataSource, ImageFiles, Split, View, register
from rankmixup.data.cifar import Cifar10, Cifar100
from rankmixup.data.digits import Digits
from rankmixup.data.fashion_mnist import FashionMnist
from rankmixup.data.folder import Folder
from rankmixup.data.imagenet import ImageNet
from rankmixup.data.npz import Npz
from rankmixup.data.order import steps_per_epoch
from rankmixup.data.parse import parse_source
from rankmixup.data.pipeline import evaluation_batches, training_batches
from rankmixup.data.svhn import Svhn
from rankmixup.data.synthetic import Synthetic
from rankmixup.data.tiny_imagenet import TinyImageNet

__all__ = [
    "Cifar10",
    "Cifar100",
    "DataSource",
    "Dataset",
    "Digits",
    "FashionMnist",
    "Folder",
    "ImageFiles",
    "ImageNet",
    "Npz",
    "Split",
    "Svhn",
    "Synthetic",
    "TinyImageNet",
    "View",
    "evaluation_batches",
    "parse_source",
    "register",
    "steps_per_epoch",
    "training_batches",
]
