"""The `weft` command. It imports only the module of the subcommand that is called.

Exit codes: 0 success, 1 failure, 2 a wrong flag, file or value, 3 no such job, 4 no scheduler answers, 5 not
permitted, 6 refused, 130 interrupted, 143 terminated. `run` and `wait` return the job's exit code.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, NoReturn

from weft.cli import sigterm
from weft.cli.help_format import HelpFormatter
from weft.errors import SUGGESTED, InputError, UnknownName, WeftError, missing_package, report_of
from weft.text import escape_lines

INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
TERMINATED: Final = 143
GC_THRESHOLD: Final = 50_000
"""Containers that are made between two collections. A command that calls a scheduler makes 20,000 and no garbage."""


class Command(NamedTuple):
    summary: str
    aliases: tuple[str, ...] = ()


GROUPS: Final[dict[str, dict[str, Command]]] = {
    "jobs": {
        "submit": Command("put a job into the queue", ("add",)),
        "run": Command("submit a job, print its output, return its exit code"),
        "sweep": Command("submit a job for each combination of parameters, compare their metrics"),
        "cancel": Command("stop running jobs, remove waiting jobs from the queue", ("kill",)),
        "hold": Command("keep waiting jobs from starting"),
        "release": Command("let held jobs start"),
        "suspend": Command("stop the processes of running jobs; they keep their GPUs"),
        "resume": Command("let suspended jobs continue, or start jobs again after pause"),
        "set": Command("change a waiting job"),
        "edit": Command("change a waiting job in your editor"),
        "restart": Command("submit ended jobs again"),
        "wait": Command("wait for jobs to end, return their exit code"),
        "logs": Command("print the output of a job"),
        "exec": Command("run a command next to a running job, with its environment"),
        "attach": Command("open the tmux session of a job"),
        "clean": Command("delete ended jobs and their logs"),
        "group": Command("list groups of jobs, limit how many jobs of a group run"),
        "team": Command("let teams own GPUs, and lend them while they are idle"),
        "workspace": Command("run the configs of a folder, each in a tmux session", ("ws",)),
    },
    "look": {
        "queue": Command("list running and waiting jobs", ("ps", "status")),
        "show": Command("show the details of a job"),
        "why": Command("explain why a job waits, which jobs are ahead, when it may start", ("explain",)),
        "whatif": Command("compare the queue with the queue under another policy, more nodes or fewer jobs"),
        "history": Command("list ended jobs"),
        "gpus": Command("list GPUs and the jobs on them"),
        "nodes": Command("list machines"),
        "weaves": Command("list jobs that share GPUs by turns: stage times, waits, pace"),
        "monitor": Command("watch workers, GPUs and jobs"),
        "top": Command("a screen of GPUs, jobs, nodes and services, with keys to act", ("tui",)),
        "web": Command("serve a web page of GPUs, jobs, nodes and services, print a link to it"),
        "profile": Command("measure the stages of a job, list stored profiles"),
        "usage": Command("GPU-hours by user, group or GPU model, and how well jobs used them"),
        "notify": Command("list the targets of messages about jobs, send a test message"),
        "metrics": Command("compute the figures of a scheduler, a journal or a job.csv"),
    },
    "this machine": {
        "up": Command("start the scheduler, or change its settings"),
        "down": Command("end the scheduler; jobs continue"),
        "pause": Command("stop starting jobs"),
        "drain": Command("start no new jobs on some GPUs"),
        "undrain": Command("use drained GPUs again"),
        "image": Command("build, list and remove images for jobs in containers"),
        "config": Command("show the settings of all commands and where they come from"),
        "doctor": Command("report the setup and its problems; safe to paste"),
        "validate": Command("check files that Weft reads: tasks, services, clusters, traces, configs"),
        "examples": Command("write the examples and the scripts for workspaces into a folder"),
        "completion": Command("print shell completion for bash, zsh or fish"),
        "version": Command("print the version of Weft"),
    },
    "cluster": {
        "server": Command("run the scheduler of a cluster"),
        "worker": Command("run jobs of a cluster on the GPUs of this machine"),
        "node": Command("prepare, check, clean and reset machines that run jobs"),
        "cluster": Command("start and stop a whole cluster, on this machine or over ssh"),
        "pool": Command("let nodes come and go by demand: allocations of Slurm, Ray or Kubernetes"),
        "auth": Command("manage access to the scheduler of a cluster: certificates and tokens"),
        "operate": Command("control a running scheduler: drain, policy, shutdown ..."),
    },
    "services": {
        "serve": Command("run a command as a service until Ctrl-C, print its URL"),
        "deploy": Command("deploy an inference service, or change one"),
        "services": Command("list inference services: replicas, load, URL"),
        "scale": Command("set how many replicas a service has"),
        "rollback": Command("go back to the version of a service before"),
        "undeploy": Command("remove a service"),
        "call": Command("send one request to a service, print the answer"),
        "router": Command("pass HTTP requests to the replicas of services"),
        "load": Command("send requests at a given rate, measure how long the answers take"),
    },
    "simulate": {
        "sim": Command("simulate a policy on a trace and print its figures", ("simulate",)),
        "compare": Command("simulate several policies on the same trace, side by side"),
        "policies": Command("list policies and placements, with their options"),
        "trace": Command("show, convert and generate traces"),
        "scalers": Command("list autoscalers, with their options"),
        "study": Command("study placements and autoscalers on large workloads"),
        "figures": Command("reproduce the figures of a paper"),
        "testbed": Command("play traces through real schedulers and processes, with emulated GPUs"),
    },
}
"""The commands, in the groups in which the help lists them."""
COMMANDS: Final = {name: command for commands in GROUPS.values() for name, command in commands.items()}


class Parser(argparse.ArgumentParser):
    """A parser that raises usage errors instead of printing them, so that --json applies to them too."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message, hint=f"see {self.prog} --help")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            raise UnknownName("command", str(value), list(action.choices), more=f"see {self.prog} --help")
        super()._check_value(action, value)


