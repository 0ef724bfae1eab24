"""The `weft` command. A command's module is imported only when it is called.

Exit codes: 0 done, 1 it failed, 2 a wrong flag, file or value, 3 no such job, 4 no scheduler answers, 5 not
permitted, 6 refused, 130 interrupted, 143 terminated. `run` and `wait` return what the job returned.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple, NoReturn

from weft.cli import sigterm
from weft.cli.text import visible_lines
from weft.errors import InputError, NotFound, NotPermitted, Refused, UnknownName, Unreachable, WeftError

INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
TERMINATED: Final = 143
EXITS: Final[dict[type[WeftError], int]] = {NotFound: 3, Unreachable: 4, NotPermitted: 5, Refused: 6}


class Command(NamedTuple):
    summary: str
    aliases: tuple[str, ...] = ()


COMMANDS: Final = {
    "submit": Command("put a job into the queue", ("add",)),
    "run": Command("submit a job, show what it writes, return its exit code"),
    "queue": Command("the jobs that run and wait", ("ps", "status")),
    "show": Command("all about a job"),
    "why": Command("why a job waits, who is ahead, when it may start", ("explain",)),
    "logs": Command("what a job wrote"),
    "attach": Command("look at a job in its session"),
    "wait": Command("wait for jobs to end; return their exit code"),
    "cancel": Command("stop jobs, or take them out of the queue", ("kill",)),
    "hold": Command("keep waiting jobs from starting"),
    "release": Command("let held jobs start"),
    "set": Command("change a job that waits"),
    "restart": Command("submit ended jobs again"),
    "history": Command("the jobs that have ended"),
    "clean": Command("forget ended jobs and their logs"),
    "gpus": Command("the GPUs and who is on them"),
    "nodes": Command("the machines"),
    "monitor": Command("workers, GPUs and jobs, again and again"),
    "pause": Command("start nothing new"),
    "resume": Command("start jobs again after pause"),
    "drain": Command("put nothing new on some GPUs"),
    "undrain": Command("use drained GPUs again"),
    "workspace": Command("run the configs of a folder, with tmux sessions", ("ws",)),
    "operate": Command("tell a running scheduler something: drain, policy, shutdown ..."),
    "server": Command("run the scheduler of a cluster"),
    "worker": Command("put this machine's GPUs at a cluster's disposal"),
    "cluster": Command("bring a cluster up in one command, and end it: on this machine, or over ssh"),
    "up": Command("start the scheduler, or change how it is set up"),
    "down": Command("end the scheduler; jobs go on"),
    "auth": Command("who may come to a scheduler of a cluster: certificates and tokens"),
    "config": Command("what is set for all commands, and what says so"),
    "doctor": Command("what there is and what is wrong; safe to paste"),
    "sim": Command("run a policy on a trace and print its figures", ("simulate",)),
    "compare": Command("run several policies on the same trace, side by side"),
    "figures": Command("reproduce the figures of a paper"),
    "metrics": Command("the figures of a job.csv"),
    "policies": Command("the policies and placements there are, with their options"),
    "trace": Command("show, convert and make traces"),
    "completion": Command("completion for bash, zsh or fish"),
    "version": Command("which Weft this is"),
}


class Parser(argparse.ArgumentParser):
    """Raises what is wrong instead of printing it, so that --json sees it too."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message, hint=f"see {self.prog} --help")


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None:  # a process of its own: clean up when told to go
        sigterm.listen()
    _mend_streams()
    try:
        code = _run(words)
        sys.stdout.flush()
    except sigterm.Terminated:
        return TERMINATED
    except KeyboardInterrupt:
        return _fail(words, "interrupted", "interrupted", "", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains as it ends
        return BROKEN_PIPE
    except InputError as error:
        message = f"{error.where}: {error.text}" if error.where else error.text
        return _fail(words, _code(error), message, error.hint, 2)
    except WeftError as error:
        message, _, hint = str(error).partition("\n")
        return _fail(words, _code(error), message, hint.strip(), EXITS.get(type(error), 1))
    except OSError as error:
        reason = error.strerror or str(error)
        return _fail(words, "system", f"{error.filename}: {reason}" if error.filename else reason, "", 1)
    return code


def _mend_streams() -> None:
    """What was closed before we began leads nowhere; it is opened in order, so that no other file takes its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _run(words: list[str]) -> int:
    if words and words[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    if not words:
        from weft.cli.connection import has_news

        if not has_news():
            print(_help())
            return 0
        words = ["queue"]
    if words[0] in ("-V", "--version"):
        words = ["version", *words[1:]]
    name = _find(words[0])
    module = importlib.import_module(f"weft.cli.commands.{name}")
    try:
        args, rest = parser_of(name).parse_known_args(words[1:])
    except SystemExit:  # --help
        return 0
    if rest:
        raise _unknown(name, rest[0])
    return int(module.run(args))


def parser_of(name: str) -> Parser:
    """Of a command."""
    module = importlib.import_module(f"weft.cli.commands.{name}")
    parser = Parser(
        prog=f"weft {name}",
        description=module.__doc__,
        epilog=module.EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.configure(parser)
    return parser


def options_of(parser: argparse.ArgumentParser) -> list[str]:
    """Its flags, as they are written."""
    return [option for action in parser._actions for option in action.option_strings]


def _unknown(name: str, word: str) -> InputError:
    if not word.startswith("-"):
        return InputError(f"unrecognized arguments: {word}", hint=f"see weft {name} --help")
    return UnknownName("option", word.partition("=")[0], options_of(parser_of(name)))


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
            "weft COMMAND --help explains one, with an example. weft alone shows the queue.",
            "Try: weft run -- echo hello, or weft compare demo",
        ]
    )


def _code(error: WeftError) -> str:
    """UnknownName: unknown-name."""
    name = type(error).__name__.removesuffix("Error")
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("-")


def _fail(words: list[str], code: str, message: str, hint: str, exit_code: int) -> int:
    text = f"weft: error: {message}" + (f"\n  {hint}" if hint else "")
    if "--json" in (words[: words.index("--")] if "--" in words else words):
        import json

        text = json.dumps({"error": {"code": code, "message": message, "hint": hint}})
    with suppress(OSError):  # nobody listens: the exit code still tells
        print(visible_lines(text), file=sys.stderr)
    return exit_code
