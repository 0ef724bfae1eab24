"""Batch scripts: their `#SBATCH` options, so that existing Slurm scripts work.

Known options become keys of the job. Others are reported and ignored.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple

from weft.access.jobspec.readers import Given
from weft.errors import InputError
from weft.inputs.quantities import parse_megabytes, parse_whole_or_none

MAX_SCRIPT_BYTES: Final = 1 << 20
MARK: Final = r"#SBATCH(?:\s+(.*))?"
SHORT: Final = {
    "J": "job-name", "G": "gpus", "t": "time", "a": "array", "d": "dependency", "D": "chdir", "c": "cpus-per-task",
    "H": "hold", "N": "nodes", "n": "ntasks", "p": "partition", "o": "output", "e": "error", "A": "account",
    "q": "qos", "w": "nodelist", "x": "exclude", "C": "constraint",
}  # fmt: skip
OF_SLURM: Final = (
    r"(?<![\w./$=-])(srun|scontrol|sbatch|squeue|sacct|scancel|sbcast)(?=\s|$)"
    r"|\$(?:(SLURM_\w+)|\{(SLURM_\w+)(?=[}%#/^,]))"
)
"""A command of Slurm, or a variable without a default."""
COMMENT: Final = r"(?:^|\s)#.*"
BARE: Final = frozenset(
    {"hold", "requeue", "no-requeue", "exclusive", "overcommit", "oversubscribe", "verbose", "quiet"}
)
"""Options without a value."""
MAIL: Final = frozenset({"mail-type", "mail-user"})
IMPLIED: Final = {"nodes": "1", "ntasks": "1", "ntasks-per-node": "1"}
"""Options that have no effect with this value, because Weft always applies it."""


class Script(NamedTuple):
    """A batch script: the command that runs it, and its keys, each with its file and line."""

    path: str
    text: str
    command: list[str]
    given: dict[str, Given]
    where: dict[str, str]
    left_out: list[str]
    mail: list[str]
    """Options about messages, which are left out as well."""


def read_script(command: Sequence[str]) -> Script | None:
    """Return the script that a command runs, or None if it has no directives."""
    text = _read_text(command[0]) if command else ""
    options = list(_options(command[0], text)) if text else []
    if not options:
        return None
    path = os.path.abspath(command[0])
    runner = [] if os.access(path, os.X_OK) else shlex.split(text.partition("\n")[0][2:])
    script = Script(path, text, [*runner, path, *command[1:]], {"compat": "batch"}, {"compat": command[0]}, [], [])
    for where, name, value in options:
        _add_option(script, where, name, value)
    _divide_by_gpus(script)
    return script


def unmet_needs(script: Script, has: Collection[str], could_have: Collection[str]) -> Iterator[str]:
    """Yield what the script names of Slurm and its job does not have, each with the first line.

    `has` are Slurm's variables of the job, `could_have` those with `--compat slurm`.
    """
    seen = {*has, *re.findall(r"(SLURM_\w+)=", script.text)}
    for number, line in enumerate(script.text.splitlines(), start=1):
        for match in re.finditer(OF_SLURM, re.sub(COMMENT, "", line)):
            name = match[1] or match[2] or match[3]
            if name in seen:
                continue
            seen.add(name)
            if match[1]:
                remedy = (
                    "leave it out: Weft starts the script on each node"
                    if name == "srun"
                    else "Weft has no such command"
                )
                yield f"{script.path}:{number}: {name} is a command of Slurm; {remedy}"
            else:
                remedy = "--compat slurm sets it" if name in could_have else "Weft does not set it"
                yield f"{script.path}:{number}: ${name} is empty; {remedy}"


def _read_text(path: str) -> str:
    """Return the text of a script, a file that begins with #!; empty for any other file."""
    try:
        if not os.path.isfile(path):
            return ""
        with open(path, "rb") as file:
            body = file.read(MAX_SCRIPT_BYTES) if file.read(2) == b"#!" else b""
    except OSError:
        return ""
    return f"#!{body.decode(errors='replace')}" if body else ""


