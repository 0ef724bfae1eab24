"""Start a worker on each machine of a file, over ssh. Each gets a separate token.

A line of the file: HOST, then settings that differ from the defaults, for example

  gpu07              gpus=0,1 models=RTX3090,RTX3090 memories=24576,24576 labels=rack=3
  ada@gpu08.local    port=2222 id=gpu08 weft=venv/bin/weft

user, port: for ssh; id: name of the worker (the host's name); weft: the command there (weft); the rest as for weft
worker: gpus, models, memories, labels, addr, switch, cpus, mem, foreign. ssh must work without a password."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.cli import auth_target, flags, render, tables
from weft.cli.tables import Cell, Column
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.access.endpoints.addresses import Address
    from weft.node.bringup.hosts import Host
    from weft.node.bringup.ssh import StartResult

EXAMPLE: Final = """examples:
  weft cluster ssh --hosts hosts.txt --scheduler gpu-head:50051
  weft cluster down --scheduler gpu-head:50051"""
TOKEN_LIFETIME: Final = "10m"
COLUMNS: Final = (Column("HOST"), Column("WORKER"), Column("RESULT"))


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hosts", metavar="FILE", required=True, help="file of machines, one per line")
    parser.add_argument(
        "--ssh-config", metavar="FILE", default="", help="config file for ssh, instead of ~/.ssh/config"
    )
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    from weft.access.endpoints import config
    from weft.access.endpoints.addresses import Address
    from weft.node.bringup import record, ssh
    from weft.node.bringup.hosts import read_hosts

    where = config.scheduler_address(args.scheduler) or Address("localhost")
    hosts = read_hosts(args.hosts)
    _check(where, hosts)
    with record.locked(where):
        done = ssh.start_workers(hosts, where, lambda: _create_token(where), ssh_config=args.ssh_config)
    _show(args, where, done)
    return 0 if all(each.remote is not None for each in done) else 1


def _check(where: Address, hosts: list[Host]) -> None:
    from weft.node.bringup.hosts import is_this_machine

    away = [host.host for host in hosts if not is_this_machine(host)] if where.is_loopback else []
    if away:
        raise InputError(
            f"{away[0]} cannot reach a scheduler at {where}, which is a loopback address",
            hint="run weft auth init --host NAME and weft server --host 0.0.0.0, then give --scheduler NAME:PORT",
        )


def _create_token(where: Address) -> str:
    from weft.views.answers.auth import INVITE

    which = argparse.Namespace(port=None, scheduler=str(where))
    return auth_target.manage_tokens(which, INVITE, role="worker", expires=TOKEN_LIFETIME).token


def _show(args: argparse.Namespace, where: Address, done: list[StartResult]) -> None:
    if args.json:
        rows = [
            {"host": each.host.host, "worker": each.host.id, "joined": each.remote is not None, "words": each.error}
            for each in done
        ]
        render.print_json({"schema": 1, "scheduler": str(where), "hosts": rows})
        return
    cells = [
        [Cell(each.host.host), Cell(each.host.id), Cell("joined", "green") if each.remote else Cell(each.error, "red")]
        for each in done
    ]
    tables.print_table(COLUMNS, cells, args.color)
