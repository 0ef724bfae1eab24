"""The rows of screens: what facts change, and what changes without a fact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from support.builders import grid
from weft.model import (
    Cancelled,
    Cordoned,
    Exited,
    Held,
    Job,
    JobId,
    NodeId,
    NodeJoined,
    NodeLost,
    Seconds,
    Submitted,
    Uncordoned,
)
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.job import JobState
from weft.scheduling.plugins import registry
from weft.views.answers.changes import ChangesView
from weft.views.answers.jobs import ProgressView
from weft.views.answers.live_rows import LiveRows
from weft.views.answers.services import ServiceView
from weft.views.answers.weaves import WeaveView
from weft.views.from_state import changed_rows as limits
from weft.views.from_state.change_tracker import MAX_EVENTS, ChangeTracker
from weft.views.from_state.changed_rows import ChangeBuilder, Readings
from weft.views.from_state.gpu_numbers import GpuNumbers
from weft.views.from_state.measured import GpuUsage, NodeConnection


class Desk:
    """A scheduler, and the rows that clients have been sent."""

    policy = "fifo"

    def __init__(self, nodes: int = 1, gpus: int = 2) -> None:
        self.scheduler = Scheduler(registry.load_policy("fifo"), registry.load_placement("packed"))
        self.numbers = GpuNumbers()
        self.usage: dict[tuple[NodeId, int], GpuUsage] = {}
        self.tracker, self.builder = ChangeTracker(self.numbers), ChangeBuilder(self)
        self.at = 0.0
        self.happen(*(NodeJoined(0.0, node) for node in grid(nodes, gpus)))

    def now(self) -> Seconds:
        return self.at

    def progress(self, job: JobState) -> ProgressView | None:
        return ProgressView(1, 2) if job.active else None

    def reported(self, since: Seconds) -> Sequence[JobId]:
        return list(self.scheduler.state.active)

    def readings(self) -> Readings:
        return dict(self.usage)

    def connections(self) -> Mapping[NodeId, NodeConnection]:
        return {}

    def services(self) -> Sequence[ServiceView]:
        return ()

    def weaves(self) -> Sequence[WeaveView]:
        return ()

    def happen(self, *events: object) -> None:
        decisions = self.scheduler.step(*events)  # type: ignore[arg-type]
        self.tracker.record(events)  # type: ignore[arg-type]
        self.tracker.record(decisions)

    def changes(self, *, slow: bool = False) -> ChangesView:
        return self.builder.changes(self.tracker.take(), slow=slow) or ChangesView()

    def ids(self, found: ChangesView) -> list[str]:
        return [job.id for job in found.jobs or ()]


def test_a_snapshot_has_everything_in_pages() -> None:
    desk = Desk(nodes=20, gpus=8)
    desk.happen(*(Submitted(1.0, Job(str(number), gpus=8)) for number in range(1, 251)))
    pages = list(desk.builder.snapshot())
    assert pages[0].reset
    assert pages[0].counts is not None
    assert (pages[0].counts.running, pages[0].counts.waiting) == (20, 230)
    assert sum(len(page.gpus or ()) for page in pages) == 160
    jobs = [job.id for page in pages for job in page.jobs or ()]
    assert sorted(jobs, key=int) == [str(number) for number in range(1, 251)]
    assert max(len(page.jobs or ()) for page in pages) <= limits.PAGE_ROWS
    assert list(pages[0].order or ())[:3] == ["21", "22", "23"]


def test_a_start_changes_its_job_and_its_gpus_only() -> None:
    desk = Desk(gpus=4)
    desk.happen(Submitted(1.0, Job("1", gpus=1)))
    desk.changes()
    desk.happen(Submitted(2.0, Job("2", gpus=2)))
    found = desk.changes()
    assert desk.ids(found) == ["2"]
    assert [(gpu.gpu, list(gpu.jobs)) for gpu in found.gpus or ()] == [(1, ["2"]), (2, ["2"])]
    assert [event.kind for event in found.events or ()] == ["Submitted", "Start"]
    assert desk.builder.changes(desk.tracker.take(), slow=False) is None


def test_a_job_that_its_dependency_frees_changes_without_a_fact() -> None:
    desk = Desk(gpus=1)
    desk.happen(Submitted(1.0, Job("1", gpus=1)), Submitted(1.0, Job("2", gpus=1)))
    desk.happen(Submitted(1.0, Job("3", gpus=1, after=("2",))))
    found = desk.changes()
    assert {job.id: job.status for job in found.jobs or ()}["3"] == "blocked"
    list(desk.builder.snapshot())
    desk.happen(Cancelled(2.0, "2"))
    first = desk.changes()
    seen = {job.id: job.status for each in (first, desk.changes(), desk.changes()) for job in each.jobs or ()}
    assert seen["3"] == "cancelled"


def test_ends_free_the_gpus() -> None:
    desk = Desk(gpus=1)
    desk.happen(Submitted(1.0, Job("1", gpus=1)))
    desk.changes()
    desk.happen(Exited(2.0, "1", 1, "done", code=0))
    found = desk.changes()
    assert [(job.status, job.place) for job in found.jobs or ()] == [("done", "")]
    assert [list(gpu.jobs) for gpu in found.gpus or ()] == [[]]
    assert found.counts is not None
    assert found.counts.ended == 1


def test_readings_are_sent_if_they_change() -> None:
    desk = Desk(gpus=2)
    (node,) = desk.scheduler.state.resources.by_id
    desk.usage = {(node, 0): GpuUsage(10, 5.0)}
    desk.changes(slow=True)
    assert desk.changes(slow=True).readings is None
    desk.usage[node, 0] = GpuUsage(20, 90.0)
    assert desk.changes(slow=True).readings == {node: [(0, 20, 90.0)]}
    desk.usage[node, 0] = GpuUsage(20, 90.0, error="Xid 79")
    assert [gpu.error for gpu in desk.changes(slow=True).gpus or ()] == ["Xid 79"]


def test_a_lost_node_leaves() -> None:
    desk = Desk(nodes=2)
    node = next(iter(desk.scheduler.state.resources.by_id))
    desk.changes()
    desk.happen(NodeLost(3.0, node))
    found = desk.changes()
    assert found.left == [node]
    assert not found.gpus


def test_a_lost_node_that_is_still_listed_stays_on_every_screen() -> None:
    desk, rows = Desk(nodes=2), LiveRows()
    for page in desk.builder.snapshot():
        rows.take(page)
    rows.take(desk.changes(slow=True))
    desk.happen(NodeLost(1.0, "n1"))
    rows.take(desk.changes(slow=True))
    assert {name: node.alive for name, node in rows.nodes.items()} == {"n0": True, "n1": False}
    desk.happen(Cordoned(2.0, "n1", "admin"))
    rows.take(desk.changes())
    rows.take(desk.changes(slow=True))
    desk.happen(Uncordoned(3.0, "n1", "admin"))
    rows.take(desk.changes(slow=True))
    assert {name: node.alive for name, node in rows.nodes.items()} == {"n0": True, "n1": False}
    assert {node for node, _ in rows.gpus} == {"n0"}


def test_a_burst_is_cut_short() -> None:
    desk = Desk()
    desk.happen(*(Submitted(1.0, Job(str(number), gpus=1)) for number in range(1, 1001)))
    found = desk.changes()
    assert len(found.events or ()) == MAX_EVENTS
    assert found.missed_events == 1000 + 2 + 1 - MAX_EVENTS  # two start, one node joined


def test_the_order_is_sent_if_it_changes() -> None:
    desk = Desk(gpus=1)
    desk.happen(*(Submitted(1.0, Job(str(number), gpus=1)) for number in range(1, 4)))
    assert desk.changes(slow=True).order == ["2", "3"]
    desk.happen(Held(2.0, "2"))
    assert desk.changes(slow=True).order == ["3"]
