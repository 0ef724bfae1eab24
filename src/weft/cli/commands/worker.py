"""Join a cluster with the GPUs of this machine, and run the jobs that its scheduler starts here.

The worker stays in the foreground unless --background is given. Ctrl-C and SIGTERM end it: it says goodbye to the
scheduler, lets its jobs save their work, and they run elsewhere without a retry spent. With --keep-jobs its jobs
continue here, and the next worker with the same name finds them if it starts before their lease ends."""

from __future__ import annotations

import argparse
import os
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags, render, sigterm
from weft.cli.views.worker import StatusLines
from weft.errors import InputError
from weft.text import plural

if TYPE_CHECKING:
    from weft.access.endpoints.addresses import Address
    from weft.node.agent.connection import Dial
    from weft.node.agent.state_dir import AgentDir
    from weft.node.agent.worker import Worker
    from weft.node.agent.worker_event import WorkerEvent
    from weft.node.engine.gpu.discovery import Machine
    from weft.node.engine.gpu.nvml import NoDriver, Nvml

EXAMPLE: Final = """examples:
  weft worker
  weft worker --gpus 0,1 --models RTX3090,RTX3090 --memories 24576,24576
  weft worker --scheduler gpu-head:50051 --id gpu07 --addr 10.0.0.7:0 --labels rack=3,room=east
  weft worker --id gpu07 --background
  weft worker --id gpu07 --stop"""
MAX_LOG_BYTES: Final = 1 << 20
MAX_LABELS: Final = 100
_ADDR: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]{1,253})(?::(?P<port>[0-9]{1,5}))?")


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--scheduler",
        metavar="HOST:PORT",
        help="scheduler to join (default: as configured, or localhost:50051)",
    )
    add("--gpus", metavar="0,1", default="", help="declare GPUs by index; allocated: those of this allocation "
        "of Slurm, Ray or Kubernetes (default: all that the driver reports)")  # fmt: skip
    add("--models", metavar="A,B", default="", help="their models, one for each")
    add("--memories", metavar="MB,MB", default="", help="their memory, one for each")
    add("--addr", metavar="HOST:PORT", help="address for other nodes, and the first port for gangs; 0: any "
        "(localhost:0, or this host's name if the scheduler is on another machine)")  # fmt: skip
    add("--id", metavar="NAME", default="", help="name of the worker (this host's name)")
    add(
        "--labels",
        metavar="K=V",
        action="append",
        default=[],
        help="labels that jobs can request: K=V,K=V, or repeat the flag",
    )
    add("--foreign", choices=("avoid", "share", "ignore"), default="avoid", help="GPUs with processes of others")
    add("--cpus", metavar="N", type=flags.whole_number(), help="CPUs for jobs; 0: not counted (all)")
    add("--mem", metavar="MB", help="main memory for jobs: 65536, 64G; 0: not counted (all)")
    add(
        "--switch",
        metavar="NAME",
        default="",
        help="network switch of this machine: gangs stay on one switch if possible",
    )
    add("--pretend", action="store_true", help="do not check declared GPUs with the driver: they need not exist")
    add("--folder", metavar="DIR", help="folder for its files (workers/NAME in the state directory)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--background", action="store_true", help="run in the background; return when the worker has joined"
    )
    how.add_argument(
        "--stop", metavar="PROCESS", nargs="?", const="",
        help="end the worker with this name; with PROCESS, as --background printed it, only that process",
    )  # fmt: skip
    add("--leave-grace", metavar="S", type=flags.seconds_or_zero, default=None,
        help="the most time that jobs get to save their work when the worker ends (20)")  # fmt: skip
    add(
        "--keep-jobs", action="store_true", help="leave the jobs running when the worker ends, for the next worker here"
    )
    add("--pilot", action="store_true",
        help="end when the allocation ends, or when the scheduler is gone for as long as the lease")  # fmt: skip
    add("--ends-at", metavar="SECONDS", type=float,
        help="the end of the allocation, in seconds since 1970: leave in time for jobs to save their work")  # fmt: skip
    add("--run-as", choices=("submitter", "worker"), default=None,
        help="the account of jobs: that of the user who submitted them, which needs root, or that of the worker "
        "(submitter for root unless --pilot, else worker)")  # fmt: skip
    add("--min-uid", metavar="UID", type=flags.whole_number(1), default=1000,
        help="with --run-as submitter: the least number of an account that may run jobs (1000)")  # fmt: skip
    add("--log-stderr", action="store_true", help="also write the log, worker.log in its folder, to stderr")
    add("--kill", action="store_true", help="with --stop: also kill its jobs")
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.stop is not None:
        return _stop(args)
    if args.kill:
        raise InputError("--kill needs --stop", hint="write weft worker --id NAME --stop --kill")
    if not args.background:
        return _work(args)
    from weft.node.bringup import background

    started = background.start(lambda notify: _work(args, notify))
    if isinstance(started, int):
        return started
    if args.json:
        render.print_json({"schema": 1, **started._asdict()})
    else:
        print(f"worker {started.worker} has joined, process {started.process}")
    return 0


