"""Importing the model: every name resolves, and a small command does not pay for the facts."""

from __future__ import annotations

import subprocess
import sys

import pytest

import weft.model
from weft.model import FACTS


def test_every_fact_is_found_in_the_package() -> None:
    assert all(getattr(weft.model, fact.__name__) is fact for fact in FACTS)
    assert len(set(FACTS)) == len(FACTS) > 25


def test_a_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(AttributeError, match=r"'weft\.model' has no attribute 'Nope'"):
        _ = weft.model.Nope  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "unneeded"),
    [("Slots", {"dataclasses", "weft.model.job", "weft.model.events"}), ("Job", {"weft.model.events"})],
)
def test_a_name_loads_what_it_needs_alone(name: str, unneeded: set[str]) -> None:
    code = f"import sys; from weft.model import {name}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not unneeded.intersection(done.stdout.split())
