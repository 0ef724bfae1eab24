"""The format of help texts."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Final

DEFAULT_COLUMNS: Final = 80


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Finds the width of the terminal without shutil: argparse makes a formatter for every flag."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    """Return the width of the terminal as `shutil.get_terminal_size` does."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or DEFAULT_COLUMNS  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return DEFAULT_COLUMNS
