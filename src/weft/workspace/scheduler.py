"""How the commands of a workspace come to a scheduler with GPUs, and to sessions."""

from __future__ import annotations

import os
import shlex
import time
from typing import TYPE_CHECKING, Final

from weft.cli import connection
from weft.cli.text import plural
from weft.endpoints.paths import places
from weft.errors import Refused

if TYPE_CHECKING:
    from weft.client import Client
    from weft.server.settings import Settings
    from weft.workspace.config import Config

DYING_S: Final = 5.0
"""How long what ran in a session may live on after it."""


def begin(config: Config) -> Client:
    """A scheduler that has GPUs: where nobody declared any and there is no driver, the first `gpu_count` are."""
    from weft.engines.process.gpu.this_machine import this_machine
    from weft.server.settings import load
    from weft.workspace.locks import alone_with_gpus

    here = places()
    here.make()
    with alone_with_gpus(here.runtime):
        if not here.answers():
            settings = load(here.state)
            if not this_machine(settings.gpus, settings.models, settings.memories)[0].node.gpus:
                _declare(config, settings)
            return connection.begin(connection.LOCAL)
        client = connection.begin(connection.LOCAL)
        if client.gpus().gpus:
            return client
        _declare(config, load(here.state))
        with client:
            connection.end(client)
        client = connection.begin(connection.LOCAL)
        if client.gpus().gpus:
            return client
    client.close()
    raise Refused(
        f"{plural(config.whole('gpu_count'), 'GPU')} are declared, but jobs run that came before them\n"
        "  start again when these have ended; weft queue shows them"
    )


def _declare(config: Config, settings: Settings) -> None:
    from weft.server.settings import changed, save

    gpus = ",".join(map(str, range(config.whole("gpu_count"))))
    save(places().state, changed(settings, gpus=gpus, models="", memories=""))


def look() -> Client | None:
    """The scheduler, if there is one or there are jobs to speak of."""
    return connection.look(connection.LOCAL, ended=True)


# ---- sessions


def show(config: Config, client: Client, since: int) -> tuple[str, str]:
    """Sees to it that the scheduler's session is there; its name, and a warning where it cannot be."""
    from weft.workspace.locks import is_held
    from weft.workspace.session_display import Shower
    from weft.workspace.sessions import sessions_of

    sessions = sessions_of(config)
    why_not = sessions.why_not()
    if why_not:
        return "", "" if config.text("session_backend") == "none" else why_not
    shower = Shower(config, client.places, sessions)
    until = time.monotonic() + DYING_S
    while is_held(client.places.runtime, config, "watch"):
        name = shower.own_name()
        if name or time.monotonic() > until:  # without a session, whoever has it dies with tmux, or needs none
            return name, ""
        time.sleep(0.05)
    name = shower.open_own(since)
    return name, "" if name else "no session can be opened: tasks run all the same"


def attach_line(config: Config, name: str) -> str:
    """What a person types to see a session."""
    if config.text("session_backend") == "tmux":
        return f"tmux attach -t {name}"
    from weft.workspace.sessions import sessions_of

    return shlex.join(sessions_of(config).attach_command(name))


def show_again(config: Config, client: Client) -> str:
    """Brings a session back that has died; a warning where it cannot be."""
    from weft.workspace.locks import alone

    try:
        with alone(client.places.runtime, config):
            return show(config, client, client.gpus().position)[1]
    except Refused:
        return ""  # somebody who starts or ends tasks sees to it


def close_sessions(config: Config) -> int:
    from weft.workspace.session_display import Shower
    from weft.workspace.sessions import sessions_of

    sessions = sessions_of(config)
    return 0 if sessions.why_not() else Shower(config, places(), sessions).close_all()


# ---- the log


def note(config: Config, text: str) -> None:
    """A line in the scheduler's log."""
    from weft.workspace.task.log_files import open_log, stamped

    if not config.is_on("enable_logging"):
        return
    try:
        handle, _ = open_log(str(config.path("log_dir")), f"{config.scheduler_session}.log", config.group)
    except OSError:
        return
    try:
        os.write(handle, stamped(text))
    finally:
        os.close(handle)
