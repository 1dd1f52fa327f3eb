"""What every data set promises, as a test class to inherit."""

import dataclasses
import itertools
import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from rankmixup.data import Dataset, DataSource, evaluation_batches, training_batches
from rankmixup.testing.contracts import ConfiguredContract, assert_no_global_randomness


class DatasetContract(ConfiguredContract):
    """Inherit from it, call the class `Test...` and give it a fixture `data`; pytest then runs every test below."""

    root: Path | None = None
    """Folder with the files of the data set, if it has any."""

    subject = pytest.fixture(lambda self, data: data)

    @pytest.fixture
    def loaded(self, data: DataSource) -> Dataset:
        """Its samples."""
        return data.load(self.root)

    def test_splits_are_disjoint(self, loaded: Dataset) -> None:
        """No sample is in two splits or twice in one."""
        index = torch.cat([split.index for split in (loaded.train, loaded.val, loaded.test)])
        assert len(index.unique()) == len(index)

    def test_loads_the_same_samples_every_time(self, data: DataSource, loaded: Dataset) -> None:
        """Whatever the state of any global random generator, which it leaves alone."""

        def train() -> Tensor:
            split = data.load(self.root).train
            assert split.x is not loaded.train.x
            return torch.cat([split.x.double().flatten(), split.y, split.index]) if isinstance(split.x, Tensor) else split.index

        assert_no_global_randomness(train)
        assert data.load(self.root).manifest() == loaded.manifest()

    def test_labels_are_classes(self, loaded: Dataset) -> None:
        """Whole numbers below the number of classes, of which each has a training sample."""
        assert loaded.num_classes >= 2
        assert loaded.class_counts.min() > 0
        for split in (loaded.train, loaded.val, loaded.test):
            assert split.y.dtype == torch.int64
            assert split.y.min() >= 0
            assert split.y.max() < loaded.num_classes

    def test_images_have_the_shape_that_networks_are_built_for(self, data: DataSource, loaded: Dataset) -> None:
        """Bytes or floats in memory, or files; a batch of them is float32 and finite."""
        assert data.image_size == loaded.view.image_size
        shape = loaded.view.input_shape
        splits = [evaluation_batches(split, loaded.view, workers=0) for split in (loaded.train, loaded.val, loaded.test)]
        for x in itertools.chain((batch.x for batch in training_batches(loaded, 2, seed=0, epoch=0, workers=0)), *splits):
            assert x.shape[1:] == shape
            assert x.dtype == torch.float32
            assert x.isfinite().all()

    def test_manifest_is_json(self, loaded: Dataset) -> None:
        """It is written to `splits.json`."""
        assert json.loads(json.dumps(loaded.manifest(), allow_nan=False))["train"]["size"] == len(loaded.train)

    def test_other_settings_are_another_data_set(self, data: DataSource) -> None:
        """Else two different runs would have one id."""
        assert dataclasses.replace(data, imbalance=data.imbalance + 1).content_hash() != data.content_hash()
