"""Flags that several commands have."""

from __future__ import annotations

import argparse
from typing import Final

MOST: Final = 1000


def count(text: str) -> int:
    """From 1 to a thousand, of workers or seeds."""
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MOST):
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to {MOST:,}, found {text[:80]!r}")
    return int(text)


def add_workers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", metavar="N", type=count, help="processes at a time (default: one per CPU)")
