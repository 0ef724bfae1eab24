"""Start this user's scheduler and save its settings, which later starts use again.

If the settings change while it runs, the scheduler ends and starts again; running jobs continue."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from weft.cli import connection, flags, render
from weft.errors import InputError
from weft.text import plural

if TYPE_CHECKING:
    from weft.access.endpoints.paths import Paths
    from weft.access.server.settings import Settings

EXAMPLE: Final = """With a driver, Weft finds the GPUs. Declare them if there is no driver, or to use only some.

examples:
  weft up
  weft up --policy fair-share --idle 0
  weft up --gpus 0,1 --models RTX3090,RTX3090 --memories 24G,24G
  weft up --gpus driver
  weft up --shared /var/lib/weft-gpus"""

T = TypeVar("T")
MAX_GPUS: Final = 4096
MAX_MODEL_CHARS: Final = 200


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--policy",
        metavar="P",
        type=flags.plugin,
        help="policy: NAME[:option=value...], see weft policies (priority:preempts=on)",
    )
    add("--placement", metavar="P", type=flags.plugin, help="placement (default: the policy's)")
    add("--gpus", metavar="0,1", help="declare GPUs by index; driver: all that the driver reports")
    add("--models", metavar="A,B", help="their models, one for each")
    add("--memories", metavar="MB,MB", help="their memory, one for each (as the driver reports, or 32768)")
    add("--foreign", choices=("avoid", "share", "ignore"), help="GPUs with processes of others (avoid)")
    add("--shared", metavar="DIR", help="share the GPUs with other users' schedulers, by locks in DIR; off: do not")
    add("--idle", metavar="T", help="end after this time without jobs: 90 (seconds), 30m, 2h; 0: never (10m)")
    add(
        "--min-run", metavar="S", type=flags.seconds_or_duration,
        help="do not preempt a run in its first S seconds (60; 0: no minimum); also 2m",
    )  # fmt: skip
    add(
        "--schedule-interval", metavar="S", type=flags.seconds_or_zero,
        help="schedule in rounds of S seconds; 0: at every event, or as the policy asks",
    )  # fmt: skip
    add("--max-preemptions", metavar="N", help="do not preempt a job more than N times (10)")
    add("--keep", metavar="T", help="delete ended jobs and their logs after this time: 12h, 30d (30d)")
    add("--restore", action="store_true", help="replace a damaged journal by its last backup")
    add("--defaults", action="store_true", help="reset the saved settings")
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from weft.access.endpoints.paths import user_paths
    from weft.access.server.settings import Settings, changed, load, save

    here = user_paths()
    here.make()
    old: Settings | None = None
    try:
        old = load(here.state)
    except InputError as error:
        render.print_message(f"{error.where}: {error.what}; writing a new file")
    new = changed(Settings() if args.defaults or old is None else old, **_given(args))
    _check(new)
    _prepare_shared(new)
    if args.restore:
        _restore(here)
    again = here.answers() and new != old
    save(here.state, new)
    if again:
        from weft.access.client.local_scheduler import end_scheduler

        with connection.connect_or_start(connection.LOCAL) as client:
            end_scheduler(client)
        render.print_message("restarted with new settings; running jobs continue")
    with connection.connect_or_start(connection.LOCAL) as client:
        found = client.doctor()
    if found.recovered:
        render.print_message(found.recovered)
    if args.json:
        render.print_json(found)
    else:
        gpus = plural(len(found.gpus), "GPU")
        print(f"scheduler {found.pid} serves {found.node}: {gpus}, policy {found.policy}")
        if found.shared:
            print(f"GPUs are shared with other users through {found.shared}")
        if args.min_run is not None:
            print(f"runs are not preempted in their first {args.min_run:g} s")
    return 0


def _prepare_shared(settings: Settings) -> None:
    """Check the folder of the ledger, also one that an earlier command, the environment or the config file names."""
    from weft.access.endpoints.config import shared_folder
    from weft.node.engine.gpu.ledger_folder import OPEN_TO_ALL, prepare_folder

    folder = shared_folder(settings.shared)
    if folder and prepare_folder(folder):
        render.print_message(f"created {folder} for all users of this machine (mode {OPEN_TO_ALL:o})")


def _restore(here: Paths) -> None:
    from weft.errors import Refused
    from weft.node.care.restore import restore

    if here.answers():
        raise Refused("a scheduler is running\n  end it with weft down; jobs continue")
    restored, facts = restore(here)
    for line in restored.describe():
        render.print_message(line)
    render.print_message(f"recovered {plural(facts, 'fact')} since then from the records of runs")


def _given(args: argparse.Namespace) -> dict[str, object]:
    """Return the settings that the flags change. New GPUs reset models and memories."""
    from weft.inputs.quantities import parse_duration, parse_whole

    given: dict[str, object] = {key: getattr(args, key) for key in ("policy", "placement", "foreign")}
    if args.gpus is not None:
        given |= {"gpus": "" if args.gpus == "driver" else _gpus(args.gpus), "models": "", "memories": ""}
        given["gpus_declared_by"] = ""
    if args.models is not None:
        given["models"] = _models(args.models)
    if args.memories is not None:
        given["memories"] = _memories(args.memories)
    if args.shared is not None:
        given["shared"] = _shared(args.shared)
    if args.idle is not None:
        given["idle_s"] = _duration("--idle", args.idle)
    if args.min_run is not None:
        given["min_run_s"] = args.min_run
    if args.schedule_interval is not None:
        given["interval_s"] = args.schedule_interval
    if args.max_preemptions is not None:
        given["max_preemptions"] = _with_flag(
            "--max-preemptions", partial(parse_whole, args.max_preemptions, 0, 1_000_000)
        )
    if args.keep is not None:
        given["keep_s"] = _with_flag("--keep", partial(parse_duration, args.keep))
    return given


def _check(settings: Settings) -> None:
    """Check the settings before anything changes, so that a working scheduler is not replaced by a broken one."""
    from weft.scheduling.plugins import registry

    policy = registry.load_policy(settings.policy)
    registry.load_placement(settings.placement or policy.placement)
    count = len(settings.gpus.split(",")) if settings.gpus else 0
    for key in ("models", "memories"):
        values = getattr(settings, key)
        if values and not count:
            raise InputError(f"--{key} needs --gpus", hint="declare the GPUs, for example --gpus 0,1")
        if values and len(values.split(",")) != count:
            what = f"--{key}: {plural(len(values.split(',')), 'value')} for {plural(count, 'GPU')}"
            raise InputError(what, hint="give one for each GPU")


def _shared(text: str) -> str:
    from weft.access.endpoints.config import OFF

    if not text or not text.isprintable():
        raise InputError(f"--shared: {text[:80]!r} is not a folder", hint="for example /var/lib/weft-gpus, or off")
    return text if text == OFF else os.path.abspath(text)


def _gpus(text: str) -> str:
    from weft.inputs.quantities import parse_whole

    indices = [_with_flag("--gpus", partial(parse_whole, part, 0, MAX_GPUS - 1)) for part in text.split(",")]
    if len(set(indices)) < len(indices):
        raise InputError(f"--gpus: a GPU is named twice in {text[:80]!r}", hint="name each GPU once, for example 0,1")
    return ",".join(map(str, indices))


def _models(text: str) -> str:
    models = [part.strip() for part in text.split(",")]
    if not all(model.isprintable() and 0 < len(model) <= MAX_MODEL_CHARS for model in models):
        raise InputError(f"--models: {text[:80]!r} is not a list of models", hint="for example RTX3090,RTX3090")
    return ",".join(models)


def _memories(text: str) -> str:
    from weft.inputs.quantities import parse_megabytes

    found = [_with_flag("--memories", partial(parse_megabytes, part)) for part in text.split(",")]
    if 0 in found:
        raise InputError("--memories: a GPU has 0 MB", hint="for example 24576,24576 or 24G,24G")
    return ",".join(map(str, found))


def _duration(flag: str, text: str) -> float:
    from weft.inputs.quantities import parse_duration

    return 0.0 if text.strip("0s") == "" and text else _with_flag(flag, partial(parse_duration, text))


def _with_flag(flag: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except InputError as error:
        raise InputError(f"{flag}: {error.what}", hint=error.hint) from None