def main(argv: Sequence[str] | None = None) -> int:
    if argv is not None:
        return _main(list(argv))
    sigterm.install_handler()  # the weft process itself: clean up after SIGTERM
    gc.set_threshold(GC_THRESHOLD)
    try:
        return _main(sys.argv[1:])
    finally:
        gc.freeze()  # the interpreter collects when it exits: a tenth of the CPU time of a short command


def _main(words: list[str]) -> int:
    _repair_streams()
    try:
        code = _run(words)
        sys.stdout.flush()
    except sigterm.Terminated:
        return TERMINATED
    except KeyboardInterrupt:
        return _report_error(words, "interrupted", "", "", INTERRUPTED)  # Ctrl-C is no error
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # otherwise the interpreter complains when it exits
        return BROKEN_PIPE
    except WeftError as error:
        return _report_error(words, *report_of(error))
    except ModuleNotFoundError as error:
        if (missing := missing_package(error)) is None:
            raise
        return _report_error(words, *report_of(missing))
    except OSError as error:
        reason = error.strerror or str(error)
        return _report_error(words, "system", f"{error.filename}: {reason}" if error.filename else reason, "", 1)
    return code


def _repair_streams() -> None:
    """Open closed standard streams on /dev/null, in order, so that no other file gets their numbers."""
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
        from weft.cli.connection import has_jobs_to_show

        if not has_jobs_to_show():
            print(_help())
            return 0
        words = ["queue"]
    if words[0] in ("-V", "--version"):
        words = ["version", *words[1:]]
    name = _find_command(words[0])
    module = importlib.import_module(f"weft.cli.commands.{name}")
    passed_on: list[str] = []
    if getattr(module, "PASSES_ON", False) and "--" in words:  # argparse keeps no flags for an action's positionals
        words, passed_on = words[: words.index("--")], words[words.index("--") + 1 :]
    try:
        args, rest = build_parser(name).parse_known_args(words[1:], argparse.Namespace(passed_on=passed_on))
    except SystemExit:  # --help
        return 0
    if rest:
        raise _unknown_argument(name, rest[0])
    return int(module.run(args))


def build_parser(name: str) -> Parser:
    """Return the parser of a command."""
    module = importlib.import_module(f"weft.cli.commands.{name}")
    parser = Parser(
        prog=f"weft {name}",
        description=module.__doc__,
        epilog=module.EXAMPLE,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    module.configure(parser)
    return parser


def list_flags(parser: argparse.ArgumentParser) -> list[str]:
    """Return the flags of a parser, as users write them."""
    return [option for action in parser._actions for option in action.option_strings]


def _unknown_argument(name: str, word: str) -> InputError:
    if not word.startswith("-"):
        return InputError(f"unrecognized arguments: {word}", hint=f"see weft {name} --help")
    known, more = list_flags(build_parser(name)), f"see weft {name} --help"
    return UnknownName("option", word.partition("=")[0], known, more=more, suggested=SUGGESTED)


def _find_command(word: str) -> str:
    for name, command in COMMANDS.items():
        if word == name or word in command.aliases:
            return name
    if word.startswith("-"):
        raise InputError(f"unknown option {word!r}", hint="a command comes first: weft COMMAND [...]; see weft --help")
    raise UnknownName("command", word, COMMANDS, more="see weft --help", suggested=SUGGESTED)


def _help() -> str:
    names = {name: ", ".join((name, *command.aliases)) for name, command in COMMANDS.items()}
    width = max(map(len, names.values()))
    lines = []
    for group, commands in GROUPS.items():
        lines += [f"{group}:", *(f"  {names[name]:<{width}}  {each.summary}" for name, each in commands.items()), ""]
    return "\n".join(
        [
            "usage: weft COMMAND [...]",
            "",
            "Schedule deep-learning jobs on GPUs, and simulate the same policies on traces.",
            "",
            *lines,
            "weft COMMAND --help explains a command, with examples. weft alone shows the queue.",
            "Try: weft run -- echo hello, or weft compare demo",
        ]
    )


def _report_error(words: list[str], code: str, message: str, hint: str, exit_code: int) -> int:
    text = f"weft: error: {message}" + (f"\n  {hint}" if hint else "")
    if not message:
        text, message = "", code
    if "--json" in (words[: words.index("--")] if "--" in words else words):
        import json

        text = json.dumps({"error": {"code": code, "message": message, "hint": hint}})
    with suppress(OSError):  # stderr is closed: the exit code remains
        print(escape_lines(text), end="\n" if text else "", file=sys.stderr)
    return exit_code
