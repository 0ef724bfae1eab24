"""The `weft` command. A command's module is imported only when it is called.

Exit codes: 0 done, 1 it failed, 2 a wrong flag, file or value, 130 interrupted, 143 terminated.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple, NoReturn

from weft.errors import InputError, UnknownName, WeftError

INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
TERMINATED: Final = 143


class Command(NamedTuple):
    summary: str
    aliases: tuple[str, ...] = ()


COMMANDS: Final = {
    "sim": Command("run a policy on a trace and print its figures", ("simulate",)),
    "compare": Command("run several policies on the same trace, side by side"),
    "figures": Command("reproduce the figures of a paper"),
    "metrics": Command("the figures of a job.csv"),
    "policies": Command("the policies and placements there are, with their options"),
    "trace": Command("make traces"),
    "version": Command("which Weft this is"),
}


class Terminated(KeyboardInterrupt):
    """SIGTERM. No SystemExit: a policy's own sys.exit is an error of the policy."""


class Parser(argparse.ArgumentParser):
    """Raises what is wrong instead of printing it, so that --json sees it too."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message, hint=f"see {self.prog} --help")


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None:  # a process of its own: clean up when told to go
        signal.signal(signal.SIGTERM, _terminate)
    _mend_streams()
    try:
        code = _run(words)
        sys.stdout.flush()
    except Terminated:
        return TERMINATED
    except KeyboardInterrupt:
        return _fail(words, "interrupted", "interrupted", "", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains as it ends
        return BROKEN_PIPE
    except InputError as error:
        message = f"{error.where}: {error.what}" if error.where else error.what
        return _fail(words, _code(error), message, error.hint, 2)
    except WeftError as error:
        message, _, hint = str(error).partition("\n")
        return _fail(words, _code(error), message, hint.strip(), 1)
    except OSError as error:
        reason = error.strerror or str(error)
        return _fail(words, "system", f"{error.filename}: {reason}" if error.filename else reason, "", 1)
    return code


def _terminate(*_: object) -> NoReturn:
    raise Terminated


def _mend_streams() -> None:
    """What was closed before we began leads nowhere; it is opened in order, so that no other file takes its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    if words[0] in ("-V", "--version"):
        words = ["version", *words[1:]]
    name = _find(words[0])
    module = importlib.import_module(f"weft.ui.commands.{name}")
    parser = Parser(
        prog=f"weft {name}",
        description=module.__doc__,
        epilog=module.EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.configure(parser)
    try:
        args = parser.parse_args(words[1:])
    except SystemExit:  # --help
        return 0
    return int(module.run(args))


def _find(word: str) -> str:
    for name, command in COMMANDS.items():
        if word == name or word in command.aliases:
            return name
    if word.startswith("-"):
        raise InputError(f"unknown option {word!r}", hint="a command comes first: weft COMMAND [...]; see weft --help")
    raise UnknownName("command", word, COMMANDS)


def _help() -> str:
    names = {name: ", ".join((name, *command.aliases)) for name, command in COMMANDS.items()}
    width = max(map(len, names.values()))
    lines = [f"  {names[name]:<{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: weft COMMAND [...]",
            "",
            "Schedules deep-learning jobs on GPUs, and simulates the same policies on traces.",
            "",
            "commands:",
            *lines,
            "",
            "weft COMMAND --help explains one, with an example. Try: weft compare demo",
        ]
    )


def _code(error: WeftError) -> str:
    """UnknownName: unknown-name."""
    name = type(error).__name__.removesuffix("Error")
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("-")


def _fail(words: list[str], code: str, message: str, hint: str, exit_code: int) -> int:
    text = f"weft: error: {message}" + (f"\n  {hint}" if hint else "")
    if "--json" in words:
        import json

        text = json.dumps({"error": {"code": code, "message": message, "hint": hint}})
    with suppress(OSError):  # nobody listens: the exit code still tells
        print(text, file=sys.stderr)
    return exit_code
