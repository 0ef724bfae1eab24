"""Which facts lead to messages: jobs, arrays, groups, and what happened while no server ran."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.builders import Rig, grid
from weft.access.notify.outbox import Position
from weft.errors import InputError
from weft.model import Cancelled, Event, Exited, GroupLimited, Job, Submitted, Task
from weft.model.slots import format_slots
from weft.server.jobs.groups import group_views, notify_group
from weft.server.notifications.notices import Notice, Notices


class Watched:
    """A scheduler, and the notices of each batch of its facts."""

    def __init__(self, gpus: int = 8) -> None:
        self.rig = Rig("fifo", grid(1, gpus))
        self.notices = self.restarted()[0]
        self.texts: list[str] = []

    def restarted(self, position: Position | None = None) -> tuple[Notices, list[str]]:
        made = Notices("host", format_slots)
        found = made.catch_up(self.rig.state, position or Position(self.rig.state.now))
        return made, _texts(found)

    def tell(self, *events: Event) -> list[str]:
        decisions = self.rig.tell(*events)
        found = _texts(self.notices.record(self.rig.state, events, decisions))
        self.texts += found
        return found

    def submit(self, *jobs: Job) -> list[str]:
        return self.tell(*(Submitted(self.rig.now, job) for job in jobs))

    def end(self, *ids: str, how: str = "done") -> list[str]:
        self.rig.now += 1
        state = self.rig.state
        return self.tell(*(Exited(self.rig.now, id, state.jobs[id].run, how) for id in ids))  # type: ignore[arg-type]


def _texts(notices: Iterable[Notice]) -> list[str]:
    return [str(each.message["message"]) for each in notices]


def job(id: str, notify: str = "", group: str = "", batch: str = "", gpus: int = 1) -> Job:
    return Job(id, gpus, name=f"j{id}", user="ann", batch=batch, task=Task(notify=notify, group=group))


def test_a_job_leads_to_the_messages_that_it_chose() -> None:
    watched = Watched()
    assert watched.submit(job("1", "started,done"), job("2", "failed"), job("3")) == ["job 1 (j1) started on n0[0]"]
    assert watched.end("1", "3") == ["job 1 (j1) is done, after 0:01"]
    assert watched.end("2", how="failed") == ["job 2 (j2) failed, after 0:02"]
    watched.submit(job("4", "done,failed"), job("5", "cancelled"))
    assert watched.tell(Cancelled(9.0, "4"), Cancelled(9.0, "5")) == []
    assert watched.end("4", "5", how="stopped") == ["job 5 (j5) was cancelled, after 0:01"]


def test_a_run_that_is_tried_again_leads_to_no_message() -> None:
    watched = Watched()
    watched.submit(Job("1", retries=1, task=Task(notify="started,done,failed")))
    assert watched.texts == ["job 1 started on n0[0]"]
    assert watched.end("1", how="failed") == []
    assert watched.end("1", how="failed") == ["job 1 failed, after 0:02"]


def test_an_array_leads_to_one_message_at_its_end() -> None:
    watched = Watched(4)
    tasks = [f"7_{at}" for at in range(6)]
    assert watched.submit(*(job(each, "started,done,failed", batch="7") for each in tasks)) == [
        "array 7 (j7_0) started"
    ]
    assert watched.end(*tasks[:4]) == []
    assert watched.end(tasks[4], how="failed") == []
    assert watched.end(tasks[5]) == ["array 7 (j7_5): 5 of 6 done, 1 failed"]


def test_an_array_that_is_done_needs_no_message_about_failures() -> None:
    watched = Watched()
    watched.submit(*(job(f"7_{at}", "failed", batch="7") for at in range(2)))
    assert watched.end("7_0", "7_1") == []


def test_a_group_leads_to_one_message_whenever_its_last_job_ends() -> None:
    watched = Watched(2)
    watched.submit(job("1", group="g"))
    watched.end("1")
    watched.tell(GroupLimited(2.0, "g", notify="done,failed"))
    watched.submit(*(job(f"{at}", group="g") for at in range(2, 5)), job("9", group="other"))
    assert watched.end("2") == []
    assert watched.end("3") == []
    assert watched.end("4") == ["group g: 3 of 3 done"]
    watched.submit(job("5", group="g"))
    assert watched.end("5", how="failed") == ["group g: 0 of 1 done, 1 failed"]
    watched.tell(GroupLimited(9.0, "g"))
    watched.submit(job("6", group="g"))
    assert watched.end("6") == []


def test_the_limit_of_a_group_and_its_messages_are_set_apart() -> None:
    watched = Watched()
    state = watched.rig.state
    watched.tell(GroupLimited(1.0, "g", 2))
    event = notify_group(state, "g", "done@team", 2.0)
    assert event == GroupLimited(2.0, "g", 2, notify="done@team")
    watched.tell(event)
    (view,) = group_views(state)
    assert (view.jobs, view.notify) == (2, "done@team")
    assert notify_group(state, "g", "none", 3.0) == GroupLimited(3.0, "g", 2)
    with pytest.raises(InputError, match="unknown event"):
        notify_group(state, "g", "sometimes", 3.0)
    with pytest.raises(InputError, match="a group has no start"):
        notify_group(state, "g", "started,done", 3.0)


def test_what_ended_while_no_server_ran_is_found_once() -> None:
    watched = Watched()
    watched.tell(GroupLimited(0.0, "g", notify="done"))
    watched.submit(job("1", "started,done"), job("2", group="g"), job("3", group="g"), job("7_0", "done", batch="7"))
    watched.end("2")
    position = watched.notices.position(watched.rig.state)
    lost = watched.end("1", "3", "7_0")
    assert lost == ["job 1 (j1) is done, after 0:02", "array 7 (j7_0): 1 of 1 done", "group g: 2 of 2 done"]
    again, found = watched.restarted(position)
    assert found == lost, "the same messages, with the same ids"
    assert watched.restarted(again.position(watched.rig.state))[1] == []


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12), st.integers(0, 12))
def test_a_restart_at_any_moment_loses_and_doubles_nothing(ends: list[tuple[bool, bool]], cut: int) -> None:
    watched = Watched(12)
    watched.tell(GroupLimited(0.0, "g", notify="done,failed"))
    notified = "done,failed"
    watched.submit(*(job(f"{at + 1}", notified, "g" if grouped else "") for at, (grouped, _) in enumerate(ends)))
    expected = {f"job {at + 1} (j{at + 1})" for at in range(len(ends))}
    for at, (_, good) in enumerate(ends):
        if at == cut:
            position = watched.notices.position(watched.rig.state)
            watched.notices, found = watched.restarted(position)
            watched.texts += found
        watched.end(f"{at + 1}", how="done" if good else "failed")
    jobs = [text.partition(" is")[0].partition(" failed")[0] for text in watched.texts if text.startswith("job")]
    assert sorted(jobs) == sorted(expected)
    last = max((at for at, (grouped, _) in enumerate(ends) if grouped), default=None)
    groups = [text for text in watched.texts if text.startswith("group")]
    assert len(groups) == (0 if last is None else 1)
    total = sum(grouped for grouped, _ in ends)
    assert all(f"of {total} done" in text for text in groups)
