"""Start a scheduler and a worker for each node on this machine, in the background, and return when all have joined.

The GPUs are declared and need not exist. Jobs really run, on the CPUs of this machine. Use it for experiments."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from weft.access.endpoints.addresses import DEFAULT_PORT, Address
from weft.cli import flags, render
from weft.errors import InputError
from weft.text import plural

if TYPE_CHECKING:
    from weft.model import Node

EXAMPLE: Final = """examples:
  weft cluster up --nodes 4 --gpus-per-node 8
  weft cluster up --spec n2g8 --policy srsf
  weft cluster up --spec cluster.yaml --port 50061"""
DEFAULT_NODES, DEFAULT_GPUS = 4, 8


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--nodes", metavar="N", type=flags.count, help=f"number of workers ({DEFAULT_NODES})")
    add("--gpus-per-node", metavar="N", type=flags.whole_number(), help=f"GPUs of each worker ({DEFAULT_GPUS})")
    add("--spec", metavar="FILE|NAME", help="instead of both: a cluster file, 4x8, or n1g8, n2g8, n4g8, n8g8")
    add(
        "--port",
        metavar="N",
        type=flags.whole_number(),
        default=DEFAULT_PORT,
        help=f"port of the scheduler ({DEFAULT_PORT}); 0: a free one",
    )
    add("--policy", metavar="P", type=flags.plugin, help="policy: NAME[:option=value...], see weft policies (balanced)")
    add("--schedule-interval", metavar="S", type=flags.seconds_or_zero, help="schedule in rounds of S seconds")
    add(
        "--lease",
        metavar="S",
        type=flags.seconds,
        help="how long a worker may be disconnected before its jobs are lost (600)",
    )
    flags.add_preemption_limits(parser)
    add(
        "--metrics-port",
        metavar="N",
        type=flags.whole_number(),
        help="serve /metrics, /healthz, /readyz on this port of 127.0.0.1",
    )


def run(args: argparse.Namespace) -> int:
    from weft.access.endpoints.paths import server_folder
    from weft.node.bringup.loopback import bring_up

    nodes = _nodes(args)
    where = Address("localhost", args.port or _free_port())
    if render.is_stderr_terminal():
        render.print_message(f"starting a scheduler and {plural(len(nodes), 'worker')} ...")
    bring_up(where, nodes, _options(args))
    gpus = sum(len(node.gpus) for node in nodes)
    if args.json:
        render.print_json({
            "schema": 1, "scheduler": str(where), "nodes": [node.id for node in nodes], "gpus": gpus,
            "folder": str(server_folder(where.port)),
        })  # fmt: skip
        return 0
    print(f"{plural(len(nodes), 'node')} with {plural(gpus, 'GPU')} at {where}")
    for name, command in _next(where, max(len(node.gpus) for node in nodes)):
        print(f"  {name:<8}{command}")
    sys.stdout.flush()
    return 0


def _nodes(args: argparse.Namespace) -> tuple[Node, ...]:
    from weft.sim.clusters.reader import read_cluster

    if args.spec is None:
        nodes, gpus = args.nodes or DEFAULT_NODES, DEFAULT_GPUS if args.gpus_per_node is None else args.gpus_per_node
        if not gpus:
            raise InputError("--gpus-per-node 0: a cluster needs GPUs", hint="give at least 1")
        return read_cluster(f"{nodes}x{gpus}")
    if args.nodes is not None or args.gpus_per_node is not None:
        raise InputError("--spec excludes --nodes and --gpus-per-node", hint="the spec defines nodes and GPUs")
    return read_cluster(args.spec)


def _options(args: argparse.Namespace) -> list[str]:
    """Return the flags for the scheduler."""
    given = {
        "--policy": args.policy, "--schedule-interval": args.schedule_interval, "--lease": args.lease,
        "--min-run": args.min_run, "--max-preemptions": args.max_preemptions, "--metrics-port": args.metrics_port,
    }  # fmt: skip
    return [word for flag, value in given.items() if value is not None for word in (flag, str(value))]


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _next(where: Address, gpus: int) -> list[tuple[str, str]]:
    """Return commands to try next. At the default port, commands find the scheduler by themselves."""
    usual = where.port == DEFAULT_PORT
    lines = [] if usual else [("first", f"export WEFT_SCHEDULER={where}")]
    return [
        *lines, ("watch", "weft monitor"), ("run", f"weft run --gpus {min(gpus, 2)} -- nproc"),
        ("end", "weft cluster down" + ("" if usual else f" --port {where.port}")),
    ]  # fmt: skip
