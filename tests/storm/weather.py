"""The faults of a storm in each round, drawn from its seed. A seed draws the same faults; their timing varies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from storm.book import Book
from storm.proxy import Proxy
from support.running.live_cluster import Cluster
from support.running.local_scheduler import until
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.credentials import Credentials, save_credentials

LEASE_S = 5
MARGIN_S = 7
GPUS = 2
POLICIES = ("balanced", "fifo", "simple", "priority")
MOST_OUT = 2
"""The nodes with faults at a time: the others continue."""


@dataclass
class Storm:
    """Three nodes, each behind a separate proxy; each fault lasts for some rounds."""

    here: Cluster
    book: Book
    chance: Random
    note: Callable[[str], None]
    proxies: dict[str, Proxy] = field(default_factory=dict)
    _mending: dict[str, tuple[int, Callable[[], None]]] = field(default_factory=dict)
    """For each fault, the round in which it is undone, and how."""
    _frozen: set[str] = field(default_factory=set)
    _round: int = 0

    def open(self, *nodes: str) -> None:
        token = (self.here.folder / "token").read_text().strip()
        for node in nodes:
            proxy = self.proxies[node] = Proxy(self.here.port)
            save_credentials(Address("localhost", proxy.port), "worker", Credentials(token), self.here.env)
            self._start(node)

    def close(self) -> None:
        for proxy in self.proxies.values():
            proxy.close()

    def _start(self, node: str) -> None:
        where = f"localhost:{self.proxies[node].port}"
        gpus = ",".join(map(str, range(GPUS)))
        self.here.start(node, "worker", "--id", node, "--gpus", gpus, "--scheduler", where)

    # ---- one round

    def blow(self) -> None:
        self._round += 1
        for name in [name for name, (at, _) in self._mending.items() if at <= self._round]:
            self._mend(name)
        whole = [node for node in self.proxies if node not in self._mending]
        kinds: list[Callable[[], None]] = [self._kill_job, self._kill_job, self._kill_shim]
        if "server" not in self._mending:
            kinds.append(self.chance.choice((self._kill_server, self._freeze_server, self._restart_server)))
        if len(self.proxies) - len(whole) < MOST_OUT:
            node = self.chance.choice(whole)
            faults = (
                self._freeze, self._kill_agent, self._restart_agent, self._cut, self._cut_off, self._hold_up,
                self._hold_down, self._hold_both, self._delay,
            )  # fmt: skip
            kinds += [lambda fault=fault: fault(node) for fault in faults]  # type: ignore[misc]
        self.chance.choice(kinds)()

    def calm(self) -> None:
        """Everything works again."""
        for name in list(self._mending):
            self._mend(name)

    def _mend(self, name: str) -> None:
        self.note(f"{name} is mended")
        self._mending.pop(name)[1]()

    def _break(self, name: str, what: str, mend: Callable[[], None], *, longest: int) -> None:
        """Most are mended soon; some last until the node is lost."""
        rounds = longest if self.chance.random() < 0.4 else self.chance.randint(1, 2)
        self.note(f"{name}: {what}, for {rounds} rounds")
        self._mending[name] = self._round + rounds, mend

    # ---- who dies

    def _kill_server(self) -> None:
        self._break("server", "kill -9", self._start_server, longest=3)
        self.here.kill9("server")

    def _freeze_server(self) -> None:
        self._stop("server", longest=3)

    def _restart_server(self) -> None:
        policy = self.chance.choice(POLICIES)
        self.note(f"server: restarted with {policy}")
        self.here.end("server")
        self.here.options = ("--policy", policy, *self.here.options[2:])
        self._start_server()

    def _start_server(self) -> None:
        self.here.start_server()

    def _kill_agent(self, node: str) -> None:
        self._break(node, "kill -9", lambda: self._start(node), longest=11)
        self.here.kill9(node)

    def _restart_agent(self, node: str) -> None:
        self.note(f"{node}: its agent is restarted")
        self.here.end(node)
        self._start(node)

    def _freeze(self, node: str) -> None:
        self._stop(node, longest=11)

    def _stop(self, name: str, *, longest: int) -> None:
        process = self.here.processes[name]
        process.send_signal(signal.SIGSTOP)
        self._frozen.add(name)

        def go_on() -> None:
            process.send_signal(signal.SIGCONT)
            self._frozen.remove(name)

        self._break(name, "stopped", go_on, longest=longest)

    def _kill_job(self) -> None:
        living = self.book.living_leaders()
        if living:
            line = self.chance.choice(living)
            self.note(f"kill -9 of run {line.run} of job {line.job}, rank {line.rank}")
            self.book.killed.add((line.job, line.run))
            with suppress(ProcessLookupError):
                os.kill(line.pid, signal.SIGKILL)

    def _kill_shim(self) -> None:
        """Kill a shim where there is an agent, which ends what the shim leaves behind."""
        agents = self.here.processes.keys() - self._frozen
        living = [line for line in self.book.living_leaders() if line.node in agents]
        if living:
            line = self.chance.choice(living)
            shim = _parent(line.pid)
            if shim is None:
                return
            self.note(f"kill -9 of the shim of run {line.run} of job {line.job}, rank {line.rank}")
            self.book.unkept.add((line.job, line.run))
            with suppress(ProcessLookupError):
                os.kill(shim, signal.SIGKILL)
            left = [each for each in self.book.begins() if each.key == line.key and each.node == line.node]
            until(lambda: not any(each.lives for each in left))

    # ---- what happens to connections

    def _cut(self, node: str) -> None:
        self.note(f"{node}: cut once")
        self.proxies[node].cut()

    def _cut_off(self, node: str) -> None:
        self._break(node, "cut off, new connections are refused", self.proxies[node].mend, longest=11)
        self.proxies[node].cut(refuse=True)

    def _hold_up(self, node: str) -> None:
        self._break(node, "what it says is held up", self.proxies[node].mend, longest=11)
        self.proxies[node].hold("up")

    def _hold_down(self, node: str) -> None:
        self._break(node, "what it is told is held up", self.proxies[node].mend, longest=11)
        self.proxies[node].hold("down")

    def _hold_both(self, node: str) -> None:
        self._break(node, "held up both ways", self.proxies[node].mend, longest=11)
        self.proxies[node].hold("up", "down")

    def _delay(self, node: str) -> None:
        seconds = self.chance.uniform(0.1, 1.5)
        self._break(node, f"every piece takes {seconds:.1f} s", self.proxies[node].mend, longest=6)
        self.proxies[node].delay(seconds)


def _parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def pause(chance: Random) -> None:
    """Between two rounds."""
    time.sleep(chance.uniform(0.8, 2.2))
