"""Calling the `weft` command in this process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from weft.cli.main import main

Capture = pytest.CaptureFixture[str]


def fails(capsys: Capture, *words: str, code: int = 2) -> str:
    """Return its message on stderr; nothing is on stdout."""
    assert main(words) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    return err


def as_json(capsys: Capture, *words: str) -> dict[str, Any]:
    """The one object that it prints."""
    assert main([*words, "--json"]) == 0, capsys.readouterr().err
    out, _ = capsys.readouterr()
    assert out.count("\n") == 1
    found = json.loads(out)
    assert found["schema"] == 1
    return dict(found)
