"""The page about journals names all that can be in one."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from weft.history.journal.codec import FORMAT
from weft.model import FACTS, Exited, Job

PAGE = (Path(__file__).parents[2] / "docs/reference/journal.md").read_text()


@pytest.mark.parametrize("fact", [fact.__name__ for fact in FACTS])
def test_every_fact_is_there(fact: str) -> None:
    assert f"`{fact}`" in PAGE


@pytest.mark.parametrize("name", [field.name for noun in (Exited, Job) for field in fields(noun)])
def test_every_field_of_a_job_and_of_an_exit_is_there(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_the_format_is_the_present_one() -> None:
    assert f"## Format {FORMAT}\n" in PAGE
