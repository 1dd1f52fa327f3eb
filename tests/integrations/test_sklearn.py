"""The estimator keeps scikit-learn's contract, and trains and calibrates on the samples that it says."""

import copy
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

import rankmixup as rm
from rankmixup.errors import InvalidInput, WorkFailed
from rankmixup.integrations.sklearn_training import drawn, hold_out, predict_logits, useful_calibrator
from rankmixup.methods import RankMixupMRL
from rankmixup.mixers import Mixup
from rankmixup.posthoc import CALIBRATORS
from rankmixup.sklearn import RankMixupClassifier
from tests.oracles import unchecked

pytestmark = pytest.mark.filterwarnings("ignore:margin of rankmixup-:UserWarning")  # a dial of few samples and epochs says so

X, Y = make_blobs(120, 5, centers=3, cluster_std=4.0, random_state=0)
NAMES = np.array(["one", "two", "three"])[Y]


class Quick(RankMixupClassifier):
    """Trained too little to be any good, so that all checks but those of accuracy take seconds."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


RANDOM = {"check_sample_weight_equivalence_on_dense_data": "which samples are held out depends on how many there are"}


@parametrize_with_checks([Quick(epochs=1)], expected_failed_checks=lambda _: RANDOM)
def test_the_checks_of_scikit_learn_pass(estimator, check):
    with unchecked():
        check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [RankMixupClassifier(epochs=20, learning_rate=0.01), RankMixupClassifier("rankmixup-auto", epochs=20, learning_rate=0.01)],
    expected_failed_checks=lambda _: RANDOM,
)
def test_the_checks_of_scikit_learn_pass_with_those_of_accuracy(estimator, check):
    with unchecked():
        check(estimator)


def small(method="rankmixup-mrl", **more) -> RankMixupClassifier:
    return RankMixupClassifier(method, **{"epochs": 5, "random_state": 0} | more)


def seed_of(random_state: int) -> int:
    return int(np.random.RandomState(random_state).randint(2**31 - 1))


@pytest.mark.parametrize("classes", [2, 3])
def test_labels_come_back_as_they_were_given(classes):
    few = classes > Y
    fitted = small(epochs=40, learning_rate=0.01).fit(X[few], NAMES[few])
    assert fitted.classes_.tolist() == sorted(set(NAMES[few]))
    probs, scores = fitted.predict_proba(X[few]), fitted.decision_function(X[few])
    assert probs.shape == (few.sum(), classes)
    assert scores.shape == ((few.sum(),) if classes == 2 else (few.sum(), classes))
    assert np.allclose(probs.sum(1), 1)
    assert (fitted.classes_[probs.argmax(1)] == fitted.predict(X[few])).all()
    assert fitted.score(X[few], NAMES[few]) > 0.8


def test_it_learns_what_can_be_learnt_in_a_pipeline_and_in_cross_validation():
    scores = cross_val_score(
        make_pipeline(StandardScaler(), RankMixupClassifier(learning_rate=0.01, epochs=50, random_state=0)), *load_iris(return_X_y=True)
    )
    assert scores.mean() > 0.93


def test_fields_of_the_method_are_parameters():
    estimator = small()
    assert (estimator.get_params()["method__margin"], estimator.get_params()["method__mixer__alpha"]) == (2.0, 2.0)
    assert "method__margin" not in estimator.get_params(deep=False)
    estimator.set_params(method__margin=np.int64(1), method__mixer__alpha=np.float32(0.5))  # numbers as grids of numpy have them
    assert estimator.method == RankMixupMRL(margin=1.0, mixer=Mixup(alpha=0.5))
    assert clone(estimator).get_params() == estimator.get_params()
    # "auto" and a negative margin are allowed only together with log-odds: all fields are set at once, in any order.
    estimator.set_params(method__margin="auto", method__space="log-odds")
    assert (estimator.method.margin, estimator.method.space) == ("auto", "log-odds")
    estimator.set_params(method__smoothing=0.1, method="label-smoothing")
    assert estimator.method == rm.methods.LabelSmoothing(0.1)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"method__margins": 1.0}, "unknown field of RankMixupMRL 'margins'; did you mean 'margin'"),
        ({"method__margin__alpha": 1.0}, "unknown field of RankMixupMRL 'margin__alpha'"),
        ({"method__margin": -1.0}, "margin must be at least 0"),
        ({"method": "rankmixup", "method__margin": 1.0}, "unknown method 'rankmixup'; did you mean"),
        ({"margin": 1.0}, "Invalid parameter 'margin'"),
    ],
)
def test_wrong_fields_are_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        small().set_params(**wrong)


def test_a_grid_search_finds_its_way_to_the_fields_through_a_pipeline():
    pipeline = make_pipeline(StandardScaler(), small(epochs=2))
    grid = {"rankmixupclassifier__method__margin": np.arange(1, 3), "rankmixupclassifier__method__mixer__alpha": [0.5]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, NAMES)
    assert search.best_estimator_[-1].method_.margin == search.best_params_["rankmixupclassifier__method__margin"]
    assert search.best_estimator_[-1].method_.mixer.alpha == 0.5
    assert pipeline[-1].method == "rankmixup-mrl"
    by_name = GridSearchCV(small(epochs=1), {"method": ["ce", RankMixupMRL(margin=1.0)], "calibrate": [None]}, cv=2, error_score="raise")
    assert by_name.fit(X, Y).cv_results_["params"][1]["method"] == RankMixupMRL(margin=1.0)


def test_a_page_shows_it():
    assert "RankMixupMRL" in small(RankMixupMRL())._repr_html_()
    assert "margin=1.5" in repr(small(RankMixupMRL(margin=1.5)))


def test_the_same_seed_gives_the_same_network_and_no_global_generator_is_used():
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    dropout = small(network=lambda features, classes: nn.Sequential(nn.Linear(features, 16), nn.Dropout(), nn.Linear(16, classes)))
    first, again, other = (clone(dropout).set_params(random_state=seed).fit(X, Y).decision_function(X) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert (np.random.get_state()[1] == numpy_state).all()  # noqa: NPY002
    assert (first == again).all()
    assert (first != other).any()


def test_threads_with_dropout_give_what_one_after_the_other_gives():
    def network(features: int, classes: int) -> nn.Module:
        return nn.Sequential(nn.Linear(features, 16), nn.Dropout(), nn.Linear(16, classes))

    def predicted(seed: int) -> np.ndarray:
        return small(network=network, random_state=seed, epochs=10).fit(X, Y).predict_proba(X)

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(predicted, range(5)))
    assert all((one == predicted(seed)).all() for seed, one in enumerate(together))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda fitted: pickle.loads(pickle.dumps(fitted))], ids=["deepcopy", "pickle"])
def test_copies_predict_the_same(copied):
    fitted = small("rankmixup-auto", epochs=30, learning_rate=0.01).fit(X, Y)
    assert (copied(fitted).predict_proba(X) == fitted.predict_proba(X)).all()
    assert not hasattr(clone(fitted), "network_")


class Recorder(nn.Linear):
    """A linear network that remembers the first feature of the samples it is trained on."""

    def __init__(self, features: int, classes: int):
        super().__init__(features, classes)
        self.seen: set[float] = set()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.seen |= set(x[:, 0].tolist())
        return super().forward(x / 100)


def test_samples_are_held_out_of_each_class_and_never_trained_on():
    y = np.repeat([0, 1, 2], [80, 35, 5])
    numbered = np.column_stack([np.arange(120), X[:, 0]])
    fitted = small("ce", network=Recorder, standardize=False, calibrate="vector", epochs=60, learning_rate=0.1).fit(numbered, y)
    held = sorted(set(range(120)) - {int(number) for number in fitted.network_.seen})
    assert np.bincount(y[held]).tolist() == [8, 4, 1]
    assert fitted.calibrator_ is None or fitted.calibrator_.report_.samples == 13
    _, expected = hold_out(torch.from_numpy(y), 0.1, seed_of(0))
    assert expected.tolist() == held


def test_training_ends_when_held_out_nll_no_longer_falls_and_the_best_epoch_is_kept():
    fitted = small(epochs=500, learning_rate=0.05, n_iter_no_change=3, calibrate=None).fit(X, Y)
    curve = fitted.validation_curve_
    best = int(np.argmin(curve))
    assert fitted.n_iter_ == len(curve) == len(fitted.loss_curve_) == best + 1 + 3 < 500
    _, held = hold_out(torch.from_numpy(Y), 0.1, seed_of(0))
    assert log_loss(Y[held], fitted.predict_proba(X[held])) == pytest.approx(curve[best], abs=1e-5)


def test_a_dial_is_set_by_the_held_out_samples():
    fitted = small("rankmixup-auto", epochs=30, learning_rate=0.01).fit(X, Y)
    assert fitted.method == "rankmixup-auto"
    assert -20 <= fitted.method_.margin <= 20


def test_a_dial_that_does_nothing_is_said_once():
    rule = r"^margin of rankmixup-auto never acted in training.*; it was tuned on 12 samples"
    with pytest.warns(UserWarning, match=rule) as seen:
        small("rankmixup-auto", epochs=2).fit(X, Y)
    assert len(seen) == 1


@pytest.mark.parametrize("method", rm.list_methods())
def test_every_method_trains(method):
    if method == "cpc":
        with pytest.raises(InvalidInput, match="3 classes"):
            small(method).fit(X, Y > 0)
    fitted = small(method, epochs=2, batch_size=16).fit(X, Y)
    assert np.isfinite(fitted.predict_proba(X)).all()


def test_without_held_out_samples_every_epoch_is_trained_and_nothing_is_calibrated_or_tuned():
    every = small(validation_fraction=0, calibrate=None, epochs=7).fit(X, Y)
    assert (every.n_iter_, every.validation_curve_, every.calibrator_) == (7, [], None)
    with pytest.raises(InvalidInput, match=r"calibrate must be None where validation_fraction is 0.*got 'temperature'"):
        small(validation_fraction=0).fit(X, Y)
    with pytest.raises(InvalidInput, match=r"margin of rankmixup-auto must be a number where validation_fraction is 0.*got 'auto'"):
        small("rankmixup-auto", validation_fraction=0, calibrate=None).fit(X, Y)


def test_a_class_of_one_sample_is_trained_and_classes_of_one_sample_alone_are_refused():
    fitted = small(network=Recorder, standardize=False).fit(X[:8], [0, 0, 0, 1, 1, 1, 1, 2])
    assert np.float32(X[7, 0]) in fitted.network_.seen
    with pytest.raises(InvalidInput, match=r"y must hold a class of two samples or more.*got 3 samples of 3 classes"):
        small().fit(X[:3], [0, 1, 2])
    with pytest.raises(InvalidInput, match="y must hold at least two classes, got 1 class: 'a'"):
        small().fit(X[:3], list("aaa"))


def test_a_calibrator_is_used_only_where_held_out_samples_show_that_it_helps():
    rng = np.random.default_rng(0)
    target = torch.from_numpy(rng.integers(3, size=400))
    right = 3 * torch.eye(3)[target] + torch.from_numpy(rng.normal(size=(400, 3)))
    overconfident = 3 * torch.eye(3)[target] + 3 * torch.from_numpy(rng.normal(size=(400, 3)))
    assert useful_calibrator(CALIBRATORS["temperature"], overconfident, target, torch.arange(len(target))).temperature_ > 1.5
    assert useful_calibrator(CALIBRATORS["temperature"], overconfident[:4], target[:4], torch.arange(4)) is None
    correct = right.argmax(1) == target
    few = correct.nonzero().squeeze(1)[:30]
    assert useful_calibrator(CALIBRATORS["temperature"], right[few], target[few], torch.arange(len(target))[few]) is None


@pytest.mark.parametrize("calibrate", [None, *(name for name in CALIBRATORS if not CALIBRATORS[name].binary)])
def test_any_calibrator_can_be_named_and_predictions_follow_its_probabilities(calibrate):
    fitted = small(calibrate=calibrate, validation_fraction=0.4, epochs=60, learning_rate=0.02).fit(X, Y)
    probs = fitted.predict_proba(X)
    assert np.allclose(probs.sum(1), 1, atol=1e-5)
    assert (probs.argmax(1) == fitted.predict(X)).all()
    raw = predict_logits(fitted.network_, fitted._inputs(X)).softmax(1).numpy()
    assert (fitted.calibrator_ is None) == np.allclose(probs, raw)


def test_features_of_a_data_frame_have_names_that_predictions_are_held_to():
    frame = pd.DataFrame(X, columns=list("abcde"))
    fitted = small().fit(frame, pd.Series(NAMES))
    assert (fitted.n_features_in_, fitted.feature_names_in_.tolist()) == (5, list("abcde"))
    assert (fitted.predict(frame) == small().fit(X, NAMES).predict(X)).all()
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(frame[list("edcba")])


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=30).filter(any), st.floats(0, 1, exclude_max=True))
def test_samples_are_drawn_as_often_as_their_weights_say(weights, start):
    expected = torch.tensor(weights, dtype=torch.float64) * len(weights) / sum(weights)
    counts = torch.bincount(drawn(torch.tensor(weights, dtype=torch.float64), start), minlength=len(weights))
    assert int(counts.sum()) == len(weights)
    assert bool(((counts - expected).abs() < 1 + 1e-6).all())


def test_equal_weights_change_nothing_and_samples_of_no_weight_are_not_there():
    plain, some = small().fit(X, Y).predict_proba(X), np.arange(len(X)) % 4 > 0
    assert (small().fit(X, Y, sample_weight=np.full(len(X), 0.3)).predict_proba(X) == plain).all()
    assert (small(class_weight={0: 7, 1: 7, 2: 7}).fit(X, Y).predict_proba(X) == plain).all()
    assert (small().fit(X, Y, sample_weight=some).predict_proba(X) == small().fit(X[some], Y[some]).predict_proba(X)).all()
    balanced = small(class_weight="balanced").fit(X[20:], Y[20:])
    by_label = dict(enumerate(100 / (3 * np.bincount(Y[20:]))))
    assert (balanced.predict_proba(X) == small(class_weight=by_label).fit(X[20:], Y[20:]).predict_proba(X)).all()


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("way", ["sample_weight", "class_weight", "balanced", "both"])
def test_weights_move_the_probabilities_as_more_samples_would(way, seed):
    """Features that say nothing, and one sample in five of the second class: its probability is what the weights say that its share is."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(1000, 2)), np.arange(1000) % 5 == 0
    class_weight = {"sample_weight": None, "class_weight": {True: 4.0}, "balanced": "balanced", "both": {True: 2.0}}[way]
    weight = {"sample_weight": 1.0 + 3 * y, "both": 1.0 + y}.get(way)
    fitted = small("ce", class_weight=class_weight, random_state=seed, learning_rate=0.01).fit(x, y, sample_weight=weight)
    assert fitted.predict_proba(x)[:, 1].mean() == pytest.approx(0.5, abs=0.08)
    assert small("ce", random_state=seed, learning_rate=0.01).fit(x, y).predict_proba(x)[:, 1].mean() == pytest.approx(0.2, abs=0.08)


