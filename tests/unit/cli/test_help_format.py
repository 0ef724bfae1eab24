"""The width of help texts."""

from __future__ import annotations

import shutil

import pytest

from weft.cli import help_format
from weft.cli.main import build_parser


@pytest.mark.parametrize("columns", ["", "0", "-5", "wide", "40", "132"])
def test_help_is_as_wide_as_argparse_makes_it(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert help_format._columns() == shutil.get_terminal_size().columns


def test_narrow_help_is_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    flags = build_parser("submit").format_help().partition("options:")[2].partition("examples:")[0]
    assert max(map(len, flags.splitlines())) <= 58
