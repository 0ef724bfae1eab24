"""Rules broken one at a time. A world that does not notice would be worth nothing: each has to be caught."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import pytest

from clusters.head import Head
from clusters.machine import Machine
from clusters.pair import Database, LedHead
from clusters.world import play
from weft.access.wire.messages import HeartbeatReply, Hello, ReweaveRun, StartRun
from weft.errors import WeftError
from weft.model import Fact, Unwoven
from weft.node.agent.actions import Action
from weft.node.agent.state_machine import Agent
from weft.node.engine import exit_rules
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.job import weave_id
from weft.server.nodes import registration
from weft.server.nodes.gangs import Gang
from weft.server.nodes.reconciler import RunReconciler
from weft.server.nodes.registry import NodeRegistry

Break = Callable[[pytest.MonkeyPatch], None]


def no_margin(patch: pytest.MonkeyPatch) -> None:
    """A node is given up when its lease ends: its shims have no time to kill."""
    patch.setattr(NodeRegistry, "lost_at", lambda self, member: member.heard_at + self._lease_s)


def no_lease(patch: pytest.MonkeyPatch) -> None:
    """A node is given up when it is silent."""
    patch.setattr(NodeRegistry, "lost_at", lambda self, member: member.heard_at + 3 * self._heartbeat_s)


def lease_from_answer(patch: pytest.MonkeyPatch) -> None:
    """The lease counts from when the answer came, not from when the heartbeat was sent."""

    def answered(self: Agent, reply: HeartbeatReply, now: float) -> list[Action]:
        if reply.epoch != self._epoch or reply.at < self._answered_at:
            return []
        self._answered_at = reply.at
        return self._renew_lease(now)

    patch.setattr(Agent, "_on_heartbeat_reply", answered)


def lease_from_before_restart(patch: pytest.MonkeyPatch) -> None:
    """A restarted scheduler gives up every node that is not connected at once."""
    before = NodeRegistry.__init__

    def init(self: NodeRegistry, state: Any, started_at: float, **rest: Any) -> None:
        before(self, state, started_at - 20, **rest)

    patch.setattr(NodeRegistry, "__init__", init)


def lease_without_end(patch: pytest.MonkeyPatch) -> None:
    """Shims do not look at the lease."""
    patch.setattr(Machine, "guard", lambda *_: None)


def answer_before_commit(patch: pytest.MonkeyPatch) -> None:
    """Ends are confirmed before they are on disk."""
    before = Head.ask

    def ask(self: Head, make: Any, then: Any = lambda: None) -> None:
        def at_once(now: float) -> Any:
            events, replies = make(now)
            self._do(list(replies), [])
            return events, []

        before(self, at_once, then)

    patch.setattr(Head, "ask", ask)


def order_before_commit(patch: pytest.MonkeyPatch) -> None:
    """Runs are ordered before that is on disk."""
    before = Head.fresh

    def fresh(self: Head) -> Any:
        scheduler = before(self)
        step = scheduler.step

        def hasty(*events: Any) -> Any:
            decisions = step(*events)
            self._do([], decisions)
            return decisions

        scheduler.step = hasty  # type: ignore[method-assign]
        return scheduler

    patch.setattr(Head, "fresh", fresh)


def no_epoch(patch: pytest.MonkeyPatch) -> None:
    """Orders of an earlier registration are taken."""
    before = Agent._on_start

    def ordered(self: Agent, order: StartRun, now: float) -> list[Action]:
        mine = StartRun()
        mine.CopyFrom(order)
        mine.epoch = self._epoch
        return before(self, mine, now)

    patch.setattr(Agent, "_on_start", ordered)


def no_fence(patch: pytest.MonkeyPatch) -> None:
    """An agent answers that an unknown run never started, although it may still start."""
    before = Machine.settle

    def settle(self: Machine, key: Any) -> None:
        claimed = key in self.disk
        before(self, key)
        if not claimed:
            del self.disk[key]
            if self.agent is not None:
                self.agent._known.pop(key, None)

    patch.setattr(Machine, "settle", settle)


def no_claim(patch: pytest.MonkeyPatch) -> None:
    """A run is started whenever that is ordered."""
    before = Machine.claim

    def claim(self: Machine, key: Any, order: StartRun, life: int) -> None:
        self.disk.pop(key, None)
        before(self, key, order, life)

    patch.setattr(Machine, "claim", claim)


def no_home(patch: pytest.MonkeyPatch) -> None:
    """A machine is identified by its name alone."""
    patch.setattr(registration, "check_runs_alive", lambda *_: None)
    patch.setattr(registration, "runs_alive", lambda *_: [])
    patch.setattr(registration, "has_changed", lambda *_: False)


def nothing_again(patch: pytest.MonkeyPatch) -> None:
    """Runs that an agent does not mention are not ordered again."""
    patch.setattr(RunReconciler, "_handle_missing", lambda *_: None)


def parts_confirmed_alone(patch: pytest.MonkeyPatch) -> None:
    """A part of a gang is confirmed when it ends, not when the gang has."""
    before = RunReconciler._conclude

    def add_up(self: RunReconciler, job: Any, gang: Gang, now: float) -> None:
        before(self, job, gang, now)
        for node in gang.ends:
            if node in self._members:
                self._confirm(self._members[node], job.id, job.run)

    patch.setattr(RunReconciler, "_conclude", add_up)


def first_end_counts(patch: pytest.MonkeyPatch) -> None:
    """A gang has ended when its first part has."""
    before = Gang.unfinished
    patch.setattr(Gang, "unfinished", lambda self: [] if self.ends else before(self))


def gang_not_torn(patch: pytest.MonkeyPatch) -> None:
    """When one part fails, the others go on."""
    patch.setattr(Gang, "has_failed", False)


def last_code_counts(patch: pytest.MonkeyPatch) -> None:
    """A gang ends as whichever part was heard of last."""
    before = Gang.combined_exit

    def verdict(self: Gang, job: Any, now: float) -> Any:
        self.ends = dict(reversed(self.ends.items()))
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr("weft.server.nodes.gangs.TORN", None)
            return before(self, job, now)

    patch.setattr(Gang, "combined_exit", verdict)


def lost_runs_cost(patch: pytest.MonkeyPatch) -> None:
    """A run that never started has failed."""
    patch.setattr(exit_rules, "NOT_JOBS_FAULT", frozenset())


def goodbye_believed(patch: pytest.MonkeyPatch) -> None:
    """A node is given up when its agent knows of no run, whatever the state has there."""
    before = NodeRegistry._handle_goodbye

    def handle(self: NodeRegistry, member: Any, goodbye: Any, now: float) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(RunReconciler, "jobs_on", lambda *_: [])
            before(self, member, goodbye, now)

    patch.setattr(NodeRegistry, "_handle_goodbye", handle)


def first_goodbye_is_the_last(patch: pytest.MonkeyPatch) -> None:
    """An agent says that nothing is left while its runs end."""
    before = Agent._goodbye

    def goodbye(self: Agent) -> list[Action]:
        actions = before(self)
        for action in actions:
            action.message.goodbye.done = True  # type: ignore[union-attr]
        return actions

    patch.setattr(Agent, "_goodbye", goodbye)
    goodbye_believed(patch)


def no_cordon_for_goodbye(patch: pytest.MonkeyPatch) -> None:
    """A node that leaves gets jobs."""
    patch.setattr(NodeRegistry, "_mark_leaving", lambda *_: None)


def starts_while_leaving(patch: pytest.MonkeyPatch) -> None:
    """An agent that leaves starts runs."""
    before = Agent._on_start

    def on_start(self: Agent, launch: StartRun, now: float) -> list[Action]:
        leaving, self._leaving = self._leaving, ""
        try:
            return before(self, launch, now)
        finally:
            self._leaving = leaving

    patch.setattr(Agent, "_on_start", on_start)


def leaving_costs(patch: pytest.MonkeyPatch) -> None:
    """A run that its node has stopped has failed."""
    patch.setattr(exit_rules, "NOT_JOBS_FAULT", exit_rules.NOT_JOBS_FAULT - {"node-stopped"})


def leaving_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A node that leaves and connects again gets jobs until it says goodbye again."""
    before = NodeRegistry._handle_hello

    def hello(self: NodeRegistry, conn: int, said: Hello, now: float) -> None:
        mine = Hello()
        mine.CopyFrom(said)
        mine.leaving = ""
        before(self, conn, mine, now)

    patch.setattr(NodeRegistry, "_handle_hello", hello)


