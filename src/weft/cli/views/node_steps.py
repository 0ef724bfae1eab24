"""Output of `weft node`: the steps on this machine, or on each machine of a hosts file over ssh."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from weft.cli import render, tables
from weft.cli.tables import Cell, Column
from weft.views.answers import steps

if TYPE_CHECKING:
    from weft.node.bringup.ssh import CallResult
    from weft.node.care.mesh.cluster import ClusterCheckView
    from weft.views.answers.steps import StepView

COLOURS: Final = {
    steps.DONE: "green", steps.OK: "green", steps.WARNING: "yellow", steps.FAILED: "red", steps.PLANNED: "cyan",
}  # fmt: skip
COLUMNS: Final = (Column("STEP"), Column("STATE"), Column("DETAIL"))


def add_arguments(parser: argparse.ArgumentParser, *, dry_run: bool = True) -> None:
    """Add the flags of every action of `weft node`."""
    if dry_run:
        parser.add_argument("--dry-run", action="store_true", help="only print what would be done")
    parser.add_argument(
        "--hosts", metavar="FILE", default="", help="on the machines of this file, over ssh, as weft cluster ssh"
    )
    parser.add_argument(
        "--ssh-config", metavar="FILE", default="", help="config file for ssh, instead of ~/.ssh/config"
    )


def add_sudo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sudo", action="store_true", help="run what needs root with sudo, which must not ask")


def print_steps(args: argparse.Namespace, found: Sequence[StepView]) -> int:
    """Print the steps of this machine. Return 1 if one failed."""
    from weft.node.engine.gpu.this_machine import host_name

    if args.json:
        render.print_json(steps.StepsView(node=host_name(), steps=found))
    else:
        tables.print_table(COLUMNS, [_cells(step) for step in found], args.color)
    return 1 if steps.has_failed(found) else 0


def run_over_ssh(args: argparse.Namespace, action: str, *flags: str) -> int:
    """Run the action on every machine of the hosts file and print its steps. Return 1 if one failed."""
    from weft.node.bringup.hosts import read_hosts
    from weft.node.bringup.ssh import call_each

    given = [f"--{name.replace('_', '-')}" for name in ("dry_run", "sudo") if getattr(args, name, False)]
    words = ("node", action, *given, *flags, "--json")
    results = call_each(read_hosts(args.hosts), words, ssh_config=args.ssh_config)
    listed = [(result, _steps_of(result)) for result in results]
    if args.json:
        rows = [{"host": result.host.host, "node": result.host.id, "steps": found} for result, found in listed]
        render.print_json({"schema": 1, "hosts": rows})
    else:
        cells = [[Cell(result.host.host), *_cells(step)] for result, found in listed for step in found]
        tables.print_table((Column("HOST"), *COLUMNS), cells, args.color)
    return 1 if any(steps.has_failed(found) for _, found in listed) else 0


def print_cluster(args: argparse.Namespace, found: ClusterCheckView) -> int:
    """Print the check of a cluster: its problems, and the network of each node. Return 1 if a check failed."""
    if args.json:
        render.print_json(found)
    else:
        cells = [
            [Cell(each.node), *_cells(step)]
            for each in found.nodes
            for step in each.steps
            if step.name == "network" or step.state in (steps.WARNING, steps.FAILED)
        ]
        tables.print_table((Column("NODE"), *COLUMNS), cells, args.color)
    return 1 if any(steps.has_failed(each.steps) for each in found.nodes) else 0


def _steps_of(result: CallResult) -> Sequence[StepView]:
    from weft.views.answers.base import view_of

    if result.error:
        return [steps.StepView("ssh", steps.FAILED, result.error)]
    return view_of(steps.StepsView, dict(result.answer)).steps


def _cells(step: StepView) -> list[Cell]:
    detail = f"{step.detail}; {step.advice}" if step.advice else step.detail
    return [Cell(step.name), Cell(step.state, COLOURS.get(step.state, "")), Cell(detail)]
