import csv
import json

import pytest
from lightning_fabric.loggers.logger import Logger

import rankmixup as rm
from rankmixup.training import Watcher
from rankmixup.training.loggers import EpochLogger
from tests.runs.records import epoch_record, metrics
from tests.training.runs import EPOCHS, At, crash, logits, same, short


class Kept(Logger):
    """A logger of somebody else."""

    name, version = "kept", "0"

    def __init__(self):
        self.params, self.metrics, self.status = [], {}, []

    def log_hyperparams(self, params):
        self.params.append(params)

    def log_metrics(self, metrics, step=None):
        self.metrics[step] = metrics

    def finalize(self, status):
        self.status.append(status)


def rows(stored):
    with (stored.path / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def test_a_line_of_the_log_holds_what_the_contract_says(tmp_path):
    stored = rm.train(short("rankmixup-mrl"), runs=tmp_path)
    lines = [json.loads(line) for line in (stored.path / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == list(range(1, EPOCHS + 1))
    for line in lines:
        assert set(line) == {"epoch", "train", "val", "ranking", "lr", "seconds", "warnings"}
        assert {"accuracy", "nll", "ece", "oe", "ue"} <= set(line["val"])
        assert set(line["ranking"]) == {"tau", "violated_raw", "violated_mixed", "active_hinges"}
        assert set(line["train"]) == {"loss", "ce", "ranking"}
        assert line["warnings"] == []
    optimisation = stored.run.optimisation
    assert [line["lr"] for line in lines] == pytest.approx([optimisation.lr, optimisation.lr, optimisation.lr * optimisation.decay])
    assert [record.to_dict() for record in stored.history()] == lines


def test_the_table_has_the_figures_of_the_log(tmp_path):
    stored = rm.train(short("rankmixup-mndcg"), runs=tmp_path)
    assert len(rows(stored)) == EPOCHS
    for row, record in zip(rows(stored), stored.history(), strict=True):
        assert int(row["epoch"]) == record.epoch
        assert float(row["train/ranking"]) == record.train["ranking"]
        assert float(row["val/ue"]) == record.val["ue"]
        assert float(row["ranking/tau"]) == record.ranking["tau"]
        assert "ranking/active_hinges" not in row


def test_a_resumed_run_has_each_epoch_once_everywhere(tmp_path):
    kept = Kept()
    with pytest.raises(KeyboardInterrupt):
        rm.train(short(), runs=tmp_path, watcher=At(crash, epoch=2), loggers=[kept], checkpoint_every="4steps")
    stored = rm.train(short(), runs=tmp_path, loggers=[kept], checkpoint_every="4steps")
    assert [int(row["epoch"]) for row in rows(stored)] == [record.epoch for record in stored.history()] == [1, 2, 3]
    assert sorted(kept.metrics) == [1, 2, 3]
    assert kept.metrics[3]["val/ece"] == stored.history()[-1].val["ece"]
    assert kept.params == [stored.run.to_dict()] * 2
    assert kept.status == ["failed", "success"]


def test_loggers_and_watchers_change_nothing_that_is_computed(tmp_path):
    one = rm.train(short("rankmixup-mndcg"), runs=tmp_path / "one")
    other = rm.train(short("rankmixup-mndcg"), runs=tmp_path / "other", loggers=[Kept()], watcher=At())
    assert same(one, other)
    assert logits(one).shape == logits(other).shape


def test_a_warning_is_said_at_once_and_written_with_its_epoch(tmp_path):
    stored = rm.train(short(), runs=tmp_path)
    (stored.path / "log.jsonl").unlink()
    watcher = At()
    logger = EpochLogger(stored, watcher)
    logger.warn("before anything")
    logger.start(stored.run, 0, 4)
    for epoch, nll in enumerate([2.0, 0.5, 9.0, 9.0, 9.0], start=1):
        logger.epoch(epoch_record(epoch, val=metrics(nll=nll), ranking={}))
    logger.stop()
    assert len(watcher.warnings) == 2
    assert [len(record.warnings) for record in stored.history()] == [1, 0, 0, 1, 0]
    assert stored.history()[0].warnings == ("before anything",)
    assert stored.history()[3].warnings == (watcher.warnings[1],)
    assert watcher.warnings[1].startswith("validation NLL is 9")


def test_the_watcher_is_told_the_line_that_was_written(tmp_path):
    class Remember(Watcher):
        records: list[dict] = []  # noqa: RUF012

        def epoch(self, record):
            self.records.append(record)

    stored = rm.train(short(), runs=tmp_path, watcher=Remember())
    assert Remember.records == [record.to_dict() for record in stored.history()]
