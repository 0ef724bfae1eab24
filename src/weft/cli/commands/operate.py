"""Control a running scheduler. The journal records each command and the user who gave it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from weft.cli import connection, flags, render
from weft.errors import InputError
from weft.text import plural
from weft.views.answers.base import Answer
from weft.views.answers.operations import (
    CORDON,
    DRAIN,
    DUMP,
    INTERVAL,
    PASS,
    PAUSE,
    POLICY,
    RESUME,
    SET,
    SHUTDOWN,
    UNCORDON,
    UNDRAIN,
    DrainedView,
    DumpView,
    IntervalView,
    Operation,
    PolicyView,
    SetView,
    ShutdownView,
)

EXAMPLE: Final = """commands:
  pause, resume                    stop starting jobs; start jobs again
  drain, cordon NODE|NODE[0,1]...  start no new jobs there; undrain, uncordon undo it
  policy [NAME[:option=value...]]  print the policy, or change it or its options
  interval S                       schedule in rounds of S seconds, also 2m; 0: at every event
  pass                             run a scheduling pass now
  set JOB KEY=VALUE...             change a waiting job, such as its priority
  dump [all]                       print the state as JSON; all: with ended jobs
  shutdown [--jobs keep|stop]      end the scheduler; jobs continue, or are stopped

examples:
  weft operate drain n3
  weft operate policy tiresias:thresholds=3600+36000
  weft operate set 7 priority=100
  weft operate shutdown --jobs stop"""
Options = dict[str, str]
V = TypeVar("V", bound=Answer)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("command", metavar="COMMAND", choices=sorted(COMMANDS), help=", ".join(COMMANDS))
    parser.add_argument("words", metavar="WORD", nargs="*", help="arguments of the command")
    parser.add_argument("--jobs", choices=("keep", "stop"), help="with shutdown: keep or stop running jobs (keep)")
    parser.add_argument(
        "--placement", metavar="P", type=flags.plugin, help="with policy: a placement other than the policy's"
    )
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    command = COMMANDS[args.command]
    options = command.read(args.words)
    for flag, verb in (("jobs", "shutdown"), ("placement", "policy")):
        if value := getattr(args, flag):
            if args.command != verb:
                raise InputError(f"--{flag} is only for {verb}", hint=f"write weft operate {verb} --{flag} ...")
            options[flag] = value
    return command.run(args, options)


class Command(Generic[V]):
    def __init__(
        self, operation: Operation[V], read: Callable[[list[str]], Options], describe: Callable[[V], str]
    ) -> None:
        """`describe` returns the message for an answer."""
        self.operation, self.read, self._describe = operation, read, describe

    def run(self, args: argparse.Namespace, options: Options) -> int:
        with connection.connect(args.scheduler) as client:
            found = client.operate(self.operation, **options)
        if args.json or isinstance(found, DumpView):
            render.print_json(found)
        elif isinstance(found, PolicyView) and not options.get("policy"):
            print(found.policy)  # data, not a message: it goes to stdout
        else:
            render.print_message(self._describe(found))
        return 1 if isinstance(found, SetView) and found.refused else 0


# ---- from words to options


def _none(words: list[str]) -> Options:
    if words:
        raise InputError(f"unexpected argument {words[0][:80]!r}", hint="see weft operate --help")
    return {}


def _places(words: list[str]) -> Options:
    return {"gpus": " ".join(words)}


def _policy(words: list[str]) -> Options:
    return {"policy": flags.plugin(words[0])} if len(words) == 1 else _none(words)


def _seconds(words: list[str]) -> Options:
    if len(words) != 1:
        raise InputError("no interval given", hint="give seconds or a duration: weft operate interval 60, interval 2m")
    try:
        return {"seconds": f"{flags.seconds_or_duration(words[0]):g}"}
    except argparse.ArgumentTypeError as error:
        raise InputError(f"interval: {error}", hint="0: whenever something happens") from None


def _set(words: list[str]) -> Options:
    pairs = [word.partition("=") for word in words[1:]]
    if not pairs or not all(key and equals for key, equals, _ in pairs) or any(key == "job" for key, _, _ in pairs):
        raise InputError("no job or no setting is named", hint="such as: weft operate set 7 priority=10")
    return {"job": words[0], **{key: value for key, _, value in pairs}}


def _all(words: list[str]) -> Options:
    return {"all": "yes"} if words == ["all"] else _none(words)


# ---- messages


def _drained(found: DrainedView) -> str:
    return f"no new jobs start on {', '.join(found.places)}"


def _undrained(found: DrainedView) -> str:
    return f"jobs may start again on {', '.join(found.places)}"


def _rounds(found: IntervalView) -> str:
    seconds = found.interval_s
    return f"scheduling in rounds of {seconds:g} s" if seconds else "scheduling at every event"


def _changed(found: SetView) -> str:
    refused = [f"{each.id}: {each.why}" for each in found.refused]
    return "\n".join([f"changed {plural(len(found.changed), 'job')}"] * bool(found.changed) + refused)


def _ends(found: ShutdownView) -> str:
    return f"scheduler {found.pid} is ending; {plural(found.running, 'job')} running"


COMMANDS: Final[dict[str, Command[Any]]] = {
    each.operation.verb: each
    for each in (
        Command(PAUSE, _none, lambda _: "no new jobs start before resume; running jobs continue"),
        Command(RESUME, _none, lambda _: "jobs start again"),
        Command(DRAIN, _places, _drained),
        Command(UNDRAIN, _places, _undrained),
        Command(CORDON, _places, _drained),
        Command(UNCORDON, _places, _undrained),
        Command(POLICY, _policy, lambda found: f"policy {found.policy}"),
        Command(INTERVAL, _seconds, _rounds),
        Command(PASS, _none, lambda found: f"{plural(len(found.started), 'job')} started"),
        Command(SET, _set, _changed),
        Command(DUMP, _all, str),
        Command(SHUTDOWN, _none, _ends),
    )
}
