"""Points in time as people write them."""

from __future__ import annotations

from datetime import datetime

import pytest

from weft.errors import InputError
from weft.inputs.quantities import normalize_signal, parse_signal
from weft.inputs.times import parse_time

NOW = datetime(2030, 5, 6, 14, 30, 15).astimezone()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("now", "2030-05-06T14:30:15"),
        ("now+90", "2030-05-06T14:31:45"),
        ("now+2h", "2030-05-06T16:30:15"),
        ("now+1-00:00:00", "2030-05-07T14:30:15"),
        ("20m", "2030-05-06T14:50:15"),
        ("1H30m", "2030-05-06T16:00:15"),
        ("16:00", "2030-05-06T16:00:00"),
        ("08:15:30", "2030-05-07T08:15:30"),
        ("noon", "2030-05-07T12:00:00"),
        ("Tomorrow", "2030-05-07T14:30:15"),
        ("tomorrow 08:00", "2030-05-07T08:00:00"),
        ("2031-01-31", "2031-01-31T00:00:00"),
        ("2031-01-31T08:00", "2031-01-31T08:00:00"),
        ("2031-01-31 08:00:01", "2031-01-31T08:00:01"),
    ],
)
def test_a_time_is_read(text: str, wanted: str) -> None:
    assert parse_time(text, NOW) == datetime.fromisoformat(wanted).astimezone()


def test_a_time_zone_is_respected() -> None:
    assert parse_time("2031-01-31T08:00+02:00", NOW) == datetime.fromisoformat("2031-01-31T06:00+00:00")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "25:00",
        "12:61",
        "tomorrow at dawn",
        "2031-02-30",
        "now+",
        "now+x",
        "16",
        "20",
        "20m later",
        "1.5",
        "0s",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_time(text, NOW)


@pytest.mark.parametrize(
    ("text", "standard"),
    [
        ("usr2@120", "USR2@120"),
        ("SIGUSR1", "USR1@60"),
        ("B:TERM@5", "B:TERM@5"),
        ("b:hup", "B:HUP@60"),
        ("R:10@5", "USR1@5"),
    ],
)
def test_a_signal_has_one_standard_form(text: str, standard: str) -> None:
    assert normalize_signal(text) == standard == normalize_signal(standard)
    assert parse_signal(text) == parse_signal(standard)


@pytest.mark.parametrize("text", ["", "KILL@5", "STOP", "USR3", "USR2@-1", "USR2@1h", "9@5", "99", "DFL", "_IGN"])
def test_what_is_no_signal_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a signal"):
        parse_signal(text)
