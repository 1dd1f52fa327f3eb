"""Whatever a public function is given, it answers rightly or refuses it in one short sentence."""

import inspect

import numpy as np
import pytest
import torch

import rankmixup as rm
from rankmixup import evaluation, random
from rankmixup import functional as F
from rankmixup.data import Digits
from rankmixup.data.given import given_data
from rankmixup.errors import InvalidInput
from rankmixup.methods import Method
from rankmixup.mixers import Mixed, Mixer
from rankmixup.posthoc import TemperatureScaling
from rankmixup.sklearn import RankMixupClassifier
from tests.oracles import ConvNet, images, unchecked

LOGITS = torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 0.5], [0.0, 3.0, 1.0], [2.0, 0.0, 1.0]])
PROBS, Y, LAM, COUNTS = LOGITS.softmax(1), torch.tensor([0, 1, 2, 1]), torch.full((4,), 0.7), torch.tensor([3, 2, 1, 2])
PARTNER, BOX = torch.tensor([1, 0, 3, 2]), torch.zeros(4, 4, dtype=torch.long)

HOSTILE = [
    *(None, "x", {}, [], 0, -1, 2.5, True, float("nan"), float("inf"), 10**30, 1j, object(), ["a"], [[1], [1, 2]], [0, 1, 2, 1]),
    *(torch.tensor(1.0), torch.zeros(0), torch.zeros(4, 0), torch.zeros(4), torch.zeros(1, 4, 3), torch.full((4, 3), torch.nan)),
    *(
        torch.full((4,), torch.nan),
        torch.tensor([0, 1, 2, 10**15]),
        torch.tensor([-5, 1, 2, 1]),
        torch.eye(4)[:, :3],
        torch.ones(4, 3).long(),
    ),
    *(torch.randn(4, 3).to_sparse(), torch.randn(4, 3, requires_grad=True), torch.zeros(4, 3, device="meta")),
    torch.zeros(4, dtype=torch.long, device="meta"),
    *(torch.tensor([0, 1, 1, 0]).to(dtype) for dtype in (torch.uint8, torch.uint16, torch.uint64, torch.bool, torch.complex64)),
    *(torch.full((4, 3), 1.0).to(dtype) for dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.complex64)),
    *(np.full((4, 3), 1 / 3, dtype=dtype) for dtype in (">f8", np.longdouble, np.float16, complex, object)),
    *(
        np.full((4, 3), 1 / 3)[::-1, ::-1],
        np.array([0, 1, 2, 1], dtype=">u2"),
        np.array([0, 1, 2, 2**63], dtype=np.uint64),
        np.array(["a"]),
    ),
    *(np.ma.masked_array(np.full((4, 3), 1 / 3), np.eye(4, 3)), np.ma.masked_array([0, 1, 2, 1], [0, 0, 1, 0])),
    *(np.bool_(True), np.int64(2)),
]


def options(function):
    return {name: each.default for name, each in inspect.signature(function).parameters.items() if each.kind == each.KEYWORD_ONLY}


def fit_and_transform(logits, target, others, **named):
    return TemperatureScaling(**named).fit(logits, target).transform(others)


def given_arrays(x, y):
    return given_data([(x, y)] * 3, Digits())


def fitted_estimator(**named):
    x = np.random.default_rng(0).normal(size=(8, 2))
    return RankMixupClassifier(**named).fit(x, [0, 1, 0, 1, 0, 1, 0, 1]).predict_proba(x)


