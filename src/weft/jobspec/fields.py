"""What a job may say of itself, however it says it: flags, keys of a task file, or arguments in Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from weft.errors import InputError, UnknownName
from weft.inputs import quantities
from weft.jobspec.placeholders import fill_in
from weft.wire.messages import JobSpec, Variable

Given = str | list[str] | dict[str, str]
"""A value as it was written: text, a list, or names with values."""

MOST_GPUS: Final = 1_000_000
ALIASES: Final = {"required_gpus": "gpus", "min_gpu_memory": "memory", "label": "labels"}
FIELDS: Final = {
    "memory": "memory_mb", "mem": "ram_mb", "time": "time_limit_s", "grace": "grace_s", "duration": "declared_s",
    "requeue_exit": "requeue_exits",
}  # fmt: skip
"""The fields of the message, where they are not called as their keys."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OTHER_DEPENDENCY: Final = re.compile(r"(?:after|afterany|afternotok|aftercorr|afterburstbuffer|singleton)(?::|$)")
_PARAM: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


def canonical(key: str) -> str:
    """The key meant: with underscores, and as it is called here."""
    key = key.replace("-", "_")
    return ALIASES.get(key, key)


def spec_of(given: Mapping[str, Given]) -> JobSpec:
    """The job that these keys describe; a wrong one is an InputError that names it."""
    spec = JobSpec()
    for key, value in given.items():
        setter = SETTERS.get(canonical(key))
        if setter is None:
            raise UnknownName("key of a task", key, [*SETTERS, *ALIASES])
        try:
            setter(spec, value)
        except InputError as error:
            raise InputError(f"{key}: {error.what}", where=error.where, hint=error.hint) from None
    filled = fill_in(spec.command, {each.name: each.value for each in spec.params})
    del spec.command[:]
    spec.command.extend(filled)
    return spec


# ---- one setter for each key


def _text(value: Given) -> str:
    if not isinstance(value, str):
        raise InputError("expected one value, not several")
    return value


def _list(value: Given) -> list[str]:
    """Several values: a list, or text with commas."""
    if isinstance(value, dict):
        raise InputError("expected a list")
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def _without_nul(words: Iterable[str]) -> list[str]:
    found = list(words)
    for word in found:
        if "\0" in word:
            raise InputError("a NUL character cannot be given to a process")
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InputError(f"{word[:80]!r} is not UTF-8 text") from None
    return found


def _command(spec: JobSpec, value: Given) -> None:
    if isinstance(value, dict):
        raise InputError("expected a list of words, or one line for the shell")
    words = ["sh", "-c", value] if isinstance(value, str) else value
    if not words or not words[-1 if isinstance(value, str) else 0].strip():
        raise InputError("it is empty", hint="give a program and its arguments")
    spec.command.extend(_without_nul(words))


def _chdir(spec: JobSpec, value: Given) -> None:
    spec.chdir = _without_nul([_text(value)])[0]


def _env(spec: JobSpec, value: Given) -> None:
    spec.env.extend(_variables(value, _VARIABLE, "a variable"))


def _params(spec: JobSpec, value: Given) -> None:
    spec.params.extend(_variables(value, _PARAM, "a param"))


def _variables(value: Given, allowed: re.Pattern[str], what: str) -> list[Variable]:
    if isinstance(value, str):
        value = [value]
    pairs = value.items() if isinstance(value, dict) else [_pair(part) for part in value]
    found = []
    for name, text in pairs:
        if not allowed.fullmatch(name):
            raise InputError(f"{name[:80]!r} cannot be the name of {what}", hint="letters, digits and underscores")
        found.append(Variable(name=name, value=_without_nul([text])[0]))
    return found


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"{text[:80]!r} has no value", hint="write NAME=VALUE")
    return name, value


def _memory(spec: JobSpec, value: Given) -> None:
    spec.memory_mb.extend(quantities.megabytes(part) for part in _list(value))


def _after(spec: JobSpec, value: Given) -> None:
    """Jobs, or as Slurm has it: afterok:3:4."""
    for part in _list(value):
        if _OTHER_DEPENDENCY.match(part):
            raise InputError(f"{part[:80]!r} cannot be waited for", hint="only afterok:JOB is known, or JOB alone")
        ids = part.removeprefix("afterok:").split(":") if part.startswith("afterok:") else [part]
        if not all(ids):
            raise InputError("it is empty", hint="name a job: its id, its name, @ (the last) or @~1")
        spec.after.extend(_without_nul(ids))


def _array(spec: JobSpec, value: Given) -> None:
    text = _text(value)
    quantities.array(text)
    spec.array = text


def _whole(field: str, low: int, high: int) -> Callable[[JobSpec, Given], None]:
    def take(spec: JobSpec, value: Given) -> None:
        setattr(spec, field, quantities.whole(_text(value), low, high))

    return take


def _wholes(field: str, high: int, low: int = 0) -> Callable[[JobSpec, Given], None]:
    def take(spec: JobSpec, value: Given) -> None:
        getattr(spec, field).extend(quantities.whole(part, low, high) for part in _list(value))

    return take


def _said(field: str, read: Callable[[str], str | float]) -> Callable[[JobSpec, Given], None]:
    def take(spec: JobSpec, value: Given) -> None:
        setattr(spec, field, read(_text(value)))

    return take


def _line(text: str) -> str:
    if not text.isprintable() or len(text) > 1000:
        raise InputError("expected one line of printable text, at most 1,000 characters")
    return text


def _yes(field: str) -> Callable[[JobSpec, Given], None]:
    def take(spec: JobSpec, value: Given) -> None:
        text = _text(value).lower()
        if text not in ("true", "false", "yes", "no", "on", "off"):
            raise InputError(f"{text[:80]!r} is neither true nor false")
        setattr(spec, field, text in ("true", "yes", "on"))

    return take


def _labels(spec: JobSpec, value: Given) -> None:
    spec.labels.extend(_variables(value, _PARAM, "a label"))


def _node(text: str) -> str:
    if not _PARAM.fullmatch(text):
        raise InputError(f"{text[:80]!r} is not the name of a node", hint="weft nodes lists them")
    return text


SETTERS: Final[dict[str, Callable[[JobSpec, Given], None]]] = {
    "name": _said("name", quantities.name),
    "command": _command,
    "gpus": _whole("gpus", 0, MOST_GPUS),
    "memory": _memory,
    "cpus": _whole("cpus", 0, 1_000_000),
    "mem": _said("ram_mb", quantities.megabytes),
    "priority": _whole("priority", -1_000_000, 1_000_000),
    "time": _said("time_limit_s", quantities.duration_s),
    "grace": _said("grace_s", quantities.duration_s),
    "duration": _said("declared_s", quantities.duration_s),
    "retries": _whole("retries", 0, 1_000_000),
    "after": _after,
    "array": _array,
    "env": _env,
    "chdir": _chdir,
    "requeue_exit": _wholes("requeue_exits", 255, low=1),
    "max_jobs_per_gpu": _whole("max_jobs_per_gpu", 1, 1000),
    "gpu_ids": _wholes("gpu_ids", 4095),
    "gpu_pool": _wholes("gpu_pool", 4095),
    "gpu_model": _said("gpu_model", _line),
    "comment": _said("comment", _line),
    "group": _said("group", _line),
    "params": _params,
    "hold": _yes("hold"),
    "per_gpu": _yes("per_gpu"),
    "labels": _labels,
    "node": _said("node", _node),
}
