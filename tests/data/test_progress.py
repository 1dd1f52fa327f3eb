from rankmixup.data.progress import progress


def test_titles_are_shown_as_they_are(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    with progress("reading a[/b]\n", 2) as advance:
        advance(1)
    assert "reading a[/b]\\n" in capsys.readouterr().err