def _options(path: str, text: str) -> Iterator[tuple[str, str, str]]:
    """Yield file and line, long name and value of each option before the first command."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            return
        match = re.fullmatch(MARK, line.rstrip())
        if match:
            where = f"{path}:{number}"
            try:
                words = shlex.split(match[1] or "", comments=True)
            except ValueError as error:
                raise InputError(f"#SBATCH: {error}", where=where, hint="close the quotes") from None
            yield from ((where, *pair) for pair in _pairs(where, words))


def _pairs(where: str, words: list[str]) -> Iterator[tuple[str, str]]:
    left = iter(words)
    for word in left:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        elif word.startswith("-") and len(word) > 1:
            name, value = SHORT.get(word[1], word[1]), word[2:].removeprefix("=")
            equals = value
        else:
            raise InputError(f"#SBATCH: {word[:80]!r} is not an option", where=where, hint="such as --time=2:00:00")
        if not equals and name not in BARE:
            value = next(left, "")
        yield name, value


def _add_option(script: Script, where: str, name: str, value: str) -> None:
    reader = READERS.get(name)
    if reader is None:
        if IMPLIED.get(name) != value:
            (script.mail if name in MAIL else script.left_out).append(f"{where}: --{name}")
        return
    try:
        found = reader(value)
    except InputError as error:
        raise InputError(f"--{name}: {error.what}", where=where, hint=error.hint) from None
    for key, each in found.items():
        script.given[key], script.where[key] = each, where


def _divide_by_gpus(script: Script) -> None:
    """Divide CPUs and memory of the whole job by its GPUs: Weft counts them per GPU."""
    text = script.given.get("gpus", "1")
    gpus = int(text) if isinstance(text, str) and text.isdecimal() else 1
    for key in ("cpus", "mem"):
        whole = script.given.pop(f"all_{key}", None)
        if isinstance(whole, str) and key not in script.given:
            script.given[key] = str(-(-int(whole) // max(gpus, 1)))
            script.where[key] = script.where[f"all_{key}"]


def gres(text: str) -> dict[str, Given]:
    """Parse GPUs as Slurm writes them: 2, gpu:2, gpu:RTX3090:2; for --gpus also RTX3090:2."""
    *model, count = text.removeprefix("gpu:").split(":")
    if text == "gpu":
        model, count = [], "1"
    return {"gpus": count, "gpu_model": ":".join(model)} if model else {"gpus": count}


def _whole(value: str) -> str:
    if parse_whole_or_none(value, 0, 999_999_999) is None:
        raise InputError(f"{value[:80]!r} is not a whole number")
    return value


def _nice(value: str) -> dict[str, Given]:
    """Convert a nice value to a priority: the larger the nice value, the lower the priority."""
    number = value or "100"
    return {"priority": f"-{_whole(number)}" if not number.startswith("-") else _whole(number[1:])}


READERS: Final[dict[str, Callable[[str], dict[str, Given]]]] = {
    **{name: lambda value, key=key: {key: value} for name, key in {  # type: ignore[misc]
        "job-name": "name", "partition": "group", "time": "time", "array": "array", "chdir": "chdir",
        "output": "output", "error": "error", "signal": "signal",
        "comment": "comment", "priority": "priority", "cpus-per-gpu": "cpus", "mem-per-gpu": "mem"}.items()},
    "gpus": gres,
    "gpus-per-node": gres,
    "gpus-per-task": gres,
    "gres": gres,
    "dependency": lambda value: {"after": [part.strip() for part in value.split(",")]},
    "cpus-per-task": lambda value: {"all_cpus": _whole(value)},
    "mem": lambda value: {"all_mem": str(parse_megabytes(value))},
    "nice": _nice,
    "hold": lambda _: {"hold": "true"},
    "requeue": lambda _: {"requeue": "true"},
    "no-requeue": lambda _: {"requeue": "false"},
}  # fmt: skip