def _work(args: argparse.Namespace, notify: Callable[[AgentDir, WorkerEvent], None] | None = None) -> int:
    from weft.node.agent.without_openssl import avoid_openssl

    avoid_openssl()
    connection.load_grpc()
    import asyncio

    from weft.access.endpoints import config
    from weft.access.endpoints.addresses import Address
    from weft.model.node import CONTAINERS
    from weft.node.agent.node_status import describe_machine
    from weft.node.agent.worker import LEAVE_GRACE_S, create_worker
    from weft.node.engine.messages import node_spec

    scheduler = config.scheduler_address(args.scheduler) or Address("localhost")
    host, port = _advertised_address(args.addr, scheduler)
    labels = _labels(args.labels)
    machine, nvml = _machine(args)
    os.umask(0o077)
    folder = _folder(args, machine.node.id)
    if not folder.for_all_users and "containers" not in dict(labels):
        labels += (CONTAINERS,)  # a runtime of root would give its rights to the jobs of others
    folder.make()
    folder.lock()
    _log_to(folder, stderr=args.log_stderr)
    machine = describe_machine(machine, folder)
    show = StatusLines(args.color, machine, scheduler, folder, hidden=notify is not None or args.json)
    show.begin()

    def report(event: WorkerEvent) -> None:
        show.report(event)
        if notify is not None:
            notify(folder, event)

    async def work() -> int:
        worker = create_worker(
            machine, nvml, node_spec(machine, host, port, labels), folder, _dial(scheduler), foreign=args.foreign,
            on_event=report, leave_grace_s=LEAVE_GRACE_S if args.leave_grace is None else args.leave_grace,
            keep_runs=args.keep_jobs, is_pilot=args.pilot, ends_at=args.ends_at,
            min_uid=args.min_uid if folder.for_all_users else None,
        )  # fmt: skip
        return await _serve(worker, show)

    return asyncio.run(work())


def _stop(args: argparse.Namespace) -> int:
    from weft.node.bringup import background
    from weft.node.engine.gpu.this_machine import host_name

    name = args.id or host_name()
    folder = _folder(args, name)
    if args.run_as is None and folder.lock_holder_pid() is None:  # it may have been started with another --run-as
        found = _folder(args, name, separates=not folder.for_all_users)
        folder = found if found.lock_holder_pid() is not None else folder
    try:
        only = background.parse_process(args.stop) if args.stop else None
    except InputError as error:
        raise error.at(key="--stop") from None
    ended, killed = background.end(
        name, folder, only, kill=args.kill, keep_jobs=args.keep_jobs, leave_grace_s=args.leave_grace
    )
    if args.json:
        render.print_json({"schema": 1, "worker": name, "ended": ended, "killed": killed})
    else:
        jobs = "its jobs continue until their lease ends" if args.keep_jobs else "its jobs run elsewhere"
        if args.kill:
            jobs = f"{plural(killed, 'run')} killed"
        render.print_message(f"worker {name} {'has ended' if ended else 'was not running'}; {jobs}")
    return 0