def weave_sent_once(patch: pytest.MonkeyPatch) -> None:
    """A new weave is ordered when it is decided, and not again."""
    before = RunReconciler._compare_weave

    def compare(self: RunReconciler, member: Any, job: Any, news: Any, now: float) -> None:
        if news.weave_id == weave_id(job):
            before(self, member, job, news, now)

    patch.setattr(RunReconciler, "_compare_weave", compare)


def unwoven_in_the_journal_only(patch: pytest.MonkeyPatch) -> None:
    """A run that is woven no more is not told so."""
    before = NodeRegistry.execute

    def execute(self: NodeRegistry, decision: Any) -> Any:
        return [] if isinstance(decision, Unwoven) else before(self, decision)

    patch.setattr(NodeRegistry, "execute", execute)
    compare = RunReconciler._compare_weave

    def only_woven(self: RunReconciler, member: Any, job: Any, news: Any, now: float) -> None:
        if weave_id(job):
            compare(self, member, job, news, now)

    patch.setattr(RunReconciler, "_compare_weave", only_woven)


def weave_reported_as_ordered(patch: pytest.MonkeyPatch) -> None:
    """An agent reports the weave that was ordered last, whatever the folder of the run says."""
    before = Agent._on_reweave

    def ordered(self: Agent, asked: ReweaveRun) -> list[Action]:
        actions = before(self, asked)
        if actions:
            self._known[asked.job, asked.run].weave_id = asked.weave.id
        return actions

    patch.setattr(Agent, "_on_reweave", ordered)
    patch.setattr(Agent, "record_counters", lambda *_: None)
    patch.setattr(Agent, "report_weave", lambda *_: [])


