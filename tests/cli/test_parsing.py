import pytest

from rankmixup.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "METHOD must be given"),
        (["train", "ce", "--margin", "3"], "--margin"),
        (["train", "rankmixup-mrl", "--margin", "abc"], "could not convert string to float: 'abc'"),
        (["train", "rankmixup-mrl", "--space", "foo"], "'logit', 'probability'"),
        (["train", "ce", "--seed"], "--seed"),
        (["list", "foo"], "'methods'"),
        (["train", "ce", "--accelerator", "cuda", "--devices", "9999"], "accelerator 'cuda' with 9999 devices must exist"),
        (["train", "cpc", "--data", "synthetic", "--data.num-classes", "2"], "at least 3 classes"),
        (["train", "ce", "--data.imbalance", "1000"], "imbalance must leave the rarest class a sample"),
    ],
)
def test_whatever_is_wrong_comes_out_as_one_sentence_and_changes_nothing(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["train", "rankmixup-mrl", "--margin", "-1"], "margin must be at least 0, got -1.0"),
        (["train", "rankmixup-mrl", "--mixer.alpha", "-1"], "alpha must be positive, got -1.0"),
        (["train", "ce", "--seed", "-1"], "seed must be at least 0, got -1"),
    ],
)
def test_what_a_dataclass_refuses_is_said_in_its_own_words(arguments, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert capsys.readouterr().err == f"error: {sentence}\n"


def test_an_output_that_is_a_file_is_refused_before_anything_is_trained(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert main(["demo", "--output", "file"]) == 2
    assert "output must be a folder that can be written to, got file" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_help_still_prints_and_exits_with_0(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["list", "--help"])
    assert stop.value.code == 0
    assert "usage" in capsys.readouterr().out
