"""A network trained by a method of this library as a scikit-learn classifier."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor, nn

from rankmixup import random
from rankmixup.data.arrays import moments, require_finite
from rankmixup.errors import InvalidInput, require, require_flag, require_number, require_whole, shown
from rankmixup.integrations.sklearn_parameters import as_device, as_method, fields_of, with_fields
from rankmixup.integrations.sklearn_training import Schedule, drawn, hold_out, predict_logits, train_network, useful_calibrator
from rankmixup.methods import Method, objective
from rankmixup.models import build_model
from rankmixup.posthoc import CALIBRATORS

Network = Callable[[int, int], nn.Module]
"""Makes a network for this number of features and of classes; it returns logits `[B, K]` of inputs `[B, D]`."""
_FLOATS = [np.float64, np.float32]
"""Types that samples may have; others are made the first."""


class RankMixupClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A network trained by a method of this library, calibrated on samples that it was not trained on.

    A part of the training samples is held out. It decides when training ends, it sets the fields of the method that are "auto", and the
    calibrator is fitted to it. Fields of the method are nested parameters: `method__margin`, `method__mixer__alpha`.

    The weight of a sample says how often it is seen: an epoch draws as many samples as there are, each as often as its weight says. That
    is defined for every method, where a weighted loss is not: a mixture of two samples has no weight of its own.

    Args:
        method: A name or alias from `rankmixup.list_methods()`, or a method such as `RankMixupMRL(margin=1.0)`.
        network: A name from `rankmixup.list_models()` that takes tables, or a function (n_features, n_classes) that returns a module.
            The module returns logits `[B, K]` of inputs `[B, D]`, in float32.
        calibrate: A name from `rankmixup.list_calibrators()`, or None.
        epochs: Largest number of passes over the training samples.
        batch_size: Largest number of samples in a step. Batches of an epoch have the same size, give or take one.
        learning_rate: Of AdamW.
        weight_decay: Of AdamW.
        validation_fraction: Share of each class that is held out, at least one sample of every class that has two or more. With 0, all
            samples are trained on for all epochs; `calibrate` must then be None, and no field of the method may be "auto".
        n_iter_no_change: After how many epochs without a lower NLL of the held-out samples training ends. The best epoch is kept.
        standardize: Whether to subtract the mean of each feature and to divide by its standard deviation, both of the samples trained on.
        class_weight: Weights of the classes by label, 1 where not given, or "balanced" for weights in inverse proportion to their samples;
            they multiply those of the samples. Probabilities are then those of data in which classes are as frequent as that.
        random_state: Seed of the held-out part, the weights, the order of samples and mixing. The same whole number gives the same network.
        device: Where to train: "cpu", "auto" for a GPU if there is one, or another name that torch knows. The fitted network is on the CPU.
        verbose: Whether to print a line after each epoch.

    Attributes:
        classes_: The class labels, sorted.
        mean_: What was subtracted from each feature; zeros unless `standardize` is set.
        scale_: What each feature was then divided by; ones unless `standardize` is set.
        network_: The trained network; it takes features that are so standardized.
        calibrator_: The fitted calibrator with its `report_`; None if `calibrate` is, or if the held-out samples do not show that it
            lowers the NLL of samples that it was not fitted to.
        method_: The method in the epoch that was kept, with a number in the place of every "auto".
        n_iter_: Number of epochs trained.
        loss_curve_: Mean training loss of each epoch.
        validation_curve_: NLL of the held-out samples after each epoch, before calibration.
        n_features_in_: Number of features.
        feature_names_in_: Names of the features, if all are strings.
    """

    def __init__(
        self,
        method: str | Method = "rankmixup-mrl",
        *,
        network: str | Network = "mlp",
        calibrate: str | None = "temperature",
        epochs: int = 200,
        batch_size: int = 128,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-2,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        standardize: bool = True,
        class_weight: Mapping[Any, float] | str | None = None,
        random_state: Any = None,
        device: str = "cpu",
        verbose: int | bool = 0,
    ):
        self.method = method
        self.network = network
        self.calibrate = calibrate
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.standardize = standardize
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; if `deep`, also the fields of the method, as `method__margin`."""
        params: dict[str, Any] = super().get_params(deep)
        if deep and (isinstance(self.method, Method) or self.method in Method.registry):
            params |= {f"method__{name}": value for name, value in fields_of(as_method(self.method)).items()}
        return params

    def set_params(self, **params: Any) -> "RankMixupClassifier":
        """Set parameters by name. Fields of the method replace `method` by one that has them; it is checked with all of them set."""
        fields = {name.removeprefix("method__"): value for name, value in params.items() if name.startswith("method__")}
        super().set_params(**{name: value for name, value in params.items() if not name.startswith("method__")})
        if fields:
            self.method = with_fields(as_method(self.method), fields)
        return self

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "RankMixupClassifier":  # noqa: N803
        """Train on samples `X`, `[N, D]`, with class labels `y`, `[N]`, which may be numbers or text, and weights `[N]` from 0."""
        method, device, seed = self._checked_parameters()
        X, y = validate_data(self, X, y, dtype=_FLOATS)  # noqa: N806
        check_classification_targets(y)
        given = np.asarray(y)
        weights = self._weights(X, given, sample_weight)
        X, y, weight = X[weights > 0], given[weights > 0], torch.from_numpy(weights[weights > 0])  # noqa: N806
        self.classes_, labels = np.unique(y, return_inverse=True)
        classes, features = len(self.classes_), X.shape[1]
        require(classes > 1, f"y must hold at least two classes, got 1 class: {self.classes_.tolist()[0]!r}")
        target = torch.from_numpy(labels.astype(np.int64))
        rest, held = hold_out(target, self.validation_fraction, seed)
        rule = "y must hold a class of two samples or more, so that one can be held out, or validation_fraction must be 0"
        require(len(held) > 0 or self.validation_fraction == 0, f"{rule}, got {len(target)} samples of {classes} classes")
        copies = drawn(weight[held])
        held = held[copies]
        mean, scale = moments(torch.from_numpy(X[rest.numpy()])) if self.standardize else ([0.0] * features, [1.0] * features)
        self.mean_, self.scale_ = np.array(mean), np.array(scale)
        require_finite("the standard deviations of X", self.scale_)

        inputs, network = self._inputs(X), self._new_network(features, classes, seed).to(device)
        counts = torch.bincount(target[rest][drawn(weight[rest])], minlength=classes).clamp(min=1)
        step = objective(method, classes, seed, class_counts=counts, dataset_size=len(rest)).to(device)
        step.reminds = False
        method.check_input((features,))
        method.check_model(network)
        train, validation = ((inputs[rows].to(device), target[rows].to(device)) for rows in (rest, held))
        rates = float(self.learning_rate), float(self.weight_decay)
        schedule = Schedule(self.epochs, self.batch_size, *rates, self.n_iter_no_change)
        history = train_network(network, step, train, weight[rest], validation, schedule, seed, print if self.verbose else None)
        if trouble := step.dial_trouble(history.dials):
            warnings.warn(trouble, stacklevel=2)
        self.network_, self.method_ = network.cpu().eval(), history.method
        self.loss_curve_, self.validation_curve_, self.n_iter_ = history.loss, history.nll, len(history.loss)
        self.calibrator_ = None
        if self.calibrate is not None:
            logits = predict_logits(self.network_, inputs[held])
            self.calibrator_ = useful_calibrator(CALIBRATORS[self.calibrate], logits, target[held], copies)
        return self

    def decision_function(self, X: Any) -> NDArray[np.floating[Any]]:  # noqa: N803
        """Calibrated logits `[N, K]`; of two classes the log-odds of the second, `[N]`."""
        scores = self._scores(X)
        return (scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores).numpy()

    def predict_proba(self, X: Any) -> NDArray[np.floating[Any]]:  # noqa: N803
        """Calibrated probabilities of the classes in the order of `classes_`, `[N, K]`."""
        return self._scores(X).softmax(1).numpy()

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The most probable class label of each sample, `[N]`."""
        most_probable = self._scores(X).argmax(1).numpy()
        return self.classes_[most_probable]

    def _scores(self, X: Any) -> Tensor:  # noqa: N803
        check_is_fitted(self)
        logits = predict_logits(self.network_, self._inputs(validate_data(self, X, reset=False, dtype=_FLOATS)))
        return logits if self.calibrator_ is None else self.calibrator_.transform(logits)

    def _inputs(self, X: NDArray[np.floating[Any]]) -> Tensor:  # noqa: N803
        with np.errstate(over="ignore"):  # refused in the next line
            standardized = (X - self.mean_) / self.scale_
        require_finite("X, standardized," if self.standardize else "X", standardized)
        return torch.from_numpy(standardized.astype(np.float32))

    def _weights(self, X: NDArray[Any], y: NDArray[Any], sample_weight: Any) -> NDArray[np.float64]:  # noqa: N803
        """The weights of the samples, times those of their classes, of which the largest is 1."""
        kind = self.class_weight
        rule = "class_weight must be None, 'balanced' or weights by label"
        require(kind is None or isinstance(kind, Mapping) or (isinstance(kind, str) and kind == "balanced"), f"{rule}, got {shown(kind)}")
        unknown = set(kind) - set(y.tolist()) if isinstance(kind, Mapping) else set()
        require(not unknown, f"class_weight must be of labels in y, got {shown(sorted(map(str, unknown)))}")
        of_classes = compute_sample_weight(dict(kind) if isinstance(kind, Mapping) else kind, y)
        weights: NDArray[np.float64] = _check_sample_weight(sample_weight, X, dtype=np.float64) * of_classes
        valid = bool(np.isfinite(weights).all() and (weights >= 0).all())
        require(valid, "sample_weight and class_weight must be numbers from 0, got others")
        require(bool((weights > 0).any()), "sample_weight and class_weight must not all be zero, they are")
        return weights / weights.max()

    def _checked_parameters(self) -> tuple[Method, torch.device, int]:
        """The method, where to train, and the seed of everything random."""
        method = as_method(self.method)
        named = isinstance(self.network, str) or (callable(self.network) and not isinstance(self.network, nn.Module))
        require(named, f"network must be a name or a function (n_features, n_classes) that returns a module, got {shown(self.network)}")
        for name in ("epochs", "batch_size", "n_iter_no_change"):
            require_whole(name, getattr(self, name), least=1)
        for name in ("learning_rate", "weight_decay"):
            require_number(name, getattr(self, name), least=0)
        require_number("validation_fraction", self.validation_fraction, least=0, most=1)
        require(self.validation_fraction < 1, f"validation_fraction must be less than 1, got {shown(self.validation_fraction)}")
        require_flag("standardize", self.standardize)
        if not isinstance(self.verbose, (bool, np.bool_)):
            require_whole("verbose", self.verbose, least=0)
        if self.calibrate is not None:
            CALIBRATORS[self.calibrate]  # an unknown name is refused
        if self.validation_fraction == 0:
            without = "where validation_fraction is 0, so that nothing is held out"
            require(self.calibrate is None, f"calibrate must be None {without}, got {shown(self.calibrate)}")
            require(not method.auto_dials, f"{', '.join(method.auto_dials)} of {method.name} must be a number {without}, got 'auto'")
        try:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        except (TypeError, ValueError) as error:
            rule = "random_state must be None, a whole number from 0 or a RandomState"
            raise InvalidInput(f"{rule}, got {shown(self.random_state)}") from error
        return method, as_device(self.device), seed

    def _new_network(self, features: int, classes: int, seed: int) -> nn.Module:
        with random.global_seed(seed, "network"):
            if isinstance(self.network, str):
                return build_model(self.network, num_classes=classes, image_size=1, in_channels=features)
            network = self.network(features, classes)
        require(isinstance(network, nn.Module), f"network must return a torch.nn.Module, got {shown(network)}")
        return network
