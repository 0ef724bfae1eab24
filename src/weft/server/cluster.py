"""Runs on the nodes of a cluster, in the hands of their agents: the shell around the roster.

The roster decides what is said to whom; here are the streams, the clock that ticks, logs and what is kept of them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weft.core.state.job import JobState
from weft.engines.process import lease
from weft.engines.process.launch_spec import is_plain
from weft.engines.process.logs import MISSING, LogPart
from weft.engines.process.retention import RUNS_KEPT
from weft.errors import InputError, WeftError
from weft.model import Decision, Event, JobId, NodeId, Resumed, Seconds, Start
from weft.plugins import registry
from weft.server.api.gpu_numbers import GpuNumbers
from weft.server.jobs.admission import ManyNodes
from weft.server.jobs.checkpoints import Checkpoints
from weft.server.jobs.quotas import Limits
from weft.server.loop import CLOSING
from weft.server.nodes.gangs import nodes_of
from weft.server.nodes.log_requests import Pulls
from weft.server.nodes.log_tails import Tails
from weft.server.nodes.outbox import Reply, Send
from weft.server.nodes.registry import Roster
from weft.server.nodes.streams import Streams
from weft.server.settings import Settings
from weft.wire import messages as m
from weft.wire.runs import KEPT_AT_A_TIME

if TYPE_CHECKING:
    from weft.server.controller import Running

TICK_S: Final = 1.0
BEAT_S: Final = 5.0
MARGIN_S: Final = 2 * (lease.GRACE_S + lease.LOOK_S) + 10.0
"""What shims take, after the lease has ended, to see it and to kill; twice, for machines that are busy."""
NUMBERS: Final = "numbers.json"
log = logging.getLogger(__name__)


class Cluster:
    def __init__(self, *, lease_s: float, margin_s: float = 0.0, beat_s: float = BEAT_S) -> None:
        self._lease_s, self._margin_s, self._beat_s = lease_s, margin_s or MARGIN_S, min(beat_s, lease_s / 4)
        self.numbers = GpuNumbers()
        self.streams, self.pulls = Streams(), Pulls()
        self._ticking: asyncio.Task[None] | None = None
        self._where: dict[tuple[JobId, int], tuple[NodeId, ...]] = {}
        """The nodes of runs that are not the last of their job."""

    def check(self, settings: Settings) -> None:
        """Policies that weave need jobs that were made for it."""
        policy = registry.policy(settings.policy)
        if policy.weaves:
            others = [name for name in registry.names("weft.policies") if not registry.policy(name).weaves]
            raise InputError(
                f"policy {settings.policy!r} weaves jobs, which only a simulation can do",
                hint=f"others: {', '.join(sorted(others))}; weft sim and weft compare run it",
            )
        registry.placement(settings.placement or policy.placement)

    def settle(self, running: Running) -> None:
        self._running = running
        self._tails, self._checkpoints = Tails(running.places.jobs), Checkpoints(running.places.jobs)
        self._numbered: dict[NodeId, list[int]] = _load_numbers(running.places.state / NUMBERS)
        for node, numbers in self._numbered.items():
            self.numbers.know(node, numbers)
        self.limits: Limits | None = Limits(running.settings, running.places.state)
        self.roster = self._new_roster()

    def _new_roster(self) -> Roster:
        running = self._running
        return Roster(
            running.scheduler.state, running.loop.clock.now(), lease_s=self._lease_s, beat_s=self._beat_s,
            margin_s=self._margin_s, cluster=running.journal.name, version=version("weft"),
        )  # fmt: skip

    # ---- opening and closing

    async def open(self) -> None:
        self._running.loop.tell(self._opening)
        self._ticking = asyncio.get_running_loop().create_task(self._tick_after_tick())

    def _opening(self, now: Seconds) -> list[Event]:
        state = self._running.scheduler.state
        limits = self.limits.facts(state, now) if self.limits is not None else []
        return [*limits, *([Resumed(now, CLOSING)] if CLOSING in state.paused else [])]

    async def close(self) -> None:
        """Agents come back when there is a scheduler again; until then their lease counts."""
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.gather(self._ticking, return_exceptions=True)

    def part(self) -> None:
        """Sends the agents away, before the port is closed."""
        self.streams.close_all("UNAVAILABLE", "the scheduler ends")

    async def _tick_after_tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            try:
                self._say(await self._running.loop.ask(lambda now: self.roster.tick(now)))
            except WeftError as error:
                log.warning("%s", error)
            except Exception:
                log.exception("could not look after the agents")

    # ---- when the state was made anew

    def start_over(self, *, same: bool) -> None:
        """What the roster heard and could not be journalled would not be said again: then all agents register anew."""
        if same:
            self.roster.state = self._running.scheduler.state
            return
        self.streams.close_all("ABORTED", "the scheduler starts over: connect anew")
        self.roster = self._new_roster()

    async def find_again(self) -> None:
        """Agents say what they have when they register."""

    # ---- what agents say

    async def take(self, conn: int, message: m.AgentMessage) -> None:
        """Returns once what comes of it is on disk, and has been put in line to be sent."""
        replies: list[Reply] = await self._running.loop.ask(lambda now: self.roster.take(conn, message, now))
        if message.WhichOneof("is") == "hello" and (member := self.roster.member(conn)) is not None:
            self._count(member.id, [gpu.index for gpu in member.spec.gpus])
            log.info("node %s has registered: %d GPUs, Weft %s", member.id, len(member.spec.gpus), member.version)
        self._say(replies)

    def _count(self, node: NodeId, numbers: list[int]) -> None:
        self.numbers.know(node, numbers)
        if self._numbered.get(node) != numbers:
            self._numbered[node] = numbers
            _save_numbers(self._running.places.state / NUMBERS, self._numbered)

    def gone(self, conn: int) -> None:
        member = self.roster.member(conn)
        if member is not None:
            log.info("node %s is not connected any more", member.id)
        self.pulls.gone(conn)
        self._running.loop.tell(lambda now: self._parted(conn, now))

    def _parted(self, conn: int, now: Seconds) -> list[Event]:
        events, replies = self.roster.gone(conn, now)
        self._say(replies)
        return events

    async def keep(self, conn: int, tail: m.LogTail) -> None:
        member = self.roster.member(conn)
        if member is None or not is_plain(tail.job) or tail.job not in self._running.scheduler.state.jobs:
            return
        if not 0 < tail.run <= self._running.scheduler.state.jobs[tail.job].run:
            return
        try:
            await asyncio.to_thread(self._tails.keep, member.id, tail.job, tail.run, tail.offset, tail.text)
        except OSError as error:
            log.warning("the end of the log of job %s could not be kept: %s", tail.job, error)

    def progress(self, body: Mapping[str, Any]) -> None:
        self._running.progress.take(body)
        if body.get("checkpoint"):
            self._checkpoints.keep(str(body["job"]), body["checkpoint"])

    # ---- what is done

    def carry_out(self, decision: Decision) -> None:
        if isinstance(decision, Start):
            self._where[decision.job, decision.run] = nodes_of(decision.slots)
            self._where.pop((decision.job, decision.run - RUNS_KEPT), None)
        self._say(self.roster.carry_out(decision))

    def _say(self, replies: list[Reply]) -> None:
        for reply in replies:
            if isinstance(reply, Send) and reply.message.HasField("start") and reply.message.start.run > 1:
                reply.message.start.checkpoint = self._checkpoints.of(reply.message.start.job)
        self.streams.carry_out(replies)

    def kill_all(self) -> None:
        """They have been cancelled already, with their grace: agents are told again that none is left."""
        state = self._running.scheduler.state
        for job in list(state.active.values()):
            for node in nodes_of(job.slots):
                if (conn := self.roster.conn_of(node)) is not None and (member := self.roster.member(conn)) is not None:
                    stop = m.StopRun(epoch=member.epoch, job=job.id, run=job.run, why="cancelled", grace_s=0.0)
                    self.streams.send(conn, m.SchedulerMessage(stop=stop))

    def forget(self, jobs: Iterable[JobId]) -> None:
        gone = set(jobs)
        self._where = {key: nodes for key, nodes in self._where.items() if key[0] not in gone}
        named = sorted(gone)
        for start in range(0, len(named), KEPT_AT_A_TIME):
            message = m.SchedulerMessage(forget=m.Forget(jobs=named[start : start + KEPT_AT_A_TIME]))
            for member in self.roster.members():
                if member.conn is not None:
                    self.streams.send(member.conn, message)

    def forget_unknown(self, conn: int, kept: m.Kept) -> None:
        """An agent says what it keeps: what was forgotten while it was away goes now."""
        if len(kept.jobs) > KEPT_AT_A_TIME:
            raise InputError(f"{len(kept.jobs):,} jobs at a time", hint=f"at most {KEPT_AT_A_TIME:,}")
        known = self._running.scheduler.state.jobs
        gone = [job for job in kept.jobs if job not in known and is_plain(job)]
        if gone and self.roster.member(conn) is not None:
            self.streams.send(conn, m.SchedulerMessage(forget=m.Forget(jobs=gone)))

    def site(self) -> ManyNodes:
        return ManyNodes(self._running.scheduler.state, self.numbers)

    # ---- what is known

    def readings(self) -> Mapping[tuple[NodeId, int], Mapping[str, Any]]:
        return {
            (member.id, reading.gpu): {
                "used_mb": reading.used_mb, "utilisation": reading.utilisation, "processes": reading.processes,
            }
            for member in self.roster.members() if member.connected
            for reading in member.readings
        }  # fmt: skip

    def _node(self, job: JobState, run: int, rank: int) -> NodeId | None:
        """Of a rank of a run; of one that is long over, as far as anything of it is kept."""
        nodes = nodes_of(job.placed) if run == job.run else self._where.get((job.id, run), ())
        nodes = nodes or tuple(self._tails.nodes(job.id, run))
        return nodes[rank] if rank < len(nodes) else None

    def tail(self, job: JobId, run: int) -> bytes:
        known = self._running.scheduler.state.jobs.get(job)
        node = self._node(known, run, 0) if known is not None else None
        return self._tails.read(node, job, run).text if node is not None else b""

    async def read_log(self, job: JobState, run: int, rank: int, offset: int, lines: int) -> LogPart | None:
        node = self._node(job, run, rank)
        if node is None:
            return MISSING
        conn = self.roster.conn_of(node)
        if conn is None:
            return None
        return await self.pulls.pull(conn, lambda read: self.streams.send(conn, read), job.id, run, offset, lines)

    def kept_log(self, job: JobState, run: int, rank: int, lines: int) -> LogPart:
        node = self._node(job, run, rank)
        return MISSING if node is None else self._tails.read(node, job.id, run, lines=lines)

    def nodes(self) -> Mapping[NodeId, Mapping[str, Any]]:
        now = self._running.loop.clock.now()
        return {
            member.id: {
                "state": "connected" if member.connected else "silent", "beat_s": round(now - member.heard_at, 3),
                "load": round(member.load, 2), "address": member.spec.address, "version": member.version,
                "lost_in_s": None if member.connected else round(self.roster.lost_at(member) - now, 3),
            }
            for member in self.roster.members()
        }  # fmt: skip

    def about(self) -> dict[str, Any]:
        members = list(self.roster.members())
        state = self._running.scheduler.state
        return {
            "node": "",
            "nodes": {"connected": sum(each.connected for each in members), "all": len(members)},
            "gpus": [
                {"model": gpu.model, "memory_mb": gpu.memory_mb}
                for room in state.resources.nodes if room.alive for gpu in room.node.gpus
            ],
            "gpus_from": "agents", "driver": "ok", "cpus": 0, "ram_mb": 0,
            "lease_s": self._lease_s, "beat_s": self._beat_s,
        }  # fmt: skip


def _load_numbers(path: Path) -> dict[NodeId, list[int]]:
    """How the GPUs of nodes were numbered when they were last here."""
    try:
        found = json.loads(path.read_text())
        return {str(node): [int(number) for number in numbers] for node, numbers in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _save_numbers(path: Path, numbers: Mapping[NodeId, list[int]]) -> None:
    beside = path.with_suffix(".tmp")
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(numbers, file)
    beside.replace(path)
