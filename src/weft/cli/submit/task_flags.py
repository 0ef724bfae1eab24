"""The flags of `submit` and `run` that describe a job, and their keys in a task."""

from __future__ import annotations

import argparse
import os
from collections.abc import Container
from typing import Final

from weft.access.jobspec.fields import BY_KEY, FIELDS, Field, Flag
from weft.access.jobspec.readers import Given

EXTRA_FLAGS: Final[dict[str, tuple[str, Flag]]] = {
    "after": (
        "dependency",
        Flag(("-d", "--dependency"), "like --after, in Slurm's syntax", "afterany:ID", repeated=True),
    ),
    "command": ("wrap", Flag(("--wrap",), "run this line with sh, as a batch script", "LINE")),
    "env": ("env_all", Flag(("--env-all",), "pass on all variables of this shell, including secrets")),
    "requeue": ("no_requeue", Flag(("--no-requeue",), "do not run it again after it was stopped or lost")),
    "params": ("key", Flag(("--key",), "submit once: a second submission with the same KEY prints the same id", "KEY")),
    "per_gpu": (
        "snapshot",
        Flag(("--snapshot",), "run the job in a copy of the files that git tracks here, as they are now"),
    ),
}
"""Flags that are not fields of a job, by the field after whose flag the help lists them: name and flag."""


def add_arguments(
    parser: argparse.ArgumentParser, *, hidden: Container[str] = (), without: Container[str] = ()
) -> None:
    """Add the flags of a job. The help leaves out the fields that are `hidden`. `without` names extra flags to omit."""
    for field in FIELDS:
        if field.flag is not None:
            _add(parser, field.key, field.flag, hidden=field.key in hidden)
        if field.key in EXTRA_FLAGS and EXTRA_FLAGS[field.key][0] not in without:
            _add(parser, *EXTRA_FLAGS[field.key])


def _add(parser: argparse.ArgumentParser, key: str, flag: Flag, *, hidden: bool = False) -> None:
    text = argparse.SUPPRESS if hidden else flag.help.replace("%", "%%")
    if not flag.metavar:
        parser.add_argument(*flag.names, dest=key, action="store_true", help=text)
    else:
        action = "append" if flag.repeated else "store"
        parser.add_argument(*flag.names, dest=key, metavar=flag.metavar, action=action, help=text)


def given_flags(args: argparse.Namespace) -> dict[str, Given]:
    """Return the values of the flags by key of a task."""
    from weft.access.jobspec.environment import resolve_variables
    from weft.access.jobspec.sbatch import gres

    given = {field.key: value for field in FIELDS if (value := _flag_value(field, args)) is not None}
    if args.gpus is not None and ":" in args.gpus:
        given |= gres(args.gpus)
    after = [*(args.after or ()), *(args.dependency or ())]
    if after:
        given["after"] = [part.strip() for text in after for part in text.split(",")]
    if args.no_requeue:
        given["requeue"] = "false"
    if args.env:
        given["env"] = resolve_variables(args.env, os.environ)
    return given


def _flag_value(field: Field, args: argparse.Namespace) -> Given | None:
    if field.flag is None:
        return None
    value: Given | bool | None = getattr(args, field.key)
    if isinstance(value, bool):
        return "true" if value else None
    return value


def flag_name(key: str) -> str:
    """Return the long flag of a key: --requeue-exit for requeue_exit."""
    field = BY_KEY.get(key)
    if field is None or field.flag is None:
        return "--" + key.replace("_", "-")
    return next(name for name in field.flag.names if name.startswith("--"))


def strip_dashes(words: list[str]) -> list[str]:
    """Return the command without a leading --."""
    return words[1:] if words[:1] == ["--"] else words
