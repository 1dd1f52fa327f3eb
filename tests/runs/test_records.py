import copy
import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmixup.data import View
from rankmixup.errors import InvalidInput
from rankmixup.runs import Run
from rankmixup.runs.records import Environment, EpochRecord, MixedPredictions, RunResult, Selected, Splits
from tests.oracles import unchecked
from tests.runs.records import epoch_record, metrics, run_result, split_manifest

ENVIRONMENT = {"python": "3.11", "platform": "Linux", "packages": {"torch": "2.6"}, "devices": ["a machine"], "threads": 2}
GOOD = {RunResult: run_result(Run("ce")), EpochRecord: epoch_record(), Splits: split_manifest(), Environment: ENVIRONMENT}


def test_what_is_read():
    result = RunResult.from_dict(GOOD[RunResult], "it")
    assert (result.id, result.selection, result.seconds) == (Run("ce").id, Selected("accuracy", 1), 36.0)
    assert result.metrics["test"] == metrics()
    assert result.temperature["nll"].value == 1.5
    assert EpochRecord.from_dict(epoch_record(3), "it").to_dict() == epoch_record(3)
    splits = Splits.from_dict(split_manifest(), "it")
    assert (splits.class_names, splits.view.mean, splits.parts["val"].size) == (("a", "b"), (0.5,), 2)
    assert Environment.from_dict({}, "it") == Environment("unknown", "unknown", {}, ("unknown",))


@pytest.mark.parametrize("kind", list(GOOD))
def test_unknown_keys_are_left_alone(kind):
    assert kind.from_dict({**GOOD[kind], "of_tomorrow": [1]}, "it") is not None


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (RunResult, {"id": 5}, "it: id must be a string, got 5"),
        (RunResult, {"seconds": "36"}, "it: seconds must be a number, got '36'"),
        (RunResult, {"seconds": 10**400}, "it: seconds must be a number, got 1000"),
        (RunResult, {"selection": {"rule": "accuracy"}}, "it: selection: epoch must be an integer of at least 1, it is missing"),
        (RunResult, {"selection": {"rule": "accuracy", "epoch": True}}, "epoch must be an integer of at least 1, got True"),
        (RunResult, {"metrics": {"val": metrics()}}, "it: metrics: test must be a JSON object, it is missing"),
        (RunResult, {"metrics": {"val": metrics(), "test": metrics(ece=None)}}, "it: metrics: test: ece must be a number, got None"),
        (RunResult, {"metrics": {"val": metrics(ks="low"), "test": metrics()}}, "val: 'ks' must be a number or null, got 'low'"),
        (EpochRecord, {"epoch": 0}, "it: epoch must be an integer of at least 1, got 0"),
        (EpochRecord, {"val": []}, r"it: val must be a JSON object, got \[\]"),
        (EpochRecord, {"warnings": [1]}, r"it: warnings\[0\] must be a string, got 1"),
        (Splits, {"class_names": "ab"}, "it: class_names must be a list, got 'ab'"),
        (Splits, {"view": {**split_manifest()["view"], "std": []}}, "it: view: mean and std must be lists of as many numbers"),
        (Splits, {"view": {**split_manifest()["view"], "flip": 1}}, "it: view: flip must be true or false, got 1"),
        (Environment, {"packages": {"torch": 2}}, "it: packages: 'torch' must be a string, got 2"),
        (Environment, {"devices": "one"}, "it: devices must be a list, got 'one'"),
    ],
)
def test_what_is_wrong_is_named(kind, changes, message):
    with pytest.raises(InvalidInput, match=message):
        kind.from_dict({**GOOD[kind], **changes}, "it")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda each: st.lists(each) | st.dictionaries(st.text(), each)
)


def places(data, path=()):
    yield path
    for key in data if isinstance(data, dict) else ():
        yield from places(data[key], (*path, key))


@pytest.mark.parametrize("kind", list(GOOD))
@given(data=st.data())
def test_no_value_anywhere_is_more_than_one_sentence(kind, data):
    *above, last = data.draw(st.sampled_from([path for path in places(GOOD[kind]) if path]))
    changed = copy.deepcopy(GOOD[kind])
    inner = changed
    for key in above:
        inner = inner[key]
    inner[last] = data.draw(JSON)
    with unchecked():
        try:
            kind.from_dict(changed, "it")
        except InvalidInput as error:
            assert str(error).startswith("it: ")  # noqa: PT017


@pytest.mark.parametrize(
    ("logits", "lam", "message"),
    [
        (np.zeros((2, 3)), np.zeros(3), r"got float64 \[2, 3\] and float64 \[3\]"),
        (np.zeros((2, 3), dtype=int), np.zeros(2), "must be of floating point"),
        (np.zeros(2), np.zeros(2), "must be of floating point and as many"),
        (np.full((2, 3), np.nan), np.zeros(2), "logits must be finite"),
        (np.zeros((2, 3)), np.full(2, np.nan), r"lam must lie in \[0, 1\]"),
        (np.zeros((2, 3)), np.full(2, 1.5), r"lam must lie in \[0, 1\]"),
    ],
)
def test_mixed_predictions(logits, lam, message):
    with pytest.raises(InvalidInput, match=message):
        MixedPredictions.from_arrays({"logits": logits, "lam": lam}, "it")
    assert len(MixedPredictions.from_arrays({"logits": np.zeros((0, 3)), "lam": np.zeros(0)}, "it").lam) == 0


def test_the_view_of_floats_comes_back_and_older_files_have_none():
    view = View(1, (0.5, 7.25), (1.5, 0.1), values="floats", shape=(2,))
    described = json.loads(json.dumps(split_manifest(view=dataclasses.asdict(view))))
    assert Splits.from_dict(described, "it").view == view
    older = Splits.from_dict(split_manifest(), "it").view
    assert (older.values, older.input_shape) == ("bytes", (1, 8, 8))
    for changes, message in (
        ({"values": "words"}, "it: view: values must be bytes or floats, got 'words'"),
        ({"shape": [3]}, "it: view: shape must begin with the number of channels"),
        ({"shape": [2, 0]}, "it: view: shape must begin with the number of channels"),
    ):
        with pytest.raises(InvalidInput, match=message):
            Splits.from_dict(split_manifest(view={**described["view"], **changes}), "it")
