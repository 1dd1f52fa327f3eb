import torch

from rankmixup.metrics import confidence_by_lambda


def test_lambda_is_folded_and_every_sample_lands_in_its_bin(rng):
    lam, confidence = torch.rand(500, generator=rng), torch.rand(500, generator=rng)
    centres, means = confidence_by_lambda(confidence, lam, num_bins=5)
    torch.testing.assert_close(centres, torch.tensor([0.55, 0.65, 0.75, 0.85, 0.95]))
    for centre, mean in zip(centres.tolist(), means.tolist(), strict=True):
        members = [c for c, each in zip(confidence.tolist(), lam.tolist(), strict=True) if abs(max(each, 1 - each) - centre) <= 0.05]
        assert abs(mean - sum(members) / len(members)) < 1e-5


def test_lambda_one_belongs_to_the_last_bin_and_an_empty_bin_is_nan():
    _, means = confidence_by_lambda(torch.tensor([0.9, 0.7]), torch.tensor([1.0, 0.0]), num_bins=2)
    assert means[0].isnan()
    torch.testing.assert_close(means[1], torch.tensor(0.8))