def deposed_answers(patch: pytest.MonkeyPatch) -> None:
    """A leader whose lease has ended goes on answering, as if nothing had happened, but it cannot append."""
    before = Database.append

    def append(self: Database, epoch: int, holder: str, facts: Sequence[Fact], now: float) -> bool:
        before(self, epoch, holder, facts, now)
        return True

    patch.setattr(Database, "append", append)
    patch.setattr(LedHead, "_leads", lambda self: self.tenure is not None)


def unfenced_append(patch: pytest.MonkeyPatch) -> None:
    """A deposed leader can append."""

    def append(self: Database, epoch: int, holder: str, facts: Sequence[Fact], now: float) -> bool:
        self.record = self.record.renewed(epoch, holder, now) or self.record
        self.facts += facts
        return True

    patch.setattr(Database, "append", append)
    patch.setattr(LedHead, "_leads", lambda self: self.tenure is not None)


def state_of_the_last_lead(patch: pytest.MonkeyPatch) -> None:
    """A leader goes on with what it knew when it led last."""
    before = LedHead.fresh

    def fresh(self: LedHead) -> Scheduler:
        return self.scheduler if hasattr(self, "scheduler") and self.last_epoch > 1 else before(self)

    patch.setattr(LedHead, "fresh", fresh)


PAIR_MUTANTS: Final[tuple[Break, ...]] = (deposed_answers, unfenced_append, state_of_the_last_lead)
"""Only worlds with two servers notice these."""
WEAVE_MUTANTS: Final[tuple[Break, ...]] = (weave_sent_once, unwoven_in_the_journal_only, weave_reported_as_ordered)
"""Only worlds that weave notice these."""
MUTANTS: Final[tuple[Break, ...]] = (
    no_margin, no_lease, lease_from_answer, lease_from_before_restart, lease_without_end, answer_before_commit,
    order_before_commit, no_epoch, no_fence, no_claim, no_home, nothing_again,
    parts_confirmed_alone, first_end_counts, gang_not_torn, last_code_counts, lost_runs_cost,
    goodbye_believed, first_goodbye_is_the_last, no_cordon_for_goodbye, starts_while_leaving, leaving_costs,
    leaving_forgotten,
)  # fmt: skip


def catching(break_it: Break, seeds: Iterable[int]) -> Iterator[int]:
    """The seeds whose world notices."""
    for seed in seeds:
        with pytest.MonkeyPatch.context() as patch:
            break_it(patch)
            try:
                play(seed, weaves=break_it in WEAVE_MUTANTS, pair=break_it in PAIR_MUTANTS)
            except (
                AssertionError,
                WeftError,
                LookupError,
                ValueError,
            ):  # the last two: facts that contradict each other
                yield seed