@pytest.mark.parametrize("method", ["crl", "remix", "unimix", "rankmixup-auto"])
def test_every_method_takes_weights(method):
    fitted = small(method).fit(X, NAMES, sample_weight=np.random.default_rng(0).uniform(0, 9, len(X)))
    assert set(fitted.predict(X)) <= set(NAMES)


@pytest.mark.parametrize(
    ("class_weight", "sample_weight", "sentence"),
    [
        ("balance", None, "class_weight must be None, 'balanced' or weights by label, got 'balance'"),
        ({"one": 2}, None, r"class_weight must be of labels in y, got \['one'\]"),
        (None, -np.ones(len(X)), "sample_weight and class_weight must be numbers from 0, got others"),
        ({0: float("inf")}, None, "sample_weight and class_weight must be numbers from 0, got others"),
        ({0: 0.0, 1: 0.0, 2: 0.0}, None, "sample_weight and class_weight must not all be zero, they are"),
    ],
)
def test_wrong_weights_are_refused(class_weight, sample_weight, sentence):
    with unchecked(), pytest.raises(InvalidInput, match=sentence):
        small(class_weight=class_weight).fit(X, Y, sample_weight=sample_weight)


def normalising(features: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.BatchNorm1d(features), nn.Linear(features, classes))


def test_a_network_of_ones_own_with_batchnorm_is_never_given_a_batch_of_one():
    fitted = small(network=normalising, validation_fraction=0, calibrate=None, batch_size=119).fit(X, Y)  # 120 samples: 60 and 60
    assert isinstance(fitted.network_[0], nn.BatchNorm1d)
    assert (fitted.predict(X[:1]) == fitted.predict(X)[:1]).all()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"network": nn.Linear(5, 3)}, "network must be a name or a function .n_features, n_classes. that returns a module, got Linear"),
        ({"network": lambda features, classes: None}, "network must return a torch.nn.Module, got None"),
        ({"network": lambda features, classes: nn.Linear(features, 7)}, "one logit for each of 3 classes"),
        ({"network": lambda features, classes: nn.Identity()}, "network must have parameters to train, got none"),
        ({"network": "resnet8"}, "model must be one without convolutions"),
        ({"calibrate": "temprature"}, "unknown calibrator 'temprature'; did you mean"),
        ({"method": "mrll"}, "unknown method 'mrll'; did you mean"),
        ({"method": RankMixupMRL(mixer=rm.mixers.CutMix())}, "CutMix|images"),
        ({"device": "meta"}, "device must be 'auto', 'cpu' or a device of this machine, got 'meta'"),
        ({"device": "cuda:99"}, "device must be 'auto', 'cpu' or a device of this machine, got 'cuda:99'"),
        ({"random_state": "x"}, "random_state must be None, a whole number from 0 or a RandomState, got 'x'"),
        ({"validation_fraction": 1.0}, "validation_fraction must be less than 1, got 1.0"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
    ],
)
def test_wrong_parameters_are_refused_in_a_sentence_when_it_is_fitted(wrong, sentence):
    with unchecked(), pytest.raises(InvalidInput, match=sentence):
        small(**wrong).fit(X, Y)


