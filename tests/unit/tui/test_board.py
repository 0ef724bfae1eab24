"""The board: changes come in, rows are as the last ones say."""

from __future__ import annotations

from support.screen_source import NOW, cluster
from weft.tui.model.board import MAX_ENDED, Board
from weft.views.answers.changes import ChangesView, CountsView, EventView
from weft.views.answers.jobs import JobView
from weft.views.answers.nodes import GpuView, NodeView


def board_of(*changes: ChangesView) -> Board:
    board = Board()
    for each in changes:
        board.apply(each, received_at=100.0)
    return board


def waiting(number: int, **fields: object) -> JobView:
    return JobView(**{"id": str(number), "status": "waiting", "state": "PD", "time_s": 5.0, **fields})  # type: ignore[arg-type]


def test_a_row_replaces_the_one_before() -> None:
    board = board_of(ChangesView(now=NOW, jobs=[waiting(1), waiting(2)]))
    version = board.versions["jobs"]
    board.apply(ChangesView(now=NOW + 1, jobs=[waiting(1, status="running", state="R", time_s=0.0)]), 101.0)
    assert [job.status for job in board.jobs.values()] == ["running", "waiting"]
    assert board.versions["jobs"] > version
    assert board.versions["gpus"] == 0, "nothing else is drawn again"


def test_the_same_change_twice_changes_nothing() -> None:
    changes = cluster(2, 4, 5)
    one, other = board_of(*changes), board_of(*changes, *changes[1:-1])
    assert (one.jobs, one.gpus, one.nodes) == (other.jobs, other.gpus, other.nodes)


def test_a_reset_forgets_everything() -> None:
    board = board_of(*cluster(2, 4, 5))
    board.apply(ChangesView(now=NOW, reset=True, counts=CountsView(), order=[]), 200.0)
    assert not board.jobs
    assert not board.gpus
    assert not board.nodes


def test_times_go_on_between_messages() -> None:
    board = board_of(ChangesView(now=NOW, jobs=[waiting(1)]))
    assert board.time_of(board.jobs["1"], 100.0) == 5.0
    assert board.time_of(board.jobs["1"], 107.5) == 12.5
    done = waiting(1, status="done", state="CD", time_s=3.0, ended="2027-01-15T08:00:00.000Z")
    board.apply(ChangesView(now=NOW + 9, jobs=[done]), 109.0)
    assert board.time_of(board.jobs["1"], 500.0) == 3.0


def test_the_times_of_a_simulation_follow_its_messages_alone() -> None:
    board = Board(simulated=True)
    board.apply(ChangesView(now=1000.0, jobs=[waiting(1)]), 100.0)
    assert board.time_of(board.jobs["1"], 900.0) == 5.0, "it is paused, or has ended"
    board.apply(ChangesView(now=4600.0), 101.0)
    assert board.time_of(board.jobs["1"], 101.0) == 3605.0


def test_readings_change_the_usage_alone() -> None:
    gpu = GpuView(node="n1", gpu=0, memory_mb=100, reserved_mb=40, jobs=["7"], used_mb=10, utilisation=5.0)
    board = board_of(
        ChangesView(now=NOW, gpus=[gpu]), ChangesView(now=NOW, readings={"n1": [(0, 30, 90.0), (9, 1, 1.0)]})
    )
    found = board.gpus["n1", 0]
    assert (found.used_mb, found.utilisation, found.jobs) == (30, 90.0, ["7"])
    assert board.mean_utilisation() == 0.9
    assert board.memory_part() == 0.3


def test_a_node_that_left_takes_its_gpus_with_it() -> None:
    gpus = [GpuView(node=node, gpu=0, memory_mb=1) for node in ("n1", "n2")]
    board = board_of(ChangesView(now=NOW, gpus=gpus, nodes=[NodeView(node="n1"), NodeView(node="n2")]))
    board.apply(ChangesView(now=NOW, left=["n1"]), 1.0)
    assert list(board.gpus) == [("n2", 0)]
    assert list(board.nodes) == ["n2"]
    board.apply(ChangesView(now=NOW, left=["n2"], nodes=[NodeView(node="n2", state="lost")]), 2.0)
    assert [node.state for node in board.nodes.values()] == ["lost"], "a node that is listed as lost stays"


def test_old_ended_jobs_leave_the_screen() -> None:
    ended = [
        waiting(number, status="done", state="CD", ended=f"2027-01-15T{8 + number // 60:02}:{number % 60:02}:00.000Z")
        for number in range(MAX_ENDED + 30)
    ]
    board = board_of(ChangesView(now=NOW, jobs=list(reversed(ended))))  # the latest first, as a snapshot has them
    assert len(board.jobs) == MAX_ENDED
    assert "0" not in board.jobs
    assert str(MAX_ENDED + 29) in board.jobs


def test_purged_jobs_go() -> None:
    board = board_of(ChangesView(now=NOW, jobs=[waiting(1), waiting(2)]), ChangesView(now=NOW, purged=["1", "99"]))
    assert list(board.jobs) == ["2"]


def test_events_say_how_many_are_missing() -> None:
    board = board_of(ChangesView(now=NOW, events=[EventView(NOW, "Start", "1")], missed_events=4000))
    assert [event.text for event in board.events] == ["", "and 4,000 more events"]
