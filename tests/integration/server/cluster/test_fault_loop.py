"""Faults at random for a while: the server, workers, shims and jobs are killed, the server and workers stand still,
workers say goodbye, and GPUs report errors. No job is lost or runs twice at once, every exit code is right, and only
failures of the job itself cost a retry.

WEFT_FAULTS_SEED=N plays another seed, WEFT_FAULTS_S=N lasts longer or shorter.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from storm.book import Begin, Book
from storm.feeder import Feeder
from storm.verdict import judge, left_over, unconfirmed
from support.running.live_cluster import OVER, Cluster, cluster
from support.running.local_scheduler import until
from weft.model import Cordoned, Exited

SEED = int(os.environ.get("WEFT_FAULTS_SEED", "7"))
SECONDS = float(os.environ.get("WEFT_FAULTS_S", "30"))
SOAK_S = 180.0
NODES = ("n1", "n2", "n3", "n4")
GPUS = 2
LEASE_S, MARGIN_S = 8, 7
PATIENCE_S = 300.0
"""After everything works again, until the next job ends, on a machine that has other things to do."""
MAX_WAITING = 10
"""Jobs that have not begun, beyond which no more are submitted: after the last fault, all of them must still end."""


@dataclass
class Faults:
    """The faults, one after the other. Each is undone a little later."""

    here: Cluster
    book: Book
    chance: Random
    note: Callable[[str], None]
    undo: list[tuple[float, str, Callable[[], object]]] = field(default_factory=list)
    """When to undo what is wrong with which process, and how."""
    seen: Counter[str] = field(default_factory=Counter)

    def next(self) -> None:
        for due in [each for each in self.undo if each[0] <= time.monotonic()]:
            self._undo(due)
        busy = {name for _, name, _ in self.undo}
        whole = [name for name in NODES if name not in busy]
        kinds: list[Callable[[], None]] = [self.kill_job, self.kill_job, self.kill_shim]
        if "server" not in busy:
            kinds += [self.kill_server, lambda: self.stand_still("server")]
        if len(whole) > 2:  # something goes on elsewhere
            node = self.chance.choice(whole)
            kinds += [
                lambda: self.kill_worker(node), lambda: self.stand_still(node), lambda: self.say_goodbye(node),
                lambda: self.break_gpu(node),
            ]  # fmt: skip
        self.chance.choice(kinds)()

    def mend(self) -> None:
        for due in list(self.undo):
            self._undo(due)

    def _undo(self, due: tuple[float, str, Callable[[], object]]) -> None:
        self.undo.remove(due)
        self.note(f"{due[1]} is mended")
        due[2]()

    def _later(self, name: str, what: str, undo: Callable[[], object], longest_s: float) -> None:
        wait_s = self.chance.uniform(0.5, longest_s)
        self.note(f"{name}: {what}, for {wait_s:.1f} s")
        self.seen[what] += 1
        self.undo.append((time.monotonic() + wait_s, name, undo))

    # ---- the faults

    def kill_server(self) -> None:
        self._later("server", "kill -9 of the server", self.here.start_server, 4.0)
        self.here.kill9("server")

    def kill_worker(self, node: str) -> None:
        self._later(node, "kill -9 of a worker", lambda: self.start(node), self.chance.choice((2.0, 25.0)))
        self.here.kill9(node)

    def say_goodbye(self, node: str) -> None:
        """Ends in order, and comes back. The worker is not waited for: it may have to wait for the server."""
        process = self.here.processes.pop(node)
        process.send_signal(signal.SIGTERM)

        def start_again() -> None:
            # it may have been terminated before it began: by the signal, or by its own handler
            assert process.wait(60) in (0, -signal.SIGTERM, 128 + signal.SIGTERM)
            self.start(node)

        self._later(node, "goodbye", start_again, 3.0)

    def stand_still(self, name: str) -> None:
        process = self.here.processes[name]
        self._later(name, "SIGSTOP", lambda: process.send_signal(signal.SIGCONT), 6.0)
        process.send_signal(signal.SIGSTOP)

    def break_gpu(self, node: str) -> None:
        """The driver reports an error; an admin opens the node again after the repair."""
        write_gpus(self.here.root, node, "Xid 79")
        self._later(node, "GPU error", lambda: write_gpus(self.here.root, node, ""), 4.0)

    def kill_job(self) -> None:
        for line in self._one_of(self.book.living_leaders()):
            self.seen["kill -9 of a job"] += 1
            self.note(f"kill -9 of run {line.run} of job {line.job}, rank {line.rank}")
            self.book.killed.add((line.job, line.run))
            with suppress(ProcessLookupError):
                os.kill(line.pid, signal.SIGKILL)

    def kill_shim(self) -> None:
        """Kill a shim, whether its worker is alive or not."""
        for line in self._one_of(self.book.living_leaders()):
            self.seen["kill -9 of a shim"] += 1
            self.note(f"kill -9 of the shim of run {line.run} of job {line.job}, rank {line.rank}")
            self.book.unkept.add((line.job, line.run))
            with suppress(OSError, IndexError):
                stat = Path(f"/proc/{line.pid}/stat").read_text()
                os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)

    def _one_of(self, lines: list[Begin]) -> list[Begin]:
        return [self.chance.choice(lines)] if lines else []

    def start(self, node: str) -> None:
        self.here.env["WEFT_NVML_FAKE"] = write_gpus(self.here.root, node)
        self.here.start(node, "worker", "--id", node, "--leave-grace", "3")
        del self.here.env["WEFT_NVML_FAKE"]


def write_gpus(root: Path, node: str, error: str | None = None) -> str:
    """Write what the driver of a node says of its GPUs. Without `error`, leave what is there."""
    path = root / f"{node}.gpus.json"
    if error is not None or not path.exists():
        devices = [{"index": at, "model": "V100", "memory_mb": 8000, "error": error or ""} for at in range(GPUS)]
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps({"devices": devices}))
        fresh.replace(path)
    return str(path)


def play(seed: int, seconds: float) -> Counter[str]:
    print(f"WEFT_FAULTS_SEED={seed} plays this again")
    began = time.monotonic()

    def note(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} {text}")

    options = ("--policy", "balanced", "--min-run", "0", "--lease", str(LEASE_S))
    with cluster(options=options, settings={"margin_s": MARGIN_S}) as here:
        chance, book = Random(seed), Book(here.root / "book")
        book.path.touch()
        faults, feeder = Faults(here, book, chance, note), Feeder(here, book)
        try:
            for node in NODES:
                faults.start(node)
            until(lambda: here.connected() == set(NODES))
            feeder.invent(chance, 10)
            until(book.begins)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                faults.next()
                count = chance.randint(1, 2)
                feeder.invent(chance, count if feeder.waiting < MAX_WAITING else 0)
                time.sleep(chance.uniform(0.3, 1.2))
            settle(here, faults, feeder, note)
            judge(here, book, feeder.jobs, feeder.rows())
            cordons = {fact.why for fact in here.facts() if isinstance(fact, Cordoned)}
            assert not faults.seen["goodbye"] or "NodeLeaving" in cordons
        finally:
            faults.mend()
            feeder.close()
            here.close()
        until(lambda: not left_over(here.root))
    return faults.seen


def unfinished(feeder: Feeder) -> int:
    """Return how many jobs have not ended. Without an answer, count all."""
    rows = feeder.rows()
    return len(feeder.jobs) - sum(row["status"] in OVER for row in rows.values())


def settle(here: Cluster, faults: Faults, feeder: Feeder, note: Callable[[str], None]) -> None:
    faults.mend()
    note("everything works again")
    until(lambda: here.call("nodes").returncode == 0, PATIENCE_S)  # the server may have been started just now
    until(lambda: feeder.is_done and here.connected() == set(NODES), PATIENCE_S)
    # a node whose GPU was mended just now may still report the error, and be cordoned for it after the undrain
    until(lambda: not any(gpu.get("error") for gpu in here.json("gpus")["gpus"]), PATIENCE_S)
    here.weft("undrain", *NODES)
    while left := unfinished(feeder):
        note(f"{left} jobs have not ended")
        until(lambda: unfinished(feeder) < left, PATIENCE_S)
    exits = Counter((fact.how, fact.why) for fact in here.facts() if isinstance(fact, Exited))
    note(f"{len(feeder.jobs)} jobs have ended; runs: {dict(exits)}; faults: {dict(faults.seen)}")
    until(lambda: not unconfirmed(here.workers) and not faults.book.living(), PATIENCE_S)


def test_nothing_is_lost_and_nothing_runs_twice() -> None:
    play(SEED, SECONDS)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [11, 12])
def test_nothing_is_lost_in_a_longer_loop(seed: int) -> None:
    seen = play(seed, SOAK_S)
    assert len(seen) >= 7, f"some faults never came to pass: {dict(seen)}"
