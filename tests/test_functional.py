"""Every pure function of training takes tensors, numpy arrays and lists, and names its arguments as they are called."""

import inspect

import numpy as np
import pytest
import torch

from rankmixup import functional as F
from rankmixup.errors import InvalidInput
from tests.oracles import images, unchecked

LOGITS = torch.tensor([[2.0, 0.5, 1.0], [0.0, 1.5, 0.5], [0.0, 3.0, 1.0], [2.0, 0.0, 1.0]], dtype=torch.float64)
Y, COUNTS, PARTNER = torch.tensor([0, 1, 2, 1]), torch.tensor([3, 2, 1, 2]), torch.tensor([1, 0, 3, 2])
LAM = torch.tensor([0.7, 0.25, 0.5, 0.9], dtype=torch.float64)
SIMPLE = ["cpc", "cross_entropy", "entropy_penalty", "flsd", "focal", "label_smoothing", "mbls", "mmce"]
CALLS = {f"{name}_loss": (LOGITS, Y) for name in SIMPLE} | {
    "crl_loss": (LOGITS, Y, LAM),
    "cutmix": (images(4).double(), torch.tensor([[0, 2, 0, 3]] * 4), PARTNER),
    "label_mixture_loss": (LOGITS, Y, Y[PARTNER], LAM),
    "mixup": (images(4).double(), LAM, PARTNER),
    "mixup_ranking_loss": (LOGITS, LOGITS.flip(0)),
    "mndcg_loss": (LOGITS, LOGITS.flip(0)[None], LAM[None]),
    "prior_corrected_logits": (LOGITS, COUNTS[:3]),
    "regmixup_loss": (LOGITS, LOGITS.flip(0), Y, Y[PARTNER], LAM),
    "remix_label_weight": (LAM, COUNTS, COUNTS[PARTNER]),
    "unimix_lambda": (LAM, COUNTS, COUNTS[PARTNER]),
    "unimix_partner": (LAM, COUNTS),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("made", [torch.Tensor.numpy, torch.Tensor.tolist], ids=["numpy", "lists"])
def test_arrays_and_lists_are_as_good_as_tensors(name, made):
    function, arguments = getattr(F, name), CALLS[name]
    torch.testing.assert_close(function(*map(made, arguments)), function(*arguments), rtol=0, atol=0)


@pytest.mark.parametrize("name", [name for name in CALLS if name.endswith("_loss")])
def test_gradients_flow_where_the_rest_are_lists(name):
    logits = [argument.clone().requires_grad_() if argument.shape[-1] == 3 else argument.tolist() for argument in CALLS[name]]
    getattr(F, name)(*logits).backward()
    assert all(argument.grad.isfinite().all() for argument in logits if isinstance(argument, torch.Tensor))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("wrong", [None, "text", [["a"]], np.array([1j]), torch.zeros(1, 2, 3, 4, 5, dtype=torch.complex64)], ids=str)
def test_an_error_names_the_argument_as_it_is_called(name, wrong):
    function, arguments = getattr(F, name), CALLS[name]
    for place, parameter in enumerate(list(inspect.signature(function).parameters)[: len(arguments)]):
        with unchecked(), pytest.raises(InvalidInput, match=rf"^{parameter} must "):
            function(*arguments[:place], wrong, *arguments[place + 1 :])


def test_a_list_of_masks_and_of_labels_will_do():
    mixed = LOGITS.flip(0)
    masked = F.mixup_ranking_loss(LOGITS, mixed, same_class=[True, False, False, True])
    assert torch.equal(masked, F.mixup_ranking_loss(LOGITS, mixed, same_class=torch.tensor([True, False, False, True])))
