"""Run a command as an inference service until Ctrl-C or the end of the terminal, and print its URL.

The command listens at $WEFT_HOST:$WEFT_PORT. Requests wait while no replica is ready. `weft deploy` keeps a service."""

from __future__ import annotations

import argparse
import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from weft.cli import connection, flags, render, sigterm
from weft.errors import InputError, Refused, Unreachable, WeftError

if TYPE_CHECKING:
    from weft.access.client import Client
    from weft.views.answers.services import ServiceView

EXAMPLE: Final = """examples:
  weft serve -- python serve.py
  weft serve --name chat --share .3/.6 --memory 6G --replicas 0..8 -- python serve.py --size small
  weft serve --gpus 0 --health / -- 'python -m http.server --bind $WEFT_HOST $WEFT_PORT'"""

INTERRUPTED: Final = 130
POLL_S: Final = 0.5


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "weft serve [flags] -- CMD ARGS..."
    add = parser.add_argument
    add("--name", metavar="NAME", help="name of the service (the file name of the program)")
    add("--gpus", metavar="N", type=flags.whole_number(0, 100_000), default=1, help="GPUs of a replica (1)")
    add("--share", metavar="R/L", help="part of each GPU that a replica is guaranteed, and the most that it gets")
    add("--memory", metavar="SIZE", help="GPU memory of a replica, such as 6G")
    add("--replicas", metavar="N|A..B", default="1", help="a number, or the fewest and the most (1)")
    add("--concurrency", metavar="N", type=flags.whole_number(1, 100_000), help="requests at one replica at once (8)")
    add("--health", metavar="PATH", help="path that answers once a replica can serve (/health)")
    add("--model", metavar="NAME", action="append", default=[], help="model of OpenAI requests to this service")
    add("--image", metavar="IMAGE", help="container image to run the command in")
    add("--mount", metavar="SRC[:DST[:ro]]", action="append", default=[], help="file or folder in the container")
    add("--runtime", metavar="NAME", help="podman, docker or apptainer (the first that works)")
    flags.add_common(parser, json=False)
    add("command", metavar="-- CMD ARGS...", nargs=argparse.REMAINDER, help="the command; one word is a shell line")


def run(args: argparse.Namespace) -> int:
    from weft.access.client.services import describe, find_service, wait_for_url
    from weft.access.endpoints.config import scheduler_address

    description = _description(args)
    name = description["service"]
    request = describe(json.dumps(description), "weft serve", scheduler_address(args.scheduler))
    sigterm.install_hangup_handler()
    with connection.connect_or_start(args.scheduler) as client:
        known = find_service(client, name)
        if known is not None:
            raise Refused(f"there is a service {name} already\n  give another --name, or: weft undeploy {name}")
        client.deploy(request)
        try:
            print(wait_for_url(client, name) or "no router serves it yet: weft router starts one", flush=True)
            return _follow(client, name)
        except KeyboardInterrupt:
            return _end(client, name)


def _description(args: argparse.Namespace) -> dict[str, Any]:
    """Return the service as a file would describe it."""
    from weft.cli.commands.scale import parse_bounds
    from weft.cli.submit.task_flags import strip_dashes

    command = strip_dashes(args.command)
    if not command:
        raise InputError("no command to run", hint="give it last: weft serve [flags] -- CMD ARGS...")
    least, most = parse_bounds(args.replicas)
    found = {
        "service": args.name or _name_of(command), "run": command if len(command) > 1 else command[0],
        "gpus": args.gpus, "share": args.share, "memory": args.memory, "concurrency": args.concurrency,
        "replicas": {"min": least, "max": max(most, 1)}, "image": args.image, "mounts": args.mount or None,
        "runtime": args.runtime, "models": args.model or None,
        "health": {"path": args.health} if args.health else None,
    }  # fmt: skip
    return {key: value for key, value in found.items() if value is not None}


def _name_of(command: list[str]) -> str:
    """Return a name for the service: that of the script, or else that of the program."""
    from pathlib import PurePath

    from weft.access.jobspec.job_names import default_name

    words = command if len(command) > 1 else command[0].split()
    script = next((word for word in words if word.endswith(".py")), words[0] if words else "")
    return PurePath(default_name([script])).stem.replace(" ", "-")


def _follow(client: Client, name: str) -> int:
    """Report changes of the service until it is gone or the user interrupts."""
    before = ""
    while True:
        try:
            found = _look(client, name)
        except WeftError as error:  # the scheduler is away; the router serves on
            state = str(error).partition("\n")[0]
        else:
            if found is None:
                raise Refused(f"{name} was undeployed meanwhile\n  weft services lists the services")
            state = _state(found)
        if state != before:
            before = state
            render.print_message(state)
        time.sleep(POLL_S)


def _look(client: Client, name: str) -> ServiceView | None:
    """Return the service, or None if it is gone. Start a scheduler that died, but not one that was stopped."""
    from weft.access.client.services import find_service
    from weft.access.endpoints.paths import Paths

    here = client.where
    if isinstance(here, Paths) and not here.answers() and not here.has_died():
        if not here.lock_text():
            return None  # it was stopped when everything had ended
        raise Unreachable("the scheduler was stopped; weft up continues the service")
    return find_service(client, name)


def _state(service: ServiceView) -> str:
    text = f"{service.name}: {service.ready} of {service.wanted} replicas ready"
    return f"{text}; {service.waiting_for}" if service.waiting_for else text


def _end(client: Client, name: str) -> int:
    from weft.access.client.services import find_service
    from weft.access.wire.messages import ServiceChange

    client.change_service(ServiceChange(service=name, verb="undeploy"))
    with suppress(OSError):  # the terminal may be closed
        render.print_message(f"ending {name} after the requests it has; Ctrl-C again does not wait")
    try:
        while find_service(client, name) is not None:
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        render.print_message(f"{name} is still ending: weft services")
    return INTERRUPTED
