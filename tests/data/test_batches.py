"""Batches: which samples, which augmentation, and that neither depends on processes, workers or where an epoch is taken up."""

import numpy as np
import pytest
import torch
from PIL import Image

from rankmixup.data import Dataset, ImageFiles, Split, View, evaluation_batches, steps_per_epoch, training_batches
from rankmixup.data.transforms import normalise
from rankmixup.errors import InvalidInput, WorkFailed

FLOATS = View(1, (0.0,), (1.0,))
BYTES = View(6, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4), "crop", padding=2, flip=True)


def dataset(split: Split, view: View) -> Dataset:
    return Dataset(split, split, split, ("a", "b", "c"), view)


def floats(size: int) -> Dataset:
    x = torch.arange(size, dtype=torch.float32).reshape(size, 1, 1, 1)
    return dataset(Split(x, torch.arange(size) % 3, torch.arange(size) + 100), FLOATS)


def random_bytes(size: int, rng: torch.Generator) -> Dataset:
    x = torch.randint(256, (size, 3, 6, 6), generator=rng).to(torch.uint8)
    return dataset(Split(x, torch.arange(size) % 3, torch.arange(size)), BYTES)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Dataset:
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    for number in range(7):
        Image.fromarray(rng.integers(0, 256, (40 + number, 50, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    images = ImageFiles(folder, tuple(f"{number}.png" for number in range(7)))
    view = View(16, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4), "resized-crop", flip=True)
    return dataset(Split(images, torch.arange(7) % 3, torch.arange(7)), view)


@pytest.mark.parametrize(("size", "batch", "world"), [(10, 4, 1), (10, 4, 2), (9, 4, 2), (8, 4, 2), (1, 4, 1), (7, 3, 3)])
def test_ranks_share_each_batch_and_nothing_is_seen_twice(size, batch, world):
    data = floats(size)
    ranks = [list(training_batches(data, batch, seed=0, epoch=0, rank=rank, world_size=world)) for rank in range(world)]
    steps = steps_per_epoch(data, batch, world_size=world)
    assert all(len(batches) == steps for batches in ranks)
    seen = torch.cat([part.index for batches in ranks for part in batches])
    assert len(set(seen.tolist())) == len(seen)
    assert len(seen) == size or size % batch < world
    for batches in ranks:
        for part in batches:
            assert len(part.y) > 0
            assert torch.equal(part.x.flatten().long(), part.index)
            assert torch.equal(part.y, part.index % 3)
    # Together, the ranks' shares of a step are the batch that one process would have had.
    alone = list(training_batches(data, batch, seed=0, epoch=0))
    for number in range(steps):
        together = sorted(torch.cat([batches[number].index for batches in ranks]).tolist())
        assert together == sorted(alone[number].index.tolist())


def by_sample(batches) -> dict[int, torch.Tensor]:
    return {int(index): x for batch in batches for index, x in zip(batch.index, batch.x, strict=True)}


@pytest.mark.parametrize("kind", ["bytes", "files"])
def test_a_samples_augmentation_depends_on_seed_epoch_and_sample_alone(kind, files, rng):
    data, batch = (files, 3) if kind == "files" else (random_bytes(50, rng), 8)

    def epoch(size=batch, **options) -> dict[int, torch.Tensor]:
        return by_sample(training_batches(data, size, **{"seed": 0, "epoch": 0, "workers": 0, **options}))

    whole = epoch()
    others = {
        "another batch size": epoch(batch + 2),
        "two processes": epoch(rank=0, world_size=2) | epoch(rank=1, world_size=2),
        "taken up at the second step": epoch(start=1),
    }
    if kind == "files":
        others["worker processes"] = epoch(workers=2)
    for name, other in others.items():
        assert len(other) >= len(data.train) - batch, name
        assert all(torch.equal(x, whole[index]) for index, x in other.items()), name
    for changed in (epoch(epoch=1), epoch(seed=1)):
        assert any(not torch.equal(x, whole[index]) for index, x in changed.items())


def test_an_epoch_is_taken_up_where_it_was_left(rng):
    data = random_bytes(20, rng)
    whole, rest = (list(training_batches(data, 8, seed=0, epoch=3, start=start)) for start in (0, 2))
    assert len(whole) == 3
    assert [batch.index.tolist() for batch in rest] == [batch.index.tolist() for batch in whole[2:]]


def test_a_sample_drawn_twice_in_a_class_balanced_epoch_is_augmented_anew(rng):
    split = random_bytes(9, rng).train
    split = Split(split.x, torch.tensor([0] * 8 + [1]), split.index)
    batches = training_batches(Dataset(split, split, split, ("a", "b"), BYTES), 16, seed=0, epoch=0, sampling="class-balanced")
    shown = [x for batch in batches for index, x in zip(batch.index, batch.x, strict=True) if index == 8]
    assert len(shown) == 8
    assert any(not torch.equal(x, shown[0]) for x in shown)


def test_evaluation_is_in_order_and_without_augmentation(rng):
    split = random_bytes(11, rng).val
    alone = torch.cat(list(evaluation_batches(split, BYTES)))
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (BYTES.mean, BYTES.std))
    torch.testing.assert_close(alone, (split.x / 255 - mean) / std)
    for rank in range(2):
        assert torch.equal(torch.cat(list(evaluation_batches(split, BYTES, rank=rank, world_size=2))), alone[rank::2])


def test_files_are_evaluated_as_torchvision_does(files):
    from torchvision.transforms import v2

    # The shorter side 16 * 256 / 224, rounded.
    transform = v2.Compose([v2.Resize(18, antialias=True), v2.CenterCrop(16), v2.PILToTensor()])
    images = files.val.x
    expected = torch.stack([transform(Image.open(images.folder / name)) for name in images.names])
    found = torch.cat(list(evaluation_batches(files.val, files.view, workers=0)))
    torch.testing.assert_close(found, normalise(expected, files.view))


def test_files_without_augmentation_are_trained_on_as_they_are_evaluated(files):
    view = View(16, files.view.mean, files.view.std)
    trained = by_sample(training_batches(dataset(files.train, view), 4, seed=0, epoch=0, workers=0))
    evaluated = torch.cat(list(evaluation_batches(files.train, view, workers=0)))
    assert torch.equal(torch.stack([trained[index] for index in range(7)]), evaluated)


def test_images_of_another_size_and_colour_are_made_to_fit(rng):
    grey = torch.randint(256, (3, 1, 12, 20), generator=rng).to(torch.uint8)
    split = Split(grey, torch.zeros(3, dtype=torch.int64), torch.arange(3))
    found = next(evaluation_batches(split, BYTES))
    middles = [Image.fromarray(each[0, :, 4:16].numpy()).resize((6, 6), Image.Resampling.BILINEAR) for each in grey]
    expected = torch.from_numpy(np.stack([np.asarray(each) for each in middles])).unsqueeze(1).expand(3, 3, 6, 6)
    torch.testing.assert_close(found, normalise(expected, BYTES))
    colour = Split(random_bytes(2, rng).train.x, torch.zeros(2, dtype=torch.int64), torch.arange(2))
    one_channel = next(evaluation_batches(colour, View(6, (0.0,), (1.0,))))
    red, green, blue = (colour.x[:, channel : channel + 1] / 255 for channel in range(3))
    torch.testing.assert_close(one_channel, 0.299 * red + 0.587 * green + 0.114 * blue, atol=0.51 / 255, rtol=0)


def test_floats_of_another_shape_are_refused():
    with pytest.raises(InvalidInput, match=r"must have the shape that the network takes, \(3, 6, 6\), got \(1, 1, 1\)"):
        next(evaluation_batches(floats(3).test, BYTES))


def test_an_augmentation_that_images_cannot_have_is_refused(files, rng):
    with pytest.raises(InvalidInput, match="augment of images in files must be none or resized-crop, got 'crop'"):
        dataset(files.train, BYTES)
    with pytest.raises(InvalidInput, match=r"augment of images of torch\.float32 must be none, got 'crop'"):
        dataset(floats(2).train, BYTES)
    with pytest.raises(InvalidInput, match=r"augment of images of torch\.uint8 must be none or crop, got 'resized-crop'"):
        dataset(random_bytes(2, rng).train, files.view)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_image_that_does_not_decode_is_named(workers, tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8 no image")
    split = Split(ImageFiles(tmp_path, ("broken.jpg",)), torch.tensor([0]), torch.tensor([0]))
    with pytest.raises(WorkFailed, match=r"^image .*broken\.jpg must be one that can be decoded \([^\n]*\)$"):
        list(evaluation_batches(split, View(16, (0.5,) * 3, (0.5,) * 3), workers=workers))


def test_batches_leave_the_global_generator_alone(files):
    before = torch.random.get_rng_state()
    list(training_batches(files, 4, seed=0, epoch=0, workers=1))
    assert torch.equal(torch.random.get_rng_state(), before)
