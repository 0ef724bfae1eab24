"""A world from its seed: machines, network, jobs and what goes wrong; and what must hold in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from clusters.head import Head
from clusters.machine import Machine
from clusters.mayhem import CHAOS_S, HEARTBEAT_S, LEASE_S, MARGIN_S, draw
from clusters.network import Network
from clusters.pair import Database, LedHead
from clusters.serving import PLACEMENT, Serving
from clusters.timeline import Stuck, Timeline
from clusters.truth import RunKey, Truth
from clusters.work import Work
from support.state_checks import check, snapshot
from weft.model import Cancelled, JobId, Rewoven, Start, Submitted
from weft.model.status import ENDED
from weft.node.engine.exit_rules import CHECKPOINTED_EXIT
from weft.scheduling.core.state.job import JobState, weave_id
from weft.server.nodes.gangs import parts_of

PATIENCE_S = 4000.0
"""The time after the last fault within which all jobs must have ended. Jobs lose their work when Muri moves them."""
ROUND_S = 5.0
SETTLED_S = 20.0
"""The longest time that a run is in another weave than decided: until a heartbeat of its agent shows it."""
LONG_S = 300.0
WEAVING = "muri-l:autopack=off"


class World:
    def __init__(self, seed: int, *, weaves: bool = False, services: bool = False, pair: bool = False) -> None:
        self.time = Timeline(seed)
        chance = self.time.chance
        mayhem = draw(chance)
        self.mayhem = mayhem = replace(mayhem, policy=WEAVING, longest_s=LONG_S) if weaves else mayhem
        self.truth, self.work = Truth(), Work(seed)
        self.network = Network(self.time, mayhem)
        placement = PLACEMENT if services else "packed"
        offset_s = chance.uniform(1000, 2000)
        self.pair: list[LedHead] = []
        """Two servers, if there are two."""
        if pair:
            self._start_pair(offset_s)
        else:
            self._only = Head(self.time, self.network, mayhem, offset_s, placement)
            self._only.die = self._crash_head
        names = [(f"m{at}", f"n{at}", gpus) for at, gpus in enumerate(mayhem.nodes)]
        if mayhem.impostor:
            names.append(("evil", "n0", mayhem.nodes[0]))
        self.machines = [
            Machine(name, node, gpus, self.time, self.network, mayhem, self.truth, self.work, -chance.uniform(0, 1000),
                    rendezvous=self._rendezvous)
            for name, node, gpus in names
        ]  # fmt: skip
        self.acked: set[JobId] = set()
        self.work.invent(chance, mayhem)
        if weaves:
            self.work.weave()
        if services:
            self.work.share()
        self.truth.woven = self._share if services else self._are_woven
        self.serving = Serving(self.time, self.head, seed) if services else None
        self._wrong: dict[JobId, tuple[str | None, float]] = {}
        """Runs in another weave than this one, which was decided, and since when they are."""
        for machine in self.machines:
            self.time.after(chance.uniform(0, 20 if machine.name == "evil" else 3), machine.start_agent)
        self._submit_all()
        self._go_wrong()

    @property
    def head(self) -> Head:
        """The server, or the one of two that led last."""
        return max(self.pair, key=lambda each: each.last_epoch) if self.pair else self._only

    def _start_pair(self, offset_s: float) -> None:
        """Two servers on one database. Leaders are stopped, killed and shut down more often than one that is alone."""
        self.mayhem = replace(self.mayhem, head_stalls_s=25.0, head_crashes_s=50.0)
        database = Database()
        self.pair = [LedHead(name, database, self.time, self.network, self.mayhem, offset_s) for name in "ab"]
        self.network.heads = list(self.pair)
        for each in self.pair:
            each.die = lambda each=each: self._crash(each)  # type: ignore[misc]
        self._often(40.0, lambda: self.time.chance.choice(self.pair).step_down())

    # ---- what people do

    def _submit_all(self) -> None:
        chance = self.time.chance
        for job in self.work.jobs.values():
            at = chance.uniform(0, CHAOS_S * 0.5)
            self.time.after(at, lambda job=job: self._submit(job.id))  # type: ignore[misc]
            if chance.random() < self.mayhem.cancels:
                self.time.after(at + chance.uniform(0, 40), lambda job=job: self._cancel(job.id))  # type: ignore[misc]

    def _submit(self, job: JobId) -> None:
        """Again and again until it is acknowledged, as with a key."""
        if job in self.acked:
            return
        if self.head.up:
            asked = self.work.jobs[job]
            self.head.ask(lambda now: ([Submitted(now, asked)], []), lambda: self.acked.add(job))
        self.time.after(3.0, lambda: self._submit(job))

    def _cancel(self, job: JobId) -> None:
        if self.head.up:
            self.head.ask(lambda now: ([Cancelled(now, job)], []))

    # ---- what goes wrong

    def _go_wrong(self) -> None:
        m, chance = self.mayhem, self.time.chance
        self._often(m.breaks_s, self.network.break_one)
        self._often(m.cuts_s, self._cut)
        self._often(m.head_crashes_s, self._crash_head)
        self._often(m.head_stalls_s, lambda: self.head.stall(chance.uniform(1, 3 * LEASE_S)))
        self._often(m.agent_crashes_s, lambda: self._restart(chance.choice(self.machines).crash_agent))
        self._often(m.reboots_s, lambda: self._restart(chance.choice(self.machines).reboot))
        self._often(m.goodbyes_s, lambda: chance.choice(self.machines).leave())
        self._often(m.shim_kills_s, lambda: chance.choice(self.machines).kill_a_shim())

    def _often(self, mean_s: float, do: Callable[[], None]) -> None:
        if not mean_s:
            return
        wait_s = self.time.chance.expovariate(1 / mean_s)

        def again() -> None:
            if self.time.now < CHAOS_S:
                do()
                self._often(mean_s, do)

        self.time.after(wait_s, again)

    def _cut(self) -> None:
        chance, deaf, mute = self.time.chance, self.network.deaf, self.network.mute
        self.network.cut(chance.choice(self.machines).name, chance.choice(((deaf,), (mute,), (deaf, mute))))

    def _crash_head(self) -> None:
        self._crash(self.head)

    def _crash(self, head: Head) -> None:
        if head.up:
            head.crash()
            self.time.after(self.time.chance.uniform(0.1, 15), self._start_head)

    def _start_head(self) -> None:
        for head in list[Head](self.pair) or [self.head]:
            if not head.up:
                head.start()

    def _restart(self, crash: Callable[[], None]) -> None:
        crash()
        chance = self.time.chance
        for machine in self.machines:
            if machine.agent is None:
                wait_s = chance.choice((1.0, 10.0, 40.0)) * chance.random()
                self.time.after(wait_s, machine.start_agent)

    # ---- what runs do

    def _rendezvous(self, key: RunKey) -> None:
        """The parts of a run work once all of them are there."""
        job = self.head.scheduler.state.jobs.get(key[0])
        assert job is not None, f"run {key} has started, of a job that is not on disk"
        nodes = parts_of(job.job, job.placed) if job.run == key[1] else ()
        here = [machine for machine in self.machines if (key, machine.name) in self.truth.living]
        if not nodes or {machine.node for machine in here} != set(nodes):
            return
        fate = self.work.fate(*key, len(here))
        for rank, machine in enumerate(here):
            if fate.code == 0:
                machine.finish_after(fate.lasts_s + rank * fate.stragglers_s, key, 0, None, "")
            elif rank == fate.culprit:
                machine.finish_after(fate.lasts_s, key, fate.code, None, "")

    # ---- weaves

    def _are_woven(self, one: RunKey, other: RunKey) -> bool:
        """Return whether the two were decided to take turns at some time: one of them may be stopping by now."""
        return other[0] in self._partners(one) or one[0] in self._partners(other)

    def _partners(self, key: RunKey) -> set[JobId]:
        facts = (fact for fact in self.head.disk if isinstance(fact, Start | Rewoven) and (fact.job, fact.run) == key)
        return {partner for fact in facts for partner in fact.weave}

    def _check_weaves(self) -> None:
        """A run takes its turns in the weave that was decided, now that everything works again, or will do so soon."""
        found = {job.id: (job, self._weave_of(job)) for job in self.head.scheduler.state.active.values()}
        wrong = {name: weave_id(job) for name, (job, really) in found.items() if really not in (None, weave_id(job))}
        if self.head.stalled:  # it hears nothing for a while
            wrong.clear()
        before, self._wrong = self._wrong, {}
        for name, wanted in wrong.items():
            known, since = before.get(name, (None, 0.0))
            self._wrong[name] = known, since = (wanted, since if known == wanted else self.time.now)
            assert self.time.now - since < SETTLED_S, f"{name} takes turns in {found[name][1]!r}, not in {wanted!r}"

    def _weave_of(self, job: JobState) -> str | None:
        """Return the weave in which the present run takes its turns; None where no message says so, or none arrives."""
        key = job.id, job.run
        if job.status != "running":
            return None
        for machine in self.machines:
            heard = machine.agent is not None and machine.agent.registered
            if machine.node == parts_of(job.job, job.placed)[0] and (key, machine.name) in self.truth.living and heard:
                return machine.disk[key].weave
        return None

    def _share(self, one: RunKey, other: RunKey) -> bool:
        """Return whether both were started on parts of their GPUs; the state has checked that they fit."""
        starts = [fact for fact in self.head.disk if isinstance(fact, Start) and (fact.job, fact.run) in (one, other)]
        return all(fact.share.request < 1 for fact in starts)

    # ---- from beginning to end

    def play(self) -> None:
        self.time.run(CHAOS_S)
        self._heal()
        end = CHAOS_S + PATIENCE_S
        while self.time.now < end and not self._all_ended():
            self.time.run(self.time.now + ROUND_S)
            self._check_weaves()
        if not self._all_ended():
            left = {job.id: job.status for job in self.head.scheduler.state.jobs.values() if job.status not in ENDED}
            raise Stuck(f"not ended {PATIENCE_S:.0f} s after everything works: {left}, acknowledged {self.acked}")
        # until the last message from before has arrived, and was answered
        self.time.run(max(self.time.now, CHAOS_S + 4 * LEASE_S) + LEASE_S + MARGIN_S + 3 * HEARTBEAT_S)
        self._check()

    def _heal(self) -> None:
        self.time.note("everything works again")
        self.network.heal()
        self._start_head()
        if self.serving is not None:
            self.serving.end()
        for machine in self.machines:
            if machine.name != "evil":
                machine.start_agent()

    def _all_ended(self) -> bool:
        state = self.head.scheduler.state
        mine = sum(job.job.replica is None for job in state.jobs.values())
        gone = self.serving is None or self.serving.gone
        return gone and len(state.ended) == len(state.jobs) and mine == len(self.work.jobs)

    def _check(self) -> None:
        state = self.head.scheduler.state
        check(state)
        twin = self.head.fresh()
        twin.replay(self.head.disk)
        assert snapshot(twin.state) == snapshot(state), "a restart would change the state"
        assert not self.truth.living, f"processes are left: {self.truth.living}"
        if self.serving is not None:
            self.serving.check()
        for job in state.jobs.values():
            if job.job.replica is None:
                self._check_job(job)
        for machine in self.machines:
            known = machine.agent.known if machine.agent and machine.agent.registered else ()
            assert not known, f"{machine.name} was never told that the ends of {known} are known"

    def _check_job(self, job: JobState) -> None:
        """Its end is what its last run really came to, and only what was its own fault has cost it a retry."""
        ends = self.truth.ends.get((job.id, job.run), [])
        own = [end.code for end in self.truth.by_themselves((job.id, job.run))]
        if job.status == "done":
            assert ends, f"{job.id} is done and never ran"
            assert all(end.code == 0 for end in ends), f"{job.id} is done, but its last run ended so: {ends}"
            assert job.code == 0
        elif job.status == "failed":
            assert job.code in [code for code in own if code != 0], f"{job.id}: code {job.code}, really {ends}"
        failed = sum(self._failed(job.id, run) for run in range(1, job.run + 1))
        assert job.failures <= failed, f"{job.id} has spent {job.failures} retries, and failed {failed} times"
        assert job.status != "failed" or failed > job.job.retries, f"{job.id} was not given all its retries"

    def _failed(self, job: JobId, run: int) -> bool:
        return any(end.code not in (0, CHECKPOINTED_EXIT) for end in self.truth.by_themselves((job, run)))


def play(
    seed: int,
    trace: Callable[[str], None] | None = None,
    *,
    weaves: bool = False,
    services: bool = False,
    pair: bool = False,
) -> World:
    world = World(seed, weaves=weaves, services=services, pair=pair)
    world.time.trace = trace
    world.play()
    return world
