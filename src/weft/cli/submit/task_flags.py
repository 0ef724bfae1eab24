"""The flags that describe a job, those of `submit` and `run`, and the keys of a task that they stand for."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from weft.jobspec.fields import Given

KEYS: Final = (
    "name", "gpus", "memory", "cpus", "mem", "priority", "time", "retries", "array", "chdir", "requeue_exit",
    "max_jobs_per_gpu", "gpu_ids", "gpu_model", "grace", "duration", "comment", "node",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-J", "--name", metavar="NAME", help="how it is called in the queue (default: its program)")
    add("-G", "--gpus", "--gres", metavar="N", help="how many GPUs; 0: none (default: 1)")
    add("--memory", metavar="MB", help="GPU memory on each: 8192, 8G; one figure, or one per GPU (default: 4096)")
    add("--cpus", metavar="N", help="CPUs per GPU, or in all where it needs no GPU")
    add("--mem", metavar="MB", help="main memory per GPU, or in all where it needs no GPU")
    add("--priority", metavar="N", help="larger goes first (default: 0)")
    add("-t", "--time", metavar="T", help="the longest a run may take: 90 (minutes), 45s, 2h, 1:30:00, 2-12:00:00")
    add("--duration", metavar="T", help="how long you think it takes")
    add("--retries", metavar="N", help="how often it is tried again after it failed (default: 0)")
    add("--after", metavar="JOB", action="append", help="start once these are done; repeat it, or use commas")
    add("--dependency", metavar="afterok:ID", action="append", help="the same, as Slurm has it")
    add("--array", metavar="0-9%4", help="one job for each index, at most four at a time; WEFT_ARRAY_TASK_ID tells")
    add("--env", metavar="NAME[=VALUE]", action="append", help="a variable more; without a value, as it is here")
    add("--env-all", action="store_true", help="all variables as they are here, secrets among them")
    add("--chdir", metavar="DIR", help="where it runs (default: here)")
    add("--requeue-exit", metavar="85,75", help="exit codes with which it asks to be run again")
    add("--max-jobs-per-gpu", metavar="K", help="it shares each GPU with up to K-1 others of its kind")
    add("--gpu-ids", metavar="0,1", help="on these GPUs and no others")
    add("--gpu-model", metavar="MODEL", help="on GPUs of this model")
    add("--node", metavar="NAME", help="on this node of a cluster and no other")
    add("--label", metavar="NAME=VALUE", action="append", help="on nodes with this label; repeat it: with all of them")
    add("--per-gpu", action="store_true", help="one process for each GPU, told its rank, instead of one for each node")
    add("--snapshot", action="store_true", help="run it in a copy of the files that git tracks here, as they are now")
    add("--grace", metavar="T", help="between being told to stop and being killed (30s; 60s to make room for others)")
    add("--comment", metavar="TEXT", help="for yourself; show prints it")
    add("--hold", action="store_true", help="do not start it before weft release")
    add("--param", metavar="NAME=VALUE", action="append", help="{params.NAME} in the command, WEFT_PARAM_NAME to it")
    add("--key", metavar="KEY", help="submitted again with the same key, it is submitted once")


def given_by(args: argparse.Namespace) -> dict[str, Given]:
    """What the flags say, as the keys of a task."""
    from weft.jobspec.environment import completed
    from weft.jobspec.sbatch import gres

    given: dict[str, Given] = {key: getattr(args, key) for key in KEYS if getattr(args, key) is not None}
    if args.gpus is not None and ":" in args.gpus:
        given |= gres(args.gpus)
    after = [*(args.after or ()), *(args.dependency or ())]
    if after:
        given["after"] = [part.strip() for text in after for part in text.split(",")]
    if args.env:
        given["env"] = completed(args.env, os.environ)
    if args.param:
        given["params"] = args.param
    if args.label:
        given["labels"] = args.label
    if args.hold:
        given["hold"] = "true"
    if args.per_gpu:
        given["per_gpu"] = "true"
    return given


def flag(key: str) -> str:
    """--requeue-exit for requeue_exit."""
    return "--" + {"params": "param", "labels": "label"}.get(key, key.replace("_", "-"))


def without_dashes(words: list[str]) -> list[str]:
    """The command, without the -- before it."""
    return words[1:] if words[:1] == ["--"] else words
