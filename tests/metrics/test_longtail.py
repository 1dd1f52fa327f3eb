import pytest
import torch

from rankmixup import functional as F
from rankmixup.errors import InvalidInput
from tests.oracles import metrics as oracle


@pytest.mark.parametrize(("classes", "medium", "tail"), [(10, 3, 7), (100, 36, 71), (3, 1, 2), (200, 67, 133), (2, 1, 1), (1, 0, 1)])
def test_groups_of_classes_in_order_of_frequency(classes, medium, tail):
    expected = [0] * medium + [1] * (tail - medium) + [2] * (classes - tail)
    assert F.class_groups(list(range(classes, 0, -1))).tolist() == expected
    assert F.class_groups(list(range(1, classes + 1))).tolist() == expected[::-1]
    # Of equally frequent classes the first are the head: an even split by index.
    assert F.class_groups([7] * classes).tolist() == expected


def test_agrees_with_loops_on_each_group(rng):
    probs, target = oracle.random_probs(400, 10, rng)
    counts = [1000, 600, 360, 215, 130, 77, 46, 28, 17, 10]
    result = F.long_tail_metrics(probs, target, counts, from_logits=False)
    for name, (low, high) in {"head": (0, 3), "medium": (3, 7), "tail": (7, 10)}.items():
        mine = (target >= low) & (target < high)
        pairs = oracle.top(probs[mine], target[mine])
        assert result[name]["n"] == mine.sum()
        assert result[name]["accuracy"] == pytest.approx(sum(right for _, right in pairs) / len(pairs))
        assert result[name]["ece"] == pytest.approx(oracle.binned(probs[mine], target[mine], 15)["ece"], abs=1e-12)


def test_logits_and_a_tensor_of_counts(rng):
    logits, target = torch.randn(50, 6, generator=rng, dtype=torch.float64), torch.randint(6, (50,), generator=rng)
    counts = [60, 50, 40, 30, 20, 10]
    from_logits = F.long_tail_metrics(logits, target, torch.tensor(counts), from_logits=True)
    for group, expected in F.long_tail_metrics(logits.softmax(1), target, counts, from_logits=False).items():
        assert from_logits[group] == pytest.approx(expected)


def test_a_group_without_samples_has_no_figures():
    result = F.long_tail_metrics(torch.tensor([[0.8, 0.1, 0.1]]), torch.tensor([0]), [3, 2, 1], from_logits=False)
    assert result["head"] == {"accuracy": 1.0, "ece": pytest.approx(0.2), "n": 1}
    assert result["tail"] == {"accuracy": None, "ece": None, "n": 0}


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([3, 2], "class_counts must hold a number for each of 3 classes, got 2"),
        ([], r"class_counts must hold one number for each class, got shape \[0\]"),
        ([3, -1, 2], "class_counts must not be negative, got -1"),
    ],
)
def test_bad_counts(counts, message):
    with pytest.raises(InvalidInput, match=message):
        F.long_tail_metrics(torch.tensor([[0.8, 0.1, 0.1]]), torch.tensor([0]), counts, from_logits=False)
