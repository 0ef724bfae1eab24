"""The description of a job leaves out what says nothing, and keeps a 0 that does."""

from __future__ import annotations

from typing import Any

import pytest

from weft.access.jobspec.description import describe, says_something
from weft.model import Job, Task


@pytest.mark.parametrize(
    ("value", "default", "said"),
    [(None, 1, False), ("", None, False), ([], None, False), ({}, None, False), (0, 0, False), (False, False, False),
     (0, None, True), (0, 1, True), (0.0, None, True), (False, True, True), (3, 3, True), ("0s", None, True)],
)  # fmt: skip
def test_a_0_says_something_unless_it_is_the_default(value: Any, default: Any, said: bool) -> None:
    assert says_something(value, default) is said


def test_a_job_of_which_nothing_was_said_has_only_its_gpus() -> None:
    assert describe(Job("1", task=Task()), lambda _, gpu: gpu) == {"gpus": 1}


def test_no_gpus_and_no_grace_are_shown() -> None:
    assert describe(Job("1", gpus=0, task=Task(grace_s=0.0)), lambda _, gpu: gpu) == {"gpus": 0, "grace": "0s"}
