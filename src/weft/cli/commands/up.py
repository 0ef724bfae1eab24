"""Starts this user's scheduler, and keeps how it is set up: it starts the same again by itself.

Where one runs already, and is to be another, it is ended and started again; running jobs go on meanwhile."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from weft.cli import connection, render
from weft.cli.text import plural
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.endpoints.paths import Paths
    from weft.server.settings import Settings

EXAMPLE: Final = """GPUs need not be declared where there is a driver. Where there is none, or to use some only:

examples:
  weft up
  weft up --policy fair-share --idle 0
  weft up --gpus 0,1 --models RTX3090,RTX3090 --memories 24G,24G
  weft up --gpus driver"""

T = TypeVar("T")
MOST_GPUS: Final = 4096
MOST_TEXT: Final = 200


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--policy", metavar="P", help="NAME[:option=value...], see weft policies (priority:preempts=on)")
    add("--placement", metavar="P", help="default: the one the policy brings along")
    add("--gpus", metavar="0,1", help="declare GPUs by index; driver: as it sees them")
    add("--models", metavar="A,B", help="their models, one for each")
    add("--memories", metavar="MB,MB", help="their memory, one for each (what the driver says, or 32768)")
    add("--foreign", choices=("avoid", "share", "ignore"), help="GPUs on which others have processes (avoid)")
    add("--idle", metavar="T", help="end after so long without work: 90 (minutes), 30s, 2h; 0: never (10m)")
    add("--min-run", metavar="T", help="a run is not preempted before it lasted so long (60s; 0: at once)")
    add("--max-preemptions", metavar="N", help="a job that was preempted so often is left alone (10)")
    add("--keep", metavar="T", help="ended jobs and their logs are forgotten after so long: 12h, 30d (30d)")
    add("--restore", action="store_true", help="go back to the last backup of a journal that is damaged")
    add("--defaults", action="store_true", help="forget what it was told before")
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from weft.endpoints.paths import user_paths
    from weft.server.settings import Settings, changed, load, save

    here = user_paths()
    here.make()
    old: Settings | None = None
    try:
        old = load(here.state)
    except InputError as error:
        render.say(f"{error.where}: {error.what}; it is written anew")
    new = changed(Settings() if args.defaults or old is None else old, **_given(args))
    _check(new)
    if args.restore:
        _restore(here)
    again = here.answers() and new != old
    save(here.state, new)
    if again:
        from weft.client.local_scheduler import end_scheduler

        with connection.begin(connection.LOCAL) as client:
            end_scheduler(client)
        render.say("started again, set up anew; running jobs go on")
    with connection.begin(connection.LOCAL) as client:
        found = client.doctor()
    if args.json:
        render.print_json(found)
    else:
        gpus = plural(len(found.gpus), "GPU")
        print(f"scheduler {found.pid} serves {found.node}: {gpus}, policy {found.policy}")
    return 0


def _restore(here: Paths) -> None:
    from weft.errors import Refused
    from weft.journal.file_store import DAMAGED_SUFFIX
    from weft.server.restore import restore

    if here.answers():
        raise Refused("a scheduler is running\n  weft down ends it; jobs go on")
    facts = restore(here)
    render.say(f"went back to the last backup, and found {plural(facts, 'fact')} since in the records of runs")
    render.say(f"what was submitted since and never ran is gone; the damaged journal is kept as *{DAMAGED_SUFFIX}")


def _given(args: argparse.Namespace) -> dict[str, Any]:
    """What the flags say; new GPUs have nothing of the old ones'."""
    from weft.inputs.quantities import parse_duration, parse_whole

    given: dict[str, Any] = {key: getattr(args, key) for key in ("policy", "placement", "foreign")}
    if args.gpus is not None:
        given |= {"gpus": "" if args.gpus == "driver" else _gpus(args.gpus), "models": "", "memories": ""}
    if args.models is not None:
        given["models"] = _models(args.models)
    if args.memories is not None:
        given["memories"] = _memories(args.memories)
    if args.idle is not None:
        given["idle_s"] = _duration("--idle", args.idle)
    if args.min_run is not None:
        given["min_run_s"] = _duration("--min-run", args.min_run)
    if args.max_preemptions is not None:
        given["max_preemptions"] = _flagged(
            "--max-preemptions", partial(parse_whole, args.max_preemptions, 0, 1_000_000)
        )
    if args.keep is not None:
        given["keep_s"] = _flagged("--keep", partial(parse_duration, args.keep))
    return given


def _check(settings: Settings) -> None:
    """Before anything is changed: a scheduler that cannot start helps nobody."""
    from weft.plugins import registry

    policy = registry.load_policy(settings.policy)
    registry.load_placement(settings.placement or policy.placement)
    count = len(settings.gpus.split(",")) if settings.gpus else 0
    for key in ("models", "memories"):
        values = getattr(settings, key)
        if values and not count:
            raise InputError(f"--{key} without --gpus", hint="declare the GPUs: --gpus 0,1")
        if values and len(values.split(",")) != count:
            what = f"{plural(count, 'GPU')}, but {len(values.split(','))} {key}"
            raise InputError(what, hint="give one for each GPU")


def _gpus(text: str) -> str:
    from weft.inputs.quantities import parse_whole

    indices = [_flagged("--gpus", partial(parse_whole, part, 0, MOST_GPUS - 1)) for part in text.split(",")]
    if len(set(indices)) < len(indices):
        raise InputError(f"--gpus: a GPU is named twice in {text[:80]!r}", hint="name each once, such as 0,1")
    return ",".join(map(str, indices))


def _models(text: str) -> str:
    models = [part.strip() for part in text.split(",")]
    if not all(model.isprintable() and 0 < len(model) <= MOST_TEXT for model in models):
        raise InputError(f"--models: {text[:80]!r} is not a list of models", hint="such as RTX3090,RTX3090")
    return ",".join(models)


def _memories(text: str) -> str:
    from weft.inputs.quantities import parse_megabytes

    found = [_flagged("--memories", partial(parse_megabytes, part)) for part in text.split(",")]
    if 0 in found:
        raise InputError("--memories: a GPU without memory", hint="such as 24576,24576 or 24G,24G")
    return ",".join(map(str, found))


def _duration(flag: str, text: str) -> float:
    from weft.inputs.quantities import parse_duration

    return 0.0 if text.strip("0s") == "" and text else _flagged(flag, partial(parse_duration, text))


def _flagged(flag: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except InputError as error:
        raise InputError(f"{flag}: {error.what}", hint=error.hint) from None
