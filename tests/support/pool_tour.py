"""`python -m support.pool_tour slurm|ray`: shows how nodes come and go, on a Slurm or Ray of the tour's own."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator

from support.live_cluster import Cluster, cluster
from support.local_scheduler import until
from support.ray_cluster import ray
from support.slurm_cluster import slurm

SHAPE = ("--gpus-per-node", "2", "--model", "V100", "--memory", "16G", "--time", "30m", "--idle", "5s")
PATIENCE_S = 600.0


@contextlib.contextmanager
def _slurm() -> Iterator[tuple[Cluster, list[str]]]:
    print("starting Slurm: four nodes on loopback with two fake GPUs each")
    with slurm() as below, cluster(env={"SLURM_CONF": below.env["SLURM_CONF"]}) as here:
        yield here, ["--slurm", *SHAPE, "--max-nodes", "4", "--", "-p", "gpu"]


@contextlib.contextmanager
def _ray() -> Iterator[tuple[Cluster, list[str]]]:
    print("starting Ray in a namespace: a head, whose autoscaler adds up to two nodes with two fake GPUs each")
    with ray(nodes=2) as head, cluster(prefix=head.prefix) as here:
        yield here, ["--ray", head.url, "--token-file", str(head.token_file), *SHAPE, "--max-nodes", "2"]


def _show(here: Cluster, *words: str) -> None:
    print(f"\n$ weft {shlex.join(words)}", flush=True)
    done = here.call(*words)
    print(done.stdout + done.stderr, end="", flush=True)


def main(kind: str) -> None:
    with {"slurm": _slurm, "ray": _ray}[kind]() as (here, flags):
        _show(here, "pool", "add", "v100", *flags)
        _show(here, "submit", "--array", "1-6", "-q", "--name", "short", "--", "sleep", "3")
        _show(here, "submit", "--gpus", "4", "--name", "gang", "--", "sleep", "3")
        _show(here, "why", "gang")
        until(lambda: here.connected(), PATIENCE_S)
        _show(here, "pool", "list")
        _show(here, "wait", "gang")
        _show(here, "nodes")
        _show(here, "pool", "show", "v100")
        print("\nthe nodes are idle: they go")
        until(lambda: not here.connected(), PATIENCE_S)
        _show(here, "pool", "list")
        _show(here, "history")
        _show(here, "pool", "remove", "v100")


if __name__ == "__main__":
    main(sys.argv[1])
