"""Quantities as people write them."""

from __future__ import annotations

import argparse

import pytest

from weft.access.jobspec.fields import spec_of
from weft.cli import flags
from weft.errors import InputError
from weft.inputs.quantities import (
    MAX_ARRAY_TASKS,
    parse_array,
    parse_duration,
    parse_time_limit,
    parse_whole,
    parse_whole_or_none,
)


@pytest.mark.parametrize(("text", "found"), [("0", 0), (" 7 ", 7), ("-3", -3), ("007", 7), ("10", 10), ("-10", -10)])
def test_whole_numbers_within_bounds(text: str, found: int) -> None:
    assert parse_whole(text, -10, 10) == parse_whole_or_none(text, -10, 10) == found


@pytest.mark.parametrize("text", ["", "-", "--1", "+1", "1.0", "1e3", "x", "11", "-11", "²", "٣", "1_0", "9" * 5000])
def test_whole_numbers_that_are_none(text: str) -> None:
    assert parse_whole_or_none(text, -10, 10) is None
    with pytest.raises(InputError, match="is not a whole number from -10 to 10"):
        parse_whole(text, -10, 10)


def test_a_flag_names_its_bounds() -> None:
    assert flags.port("65535") == 65535
    with pytest.raises(argparse.ArgumentTypeError, match="expected a whole number from 1 to 65,535, found '65536'"):
        flags.port("65536")


@pytest.mark.parametrize(
    "text", [",".join(["0-99999"] * 1000), "1," * 2_000_000, f"0-{MAX_ARRAY_TASKS}", "0%" + "9" * 50]
)
def test_a_huge_array_is_refused_before_it_is_expanded(text: str) -> None:
    with pytest.raises(InputError, match="is not an array"):
        parse_array(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2", 2.0),
        ("0.5", 0.5),
        ("90s", 90.0),
        ("2m", 120.0),
        ("1h30m", 5400.0),
        ("1:30:00", 5400.0),
        ("2-12", 216000.0),
    ],
)
def test_a_bare_number_is_seconds_but_minutes_as_a_time_limit(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds
    bare = text.replace(".", "").isdecimal()
    assert parse_time_limit(text) == seconds * (60 if bare else 1)


def test_only_the_time_limit_of_a_job_has_minutes() -> None:
    given = {"time": "2", "grace": "2", "duration": "2", "signal": "USR1@2"}
    spec = spec_of(given)
    assert (spec.time_limit_s, spec.grace_s, spec.declared_s, spec.signal) == (120.0, 2.0, 2.0, "USR1@2")
    for read, unit in ((parse_duration, "seconds"), (parse_time_limit, "minutes")):
        with pytest.raises(InputError, match=rf"'x' is not a duration\n  such as 90 \({unit}\)"):
            read("x")
