"""Add a pool of nodes that come when jobs wait and go when they are idle. Options of the site follow after --.

The scheduler must be able to reach the pool's provider: it calls sbatch, squeue and scancel, or the address of Ray, or
kubectl. Its nodes must reach the scheduler, and share the pool's folder with it."""

from __future__ import annotations

import argparse
import json
from typing import Final

from weft.cli import flags
from weft.cli.views import change_report

EXAMPLE: Final = """examples:
  weft pool add a100 --slurm --gpus-per-node 8 --model A100 --memory 80G --time 8h --max-nodes 16 -- -p gpu -A proj
  weft pool add burst --ray http://head:8265 --token-file ~/ray.token --gpus-per-node 8 --time 4h --max-nodes 8
  weft pool add k8s --kubernetes --image weft:1 --volume shared --gpus-per-node 8 --time 1d --max-nodes 4"""
PLAIN: Final = {
    "gpus-per-node": ("N", "GPUs of each node"), "model": ("NAME", "model of the GPUs"),
    "memory": ("MB", "memory of each GPU: 81920, 80G (32G)"), "time": ("T", "how long an allocation lasts: 8h, 1d"),
    "max-nodes": ("N", "the most nodes"), "min-nodes": ("N", "the least number of nodes, also when no job waits (0)"),
    "cpus": ("N", "CPUs of each node; 0: not counted (0)"), "mem": ("MB", "RAM of each node; 0: not counted (0)"),
    "labels": ("K=V", "labels of the nodes, K=V,K=V; pool=NAME is always there"),
    "backlog": ("N", "the most allocations that wait at a time, unless a gang needs more (2)"),
    "idle": ("T", "give a node back that no job needs for this long (5m)"),
    "leave-grace": ("T", "the most time for jobs to save their work before an allocation ends (20s)"),
    "folder": ("DIR", "folder that the servers and the nodes share (for one server: pools/NAME in its folder)"),
    "setup": ("LINES", "lines of the shell before the worker starts, such as module load cuda"),
    "weft": ("COMMAND", "command that starts Weft on a node (the scheduler's own Python)"),
    "token-file": ("FILE", "Ray: file with the token of its Jobs API"),
    "context": ("NAME", "Kubernetes: context of kubectl"), "namespace": ("NAME", "Kubernetes: namespace of the jobs"),
    "image": ("IMAGE", "Kubernetes: image with Weft and what jobs need"),
    "queue-name": ("NAME", "Kubernetes: queue of Kueue that admits the nodes"),
    "volume": ("CLAIM", "Kubernetes: volume claim that holds the pool's folder"),
}  # fmt: skip
"""Flags that the scheduler reads: their metavar and help."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pool", metavar="NAME", help="its name; its nodes are called NAME-0, NAME-1, ...")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--slurm", action="store_true", help="nodes are allocations of Slurm")
    where.add_argument("--ray", metavar="URL", help="nodes are jobs of the Ray cluster at this address")
    where.add_argument("--kubernetes", action="store_true", help="nodes are jobs of Kubernetes")
    for name, (metavar, text) in PLAIN.items():
        parser.add_argument(f"--{name}", metavar=metavar, help=text)
    parser.add_argument("--no-check", action="store_true", help="do not ask the provider whether it would accept it")
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.pools import ADD_POOL

    given = {name: getattr(args, name.replace("-", "_")) for name in PLAIN}
    values = {name: value for name, value in given.items() if value is not None}
    provider = "slurm" if args.slurm else "kubernetes" if args.kubernetes else "ray"
    if args.ray:
        values["url"] = args.ray
    if args.passed_on:
        values["options"] = json.dumps(args.passed_on)
    if args.no_check:
        values["check"] = "off"
    return change_report.operate(
        args, ADD_POOL, lambda found: f"pool {found.pool} is added; weft pool try {found.pool} tests it",
        pool=args.pool, provider=provider, **values,
    )  # fmt: skip
