"""Completion for shells, by shtab from the parsers of the commands. Job ids are asked for as they are needed."""

from __future__ import annotations

import argparse
import importlib
from typing import Any, Final

import shtab

from weft.cli.main import COMMANDS, Parser

SHELLS: Final = ("bash", "zsh", "fish")
QUEUE: Final = "weft queue -o id --no-header --color never 2>/dev/null"
JOBS: Final[dict[str, Any]] = {**shtab.cmd(QUEUE), "zsh": "_weft_jobs", "fish": f"({QUEUE} | string trim)"}
PREAMBLE: Final = {
    # in zsh a command as a list of words is run as the script is read, once for each flag, and never again
    "zsh": f"""_weft_jobs() {{
  local -a jobs
  jobs=(${{(f)"$({QUEUE})"}})
  compadd -- ${{jobs// /}}
}}
"""
}
BY_METAVAR: Final[dict[str, Any]] = {"JOB": JOBS, "FILE": shtab.FILE, "DIR": shtab.DIRECTORY}
"""What a value is, said by the name that the help text gives it."""


def script(shell: str) -> str:
    """Return what the shell is to read."""
    text = str(shtab.complete(_whole_parser(), shell, preamble=PREAMBLE.get(shell, "")))
    # for zsh, shtab completes only the first of several values: `*:` means all of them
    return text.replace('"(*)::', '"*:').replace('"(*):', '"*:') if shell == "zsh" else text


def _whole_parser() -> Parser:
    """Return one parser of all commands. The command line makes only the one that it needs."""
    whole = Parser(prog="weft", allow_abbrev=False)
    commands = whole.add_subparsers()
    for name, command in COMMANDS.items():
        parser = commands.add_parser(name, aliases=command.aliases, help=command.summary, description=command.summary)
        importlib.import_module(f"weft.cli.commands.{name}").configure(parser)
        _mark_values(parser)
    return whole


def _mark_values(parser: argparse.ArgumentParser) -> None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                _mark_values(each)
        elif isinstance(action.metavar, str) and action.metavar in BY_METAVAR:
            action.complete = BY_METAVAR[action.metavar]  # type: ignore[attr-defined]
        elif action.nargs == argparse.REMAINDER:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
