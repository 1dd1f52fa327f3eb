import pytest
import torch

from rankmixup.data import Split, batches_per_epoch, shuffled_batches


def split(size: int) -> Split:
    x = torch.arange(size, dtype=torch.float32).reshape(size, 1, 1, 1)
    return Split(x, torch.arange(size) % 3, torch.arange(size) + 100)


@pytest.mark.parametrize(("size", "batch", "world"), [(10, 4, 1), (10, 4, 2), (9, 4, 2), (8, 4, 2), (1, 4, 1), (7, 3, 3)])
def test_ranks_share_each_batch_and_nothing_is_seen_twice(size, batch, world):
    data = split(size)
    ranks = [list(shuffled_batches(data, batch, seed=0, epoch=0, rank=rank, world_size=world)) for rank in range(world)]
    steps = batches_per_epoch(size, batch, world)
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
    alone = list(shuffled_batches(data, batch, seed=0, epoch=0))
    for number in range(steps):
        together = sorted(torch.cat([batches[number].index for batches in ranks]).tolist())
        assert together == sorted(alone[number].index.tolist())


def test_order_depends_on_seed_and_epoch_alone():
    def order(seed: int, epoch: int) -> list[int]:
        return torch.cat([batch.index for batch in shuffled_batches(split(50), 8, seed=seed, epoch=epoch)]).tolist()

    assert order(0, 0) == order(0, 0)
    assert order(0, 0) != order(0, 1)
    assert order(0, 0) != order(1, 0)