def calls():
    scored = [name for name in F.__all__ if name.endswith(("_error", "accuracy", "aurc", "_auroc", "_score", "likelihood"))]
    losses = ["cpc", "cross_entropy", "entropy_penalty", "flsd", "focal", "label_smoothing", "mbls", "mmce"]
    given = dict.fromkeys(scored, (PROBS, Y)) | {f"{name}_loss": (LOGITS, Y) for name in losses}
    given |= {
        "class_groups": (COUNTS,),
        "confidence_by_lambda": (LAM, LAM),
        "crl_loss": (LOGITS, Y, LAM),
        "cutmix": (images(4), BOX, PARTNER),
        "cutmix_boxes": (LAM, torch.zeros(4, 2), (6, 6)),
        "kendall_tau": (LAM, LAM),
        "label_mixture_loss": (LOGITS, Y, Y, LAM),
        "long_tail_metrics": (PROBS, Y, COUNTS[:3]),
        "mixup": (images(4), LAM, PARTNER),
        "mixup_ranking_loss": (LOGITS, LOGITS),
        "mndcg_loss": (LOGITS, LOGITS[None], LAM[None]),
        "mixup_list_loss": (LOGITS, LOGITS[None], LAM[None]),
        "ood_detection": (LAM, LAM),
        "ood_scores": (LOGITS, "entropy"),
        "prior_corrected_logits": (LOGITS, COUNTS[:3]),
        "regmixup_loss": (LOGITS, LOGITS, Y, Y, LAM),
        "remix_label_weight": (LAM, COUNTS, COUNTS),
        "unimix_lambda": (LAM, COUNTS, COUNTS),
        "unimix_partner": (LAM, COUNTS),
        "violated_mixed_pairs": (LAM[None], LAM[None]),
        "violated_raw_pairs": (LAM, LAM[None]),
    }
    assert sorted(given) == sorted(F.__all__)
    for name, arguments in given.items():
        named = options(getattr(F, name)) | ({"from_logits": False} if arguments[0] is PROBS else {})
        yield pytest.param(getattr(F, name), arguments, named, id=name)
    rng, mixed = random.stream(0), Mixed(LOGITS, LOGITS[None], LAM[None], PARTNER[None])
    for name in Mixer.registry:
        mixer = Mixer.registry[name]()
        mix = lambda mixer=mixer, **more: mixer(ConvNet(), images(4), rng, **more)  # noqa: E731
        yield pytest.param(mix, (), options(Mixer.__call__), id=f"mixer-{name}")
    for name in Method.registry:
        step = rm.objective(name, 3, class_counts=[3, 2, 1], dataset_size=4)
        yield pytest.param(lambda y, index, step=step: step(ConvNet(), images(4), y, index), (Y, torch.arange(4)), {}, id=f"step-{name}")
    some = {"replicates": 10, "rng": rng}
    more = [
        (rm.objective, ("ce", 3), {"seed": 0, "class_counts": None, "dataset_size": None, "rank": 0, "logits_of": None}),
        (rm.build_model, ("resnet8",), {"num_classes": 3, "image_size": 8, "in_channels": 1}),
        (given_arrays, (LOGITS, Y), {}),
        (given_data, ([(LOGITS, Y)] * 3, Digits()), {}),
        (
            rm.evaluate,
            (LOGITS, Y),
            {"calibrate_on": None, "ood": None, "seed": 0, "from_logits": True, "replicates": 10, "logits_of": None},
        ),
        (fit_and_transform, (LOGITS, Y, LOGITS), {"objective": "nll", "num_bins": 15}),
        (fitted_estimator, (), RankMixupClassifier(epochs=1, n_iter_no_change=1, random_state=0).get_params(deep=False)),
        (evaluation.all_metrics, (LOGITS, Y), options(evaluation.all_metrics)),
        (evaluation.paired_comparison, (LOGITS, LOGITS, Y, "ece"), options(evaluation.paired_comparison) | some),
        (evaluation.ece_noise_floor, (LAM, 0.1, rng), options(evaluation.ece_noise_floor) | {"replicates": 10}),
        (rm.compare, ({"a": LOGITS, "b": LOGITS}, Y), {"replicates": 10, "seed": 0, "metric": "ece"}),
        (evaluation.predict_batches, (ConvNet(), [(images(4), Y)]), {}),
        (evaluation.mcnemar, (Y > 0, Y > 1), {}),
        (evaluation.holm, ([0.1, 0.2],), {}),
        (evaluation.over_seeds, ([0.1, 0.2],), {}),
        (mixed.same_class, (Y,), {}),
        (mixed.relevance, (Y,), {}),
        (mixed.soft_labels, (3, Y), {}),
    ]
    for function, arguments, named in more:
        yield pytest.param(function, arguments, named, id=function.__name__)


def refusal(function, arguments, named):
    """What was said, and nothing where the function found an answer; any other error is raised."""
    try:
        function(*arguments, **named)
    except InvalidInput as refused:
        return str(refused)
    return ""


@pytest.mark.filterwarnings("ignore")  # of fits that do not converge, and of torch about gradients
@pytest.mark.parametrize(("function", "arguments", "named"), list(calls()))
def test_whatever_is_given_is_answered_or_refused_in_a_short_sentence(function, arguments, named):
    with unchecked():
        assert refusal(function, arguments, named) == ""
        for value in HOSTILE:
            for place in range(len(arguments)):
                said = refusal(function, [*arguments[:place], value, *arguments[place + 1 :]], named)
                assert len(said) < 1000
                assert "\n" not in said
            for name in named:
                said = refusal(function, arguments, {**named, name: value})
                assert len(said) < 1000
                assert "\n" not in said
