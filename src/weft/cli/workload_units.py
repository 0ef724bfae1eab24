"""Parsers of flag values that describe services: latencies, and numbers above 0."""

from __future__ import annotations

import argparse

from weft.errors import InputError


def positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1e9:
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {text[:80]!r}")
    return value


def latency(text: str) -> float:
    """Parse seconds, or a duration with its unit: 250ms, 10s, 1m."""
    from weft.inputs.quantities import parse_duration

    if text.endswith("ms"):
        return positive(text[:-2]) / 1000
    if text[-1:].isalpha():
        try:
            return parse_duration(text)
        except InputError as error:
            raise argparse.ArgumentTypeError(error.what) from None
    return positive(text)
