"""Conversion of Python values to text, so that `access.jobspec.fields` reads the same from flags, files and Python."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from weft.access.jobspec.fields import canonical
from weft.access.jobspec.readers import Given
from weft.errors import InputError


def as_text(job: Mapping[str, Any]) -> dict[str, Given]:
    """Return the keys of a job with their values as text. A value of None means that the key is not given."""
    return {key: _given(key, value) for key, value in job.items() if value is not None}


def _given(key: str, value: Any) -> Given:
    if type(value) is str:
        return value
    if key == "command" and isinstance(value, int | float):
        raise InputError("a number is not a command", hint="give a list of words, or one line for the shell", key=key)
    try:
        if isinstance(value, Mapping):
            return {str(name): _text(each) for name, each in value.items()}
        if isinstance(value, Iterable) and not isinstance(value, str | bytes | os.PathLike):
            words = [_text(each) for each in value]
            return ",".join(words) if canonical(key) == "array" else words
        return _text(value)
    except InputError as error:
        raise error.at(key=key) from None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.6f}s"
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if hasattr(value, "__index__") or isinstance(value, float) or hasattr(value, "__float__"):
        return str(value)
    if isinstance(found := getattr(value, "id", None), str):  # a job
        return found
    raise InputError(f"a {type(value).__name__} is not accepted", hint="give text, a number, a list or a mapping")
