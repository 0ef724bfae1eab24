"""Readers of job fields: they convert user-written values to values of the wire's messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from weft.access.wire.convert import profile_of
from weft.access.wire.messages import StageProfile, Variable
from weft.errors import InputError, UnknownName
from weft.inputs import dependencies, quantities
from weft.inputs.mounts import RUNTIMES, parse_mount
from weft.inputs.notify_choice import parse_notify

Given = str | list[str] | dict[str, str]
"""A value as the user wrote it: text, a list, or names with values."""
Value = str | int | float | bool | list[str] | list[int] | list[Variable] | StageProfile
Reader = Callable[[Given], Value]

_VARIABLE: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_OTHER_DEPENDENCY: Final = r"(?:after|aftercorr|afterburstbuffer|singleton)(?::|$)"
_PARAM: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}"


def text(value: Given) -> str:
    if not isinstance(value, str):
        raise InputError("expected one value, not several")
    return value


def words(value: Given) -> list[str]:
    """Return several values: a list, or text with commas."""
    if isinstance(value, dict):
        raise InputError("expected a list")
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def _without_nul(found: Iterable[str]) -> list[str]:
    listed = list(found)
    for word in listed:
        if "\0" in word:
            raise InputError("a NUL character cannot be passed to a process")
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InputError(
                f"{word[:80]!r} is not UTF-8 text",
                hint="Weft stores commands as UTF-8 text: rename the file, or name it in a script that the job runs",
            ) from None
    return listed


def command(value: Given) -> list[str]:
    if isinstance(value, dict):
        raise InputError("expected a list of words, or one line for the shell")
    found = ["sh", "-c", value] if isinstance(value, str) else value
    if not found or not found[-1 if isinstance(value, str) else 0].strip():
        raise InputError("it is empty", hint="give a program and its arguments")
    return _without_nul(found)


def path(value: Given) -> str:
    return _without_nul([text(value)])[0]


def share(value: Given) -> str:
    request, limit = quantities.parse_share(text(value))
    return f"{request:g}/{limit:g}"


def env(value: Given) -> list[Variable]:
    return _variables(value, _VARIABLE, "a variable")


def params(value: Given) -> list[Variable]:
    return _variables(value, _PARAM, "a param")


def labels(value: Given) -> list[Variable]:
    return _variables(value, _PARAM, "a label")


def _variables(value: Given, allowed: str, what: str) -> list[Variable]:
    if isinstance(value, str):
        value = [value]
    pairs = value.items() if isinstance(value, dict) else [_pair(part) for part in value]
    found = []
    for name, each in pairs:
        if not re.fullmatch(allowed, name):
            raise InputError(f"{name[:80]!r} cannot be the name of {what}", hint="letters, digits and underscores")
        found.append(Variable(name=name, value=_without_nul([each])[0]))
    return found


def _pair(part: str) -> tuple[str, str]:
    name, equals, value = part.partition("=")
    if not equals:
        raise InputError(f"{part[:80]!r} has no value", hint="write NAME=VALUE")
    return name, value


def memory(value: Given) -> list[int]:
    return [quantities.parse_megabytes(part) for part in words(value)]


def after(value: Given) -> list[str]:
    """Read references to jobs, or dependencies as Slurm writes them: afterok:3:4, afterany:5, singleton."""
    found: list[str] = []
    for part in words(value):
        if part == dependencies.SINGLETON:
            found.append(part)
            continue
        condition, rest = dependencies.split(part)
        if re.match(_OTHER_DEPENDENCY, part):
            hint = "use afterok:JOB, afterany:JOB, afternotok:JOB, singleton, or JOB alone"
            raise InputError(f"the dependency {part[:80]!r} is not supported", hint=hint)
        ids = [part] if rest == part else rest.split(":")
        if not all(ids):
            raise InputError("it is empty", hint="name a job: its id, its name, @ (the last) or @~1")
        found += (dependencies.join(condition, each) for each in _without_nul(ids))
    return found


def moment(value: Given) -> float:
    """Read a point in time: the earliest start of a job, or its deadline."""
    from datetime import datetime

    from weft.inputs.times import parse_time

    return parse_time(text(value), datetime.now().astimezone()).timestamp()


def notify(value: Given) -> str:
    """Read the events that lead to a message, in the form that jobs keep."""
    return str(parse_notify(",".join(words(value))))


def array(value: Given) -> str:
    found = text(value)
    quantities.parse_array(found)
    return found


def whole(low: int, high: int) -> Reader:
    return lambda value: quantities.parse_whole(text(value), low, high)


def wholes(low: int, high: int) -> Reader:
    return lambda value: [quantities.parse_whole(part, low, high) for part in words(value)]


def one(read: Callable[[str], str | int | float]) -> Reader:
    return lambda value: read(text(value))


def line(value: str) -> str:
    if not value.isprintable() or len(value) > 1000:
        raise InputError("expected one line of printable text, at most 1,000 characters")
    return value


def yes(value: Given) -> bool:
    found = text(value).lower()
    if found not in ("true", "false", "yes", "no", "on", "off"):
        raise InputError(f"{found[:80]!r} is neither true nor false")
    return found in ("true", "yes", "on")


def compat(value: str) -> str:
    if value not in ("slurm", "batch", "none"):
        raise InputError(
            f"{value[:80]!r} is not known", hint="slurm: all of Slurm's variables; batch: those about the job"
        )
    return "" if value == "none" else value


def stages(value: str) -> str:
    if value not in ("auto", "none"):
        raise InputError(f"{value[:80]!r} is not known", hint="auto: by hooks in PyTorch; none: as the job names them")
    return "" if value == "none" else value


def image(value: str) -> str:
    """Read the name of an image: a name with a tag or digest, an address with a scheme, or a file."""
    if not value or not value.isprintable() or " " in value or value.startswith("-") or len(value) > 500:
        raise InputError(f"{value[:80]!r} is not the name of an image", hint="such as python:3.12, or ./image.sif")
    return value


def mounts(value: Given) -> list[str]:
    """Read what a container sees of its node: SOURCE, SOURCE:TARGET, or SOURCE:TARGET:ro."""
    found = _without_nul(words(value))
    for each in found:
        try:
            parse_mount(each)
        except ValueError as error:
            raise InputError(f"{each[:80]!r}: {error}", hint="write SOURCE:TARGET, or SOURCE:TARGET:ro") from None
    return found


def runtime(value: str) -> str:
    if value not in (*RUNTIMES, "auto"):
        raise UnknownName("container runtime", value[:80], RUNTIMES)
    return "" if value == "auto" else value


def sweep(value: str) -> str:
    if not re.fullmatch(_PARAM, value):
        hint = "letters, digits, dots, dashes and underscores, at most 100"
        raise InputError(f"{value[:80]!r} cannot be the name of a sweep", hint=hint)
    return value


def early_stop(value: str) -> str:
    from weft.access.sweeps.early_stop import parse_rule  # few jobs have a rule

    return str(parse_rule(value))


def node(value: str) -> str:
    if not re.fullmatch(_PARAM, value):
        raise InputError(f"{value[:80]!r} is not the name of a node", hint="weft nodes lists them")
    return value


_PROFILE_KEYS: Final = ("data", "gpu", "net", "iteration", "start", "memory", "model")
_PROFILE_HINT: Final = "give seconds per iteration, such as data=0.08,gpu=0.07,net=0.06"


def profile(value: Given) -> StageProfile:
    """Read stage times: `data=0.08,gpu=70ms,net=0.06`, or a mapping. Without `iteration`, it is their sum."""
    pairs = list(value.items()) if isinstance(value, dict) else [_pair(part) for part in words(value)]
    given = dict(pairs)
    if len(given) < len(pairs):
        twice = next(name for name in given if sum(other == name for other, _ in pairs) > 1)
        raise InputError(f"the profile has {twice[:80]!r} twice", hint=_PROFILE_HINT)
    for name in given:
        if name not in _PROFILE_KEYS:
            raise InputError(f"a profile has no {name[:80]!r}", hint=f"it has {', '.join(_PROFILE_KEYS)}")
    times = {name: _profile_seconds(name, given.get(name, "0")) for name in ("data", "gpu", "net", "start")}
    total = times["data"] + times["gpu"] + times["net"]
    iteration = _profile_seconds("iteration", given["iteration"]) if "iteration" in given else total
    memory = quantities.parse_megabytes(given["memory"]) if "memory" in given else 0
    found = StageProfile(
        model=line(given.get("model", "")), iteration_s=iteration, data_s=times["data"], gpu_s=times["gpu"],
        network_s=times["net"], start_s=times["start"], memory_mb=memory,
    )  # fmt: skip
    from weft.model.profiles import problem_of_profile  # few jobs have a profile

    if problem := problem_of_profile(profile_of(found)):
        raise InputError(problem, hint=_PROFILE_HINT)
    return found


def _profile_seconds(name: str, text: str) -> float:
    unit = 1e-3 if text.endswith("ms") else 1.0
    try:
        return float(text.removesuffix("ms").removesuffix("s")) * unit
    except ValueError:
        raise InputError(f"{name} is {text[:80]!r}, not seconds", hint=_PROFILE_HINT) from None