def _folder(args: argparse.Namespace, name: str, *, separates: bool | None = None) -> AgentDir:
    from weft.node.agent.state_dir import agent_dir
    from weft.node.engine.users.accounts import separates_users

    if separates is None:
        separates = separates_users(args.run_as, os.environ, is_pilot=args.pilot)
    return agent_dir(name, Path(args.folder) if args.folder else None, for_all_users=separates)


def _machine(args: argparse.Namespace) -> tuple[Machine, Nvml | NoDriver]:
    from weft.inputs.quantities import parse_megabytes
    from weft.node.engine.gpu.this_machine import discover_this_machine, host_name

    name = args.id or host_name()
    if args.gpus == "allocated":
        from weft.node.engine.gpu.allocated import discover_allocated

        machine, nvml = discover_allocated(args.models, args.memories, name=name, pretend=args.pretend)
    else:
        machine, nvml = discover_this_machine(args.gpus, args.models, args.memories, name=name, pretend=args.pretend)
    node = machine.node
    cpus = node.cpus if args.cpus is None else args.cpus
    try:
        ram_mb = node.ram_mb if args.mem is None else parse_megabytes(args.mem)
    except InputError as error:
        raise InputError(f"--mem: {error.what}", hint=error.hint) from None
    return replace(machine, node=replace(node, cpus=cpus, ram_mb=ram_mb, switch=args.switch)), nvml


async def _serve(worker: Worker, show: StatusLines) -> int:
    import asyncio

    from weft.node.agent.free_memory import TRIM_PERIOD_S, return_free_memory
    from weft.node.engine.background import repeat

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, worker.stop)
    loop.add_signal_handler(signal.SIGUSR1, worker.detach)
    if sigterm.was_received():
        worker.stop()
    await worker.open()
    trimming = asyncio.ensure_future(repeat(TRIM_PERIOD_S, return_free_memory))
    try:
        await worker.serve()
    finally:
        trimming.cancel()
        await worker.close()
    show.end(len(worker.agent.known))
    return 0


def _dial(scheduler: Address) -> Dial:
    """Return a function that connects. It reads the credentials each time, as they may have been renewed."""
    import grpc.aio

    from weft.access.endpoints import credentials
    from weft.node.agent.connection import SchedulerChannel, ServerCycle

    def dial(server: Address) -> SchedulerChannel:
        found = credentials.find_credentials(scheduler, "worker")
        return SchedulerChannel(credentials.open_channel(server, found, grpc.aio), found.metadata())

    return ServerCycle([partial(dial, server) for server in scheduler.servers])


def _advertised_address(text: str | None, scheduler: Address) -> tuple[str, int]:
    import platform

    text = text or ("localhost:0" if scheduler.is_loopback else f"{platform.node()}:0")
    found = _ADDR.fullmatch(text.strip())
    if found is None or int(found["port"] or 0) > 65535:
        raise InputError(
            f"--addr: {text[:80]!r} is not an address", hint="for example 10.0.0.7:0, gpu07:7000 or [fd00::7]:0"
        )
    return found["host"].strip("[]"), int(found["port"] or 0)


def _labels(given: list[str]) -> tuple[tuple[str, str], ...]:
    pairs = [text.partition("=") for word in given for text in word.split(",") if text]
    for name, equals, value in pairs:
        if not (name.strip() and equals and len(name) <= 200 and len(value) <= 200):
            raise InputError(
                f"--labels: {name[:80]!r} is not NAME=VALUE", hint="for example rack=3 or rack=3,room=east"
            )
    if len(pairs) > MAX_LABELS:
        raise InputError(f"--labels: {len(pairs)} labels are too many", hint=f"give at most {MAX_LABELS}")
    return tuple({name.strip(): value.strip() for name, _, value in pairs}.items())


def _log_to(folder: AgentDir, *, stderr: bool) -> None:
    import logging
    import logging.handlers

    handlers: list[logging.Handler] = [
        logging.handlers.RotatingFileHandler(folder.log, maxBytes=MAX_LOG_BYTES, backupCount=1)
    ]
    if stderr:
        handlers.append(logging.StreamHandler())
    logging.basicConfig(level=logging.INFO, handlers=handlers, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
