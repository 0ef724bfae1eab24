"""`python -m support.peers.pool_tour slurm|ray`: shows how nodes come and go, on a Slurm or Ray of the tour's own."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator

from support.peers.ray_cluster import ray
from support.peers.slurm_cluster import slurm
from support.running.live_cluster import Cluster, cluster
from support.running.local_scheduler import until

SHAPE = ("--gpus-per-node", "2", "--model", "V100", "--memory", "16G", "--time", "30m", "--idle", "5s")
PATIENCE_S = 600.0


@contextlib.contextmanager
def _slurm() -> Iterator[tuple[Cluster, list[str]]]:
    print("starting Slurm: four nodes on loopback with two fake GPUs each", flush=True)
    with slurm() as below, cluster(env={"SLURM_CONF": below.env["SLURM_CONF"]}) as here:
        yield here, ["--slurm", *SHAPE, "--max-nodes", "4", "--", "-p", "gpu"]


@contextlib.contextmanager
def _ray() -> Iterator[tuple[Cluster, list[str]]]:
    print(
        "starting Ray in a namespace: a head, whose autoscaler adds up to two nodes with two fake GPUs each", flush=True
    )
    with ray(nodes=2) as head, cluster(prefix=head.prefix) as here:
        yield here, ["--ray", head.url, "--token-file", str(head.token_file), *SHAPE, "--max-nodes", "2"]


def _show(here: Cluster, *words: str) -> None:
    print(f"\n$ weft {shlex.join(words)}", flush=True)
    done = here.call(*words)
    print(done.stdout + done.stderr, end="", flush=True)


def _wait(here: Cluster, is_over: Callable[[], object]) -> None:
    """Wait, and print the pool whenever it changes."""
    shown = ""

    def is_done() -> object:
        nonlocal shown
        now = here.call("pool", "list").stdout
        if now != shown:
            print(shown := now, end="", flush=True)
        return is_over()

    until(is_done, PATIENCE_S)


def main(kind: str) -> None:
    with {"slurm": _slurm, "ray": _ray}[kind]() as (here, flags):
        _show(here, "pool", "add", "v100", *flags)
        _show(here, "submit", "--array", "1-6", "-q", "--name", "short", "--", "sleep", "3")
        _show(here, "submit", "--gpus", "4", "--name", "gang", "--", "sleep", "3")
        _show(here, "why", "gang")
        print("\nnodes come", flush=True)
        _wait(here, lambda: here.job("gang")["status"] not in ("waiting", "blocked"))
        _show(here, "wait", "gang")
        _show(here, "nodes")
        _show(here, "pool", "show", "v100")
        print("\nthe nodes are idle: they go", flush=True)
        _wait(here, lambda: not here.connected())
        _show(here, "history")
        _show(here, "pool", "remove", "v100")


if __name__ == "__main__":
    main(sys.argv[1])