def test_numbers_that_a_network_cannot_take_are_refused():
    with pytest.raises(InvalidInput, match=r"X must hold finite numbers that float32 can hold, got 1e.60 at .0, 1."):
        small(standardize=False).fit(np.where(np.arange(5) == 1, 1e60, X), Y)
    with pytest.raises(InvalidInput, match="X, standardized, must hold finite numbers"):
        small().fit(X, Y).predict(X * 1e60)
    with pytest.raises(WorkFailed, match=r"the loss must stay finite, got another number in epoch .*; try a lower learning_rate"):
        small(learning_rate=1e30).fit(X, Y)


def test_epochs_are_printed_only_if_asked(capsys):
    small(epochs=2).fit(X, Y)
    assert capsys.readouterr().out == ""
    small(epochs=2, verbose=1).fit(X, Y)
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["epoch 1", "epoch 2"]


@pytest.mark.slow
def test_the_examples_of_the_document_run_in_order():
    text = (Path(__file__).parents[2] / "docs" / "guides" / "sklearn.md").read_text()
    first, *others = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(text.partition(first)[0].splitlines()) + len(first.splitlines()) < 40  # one screen to the first result
    names: dict[str, object] = {}
    exec(first, names)
    assert names["clf"].score(names["X_test"], names["y_test"]) > 0.9
    for example in others:
        exec(example, names)
    assert isinstance(names["clf"].network_[2], nn.Dropout)
    assert set(names["search"].best_params_) == {"method__margin", "method__mixer__alpha"}


def test_what_is_frozen_in_a_network_stays_so():
    class Frozen(nn.Sequential):
        def __init__(self, features, classes):
            super().__init__(nn.BatchNorm1d(features).eval(), nn.Linear(features, classes))

    fitted = small(network=Frozen).fit(X, Y)
    assert fitted.network_[0].num_batches_tracked == 0
    assert fitted.network_[0].weight.std() > 0  # it is the statistics alone that are frozen
