"""Groups of jobs: their short names, filters of the queue by group, and names that several groups use."""

from __future__ import annotations

import pytest

from support.builders import Rig, grid
from weft.access.auth.identity import Caller
from weft.access.wire.messages import QueryRequest
from weft.errors import InputError, NotFound, NotPermitted, UnknownName
from weft.model import Exited, GroupLimited, Job, Task
from weft.model.groups import group_label
from weft.scheduling.core.state.state import State
from weft.server.api.filters import JobFilter
from weft.server.jobs.groups import check_may_limit, find_group, group_views, limit_group, pause_group
from weft.server.jobs.job_refs import resolve, resolve_to_change

A, B = "workspace:/data/ann/A/scheduler_config.yml", "workspace:/data/ann/B/scheduler_config.yml"


def job(id: str, name: str = "a", group: str = "", user: str = "ann") -> Job:
    return Job(id, name=name, user=user, task=Task(group=group))


def a_state() -> State:
    rig = Rig("fifo", grid(1, 2))
    rig.submit(job("1", group=A), job("2", "b", A), job("3", group=B), job("4", "c", user="bob"))
    return rig.state


def test_users_limit_groups_of_which_all_jobs_are_theirs() -> None:
    rig = Rig("fifo", grid(1, 4))
    rig.submit(
        job("1", group="mine"), job("2", group="both"), job("3", group="both", user="bob"), job("4", group="done")
    )
    rig.exit("4")
    ann, admin = Caller("ann", "user"), Caller("root", "admin")
    check_may_limit(rig.state, "mine", ann)
    for group in ("mine", "both", "done", "new"):
        check_may_limit(rig.state, group, admin)
    for group, why in (("both", "jobs of others"), ("done", "no unfinished jobs of yours"), ("new", "no unfinished")):
        with pytest.raises(NotPermitted, match=why):
            check_may_limit(rig.state, group, ann)


@pytest.mark.parametrize(
    ("group", "label"),
    [
        ("sweep", "sweep"),
        (A, "A"),
        ("workspace:/data/ann/A/other.yml", "A:other.yml"),
        ("workspace:/data/ann/A:/data/ann/other.yml", "A:other.yml"),
        ("workspace:/data/ann/A:/data/ann/B/scheduler_config.yml", "A"),
    ],
)
def test_a_workspace_is_known_by_its_folder(group: str, label: str) -> None:
    assert group_label(group) == label


def test_a_name_of_several_groups_is_refused_where_jobs_change_and_read_elsewhere() -> None:
    state = a_state()
    assert resolve(state, ["a"], "ann") == ["1", "3"]
    with pytest.raises(NotFound, match=r"'a' matches jobs of 2 groups: A/a \(1\), B/a \(3\)\n  name one of them by GR"):
        resolve_to_change(state, ["a"], "ann")
    assert resolve_to_change(state, ["A/a", "b", "1-3"], "ann") == ["1", "2", "3"]
    assert resolve_to_change(state, [f"{B}/a"], "ann") == ["3"]


def test_ended_jobs_of_several_groups_are_not_told_apart_by_their_name() -> None:
    rig = Rig("fifo", grid(1, 2))
    rig.submit(job("1", group="x"), job("2", group="y"))
    for each in ("1", "2"):
        rig.exit(each)
    with pytest.raises(NotFound, match="2 groups"):
        resolve_to_change(rig.state, ["a"])
    assert resolve_to_change(rig.state, ["x/a"]) == ["1"]


def test_a_slash_without_a_group_names_jobs_of_no_group() -> None:
    rig = Rig("fifo", grid(1, 2))
    rig.submit(job("1", group="x"), job("2"))
    assert resolve_to_change(rig.state, ["/a"]) == ["2"]


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        (QueryRequest(group="A"), ["1", "2"]),
        (QueryRequest(group=B), ["3"]),
        (QueryRequest(states=["R"]), ["1", "2"]),
        (QueryRequest(states=["pending", "RUNNING"]), ["1", "2", "3", "4"]),
        (QueryRequest(name="[ab]"), ["1", "2", "3"]),
        (QueryRequest(user="bob"), ["4"]),
        (QueryRequest(user="ann", states=["PD"], name="a*", group="B"), ["3"]),
        (QueryRequest(states=["failed"]), []),
    ],
)
def test_a_filter_selects_jobs(request_: QueryRequest, found: list[str]) -> None:
    wanted = JobFilter(request_)
    assert wanted
    assert [each.id for each in wanted.select(a_state().jobs.values())] == found


def test_failed_jobs_are_those_out_of_time_and_memory_too() -> None:
    rig = Rig("fifo", grid(1, 4))
    rig.submit(*(job(str(number)) for number in range(1, 5)))
    for number, why in enumerate(["", "timeout", "oom"], start=1):
        rig.tell(Exited(rig.now, str(number), 1, "failed", code=1, why=why))
    wanted = JobFilter(QueryRequest(states=["failed"]))
    assert (wanted.ended, wanted.unfinished) == (True, False)
    assert [each.id for each in wanted.select(rig.state.jobs.values())] == ["1", "2", "3"]
    assert [each.id for each in JobFilter(QueryRequest(states=["to"])).select(rig.state.jobs.values())] == ["2"]


def test_an_unknown_state_and_a_huge_pattern_are_refused() -> None:
    with pytest.raises(UnknownName, match="unknown state 'rnning'"):
        JobFilter(QueryRequest(states=["rnning"]))
    with pytest.raises(InputError, match="too long"):
        JobFilter(QueryRequest(name="*a" * 500))


def test_settings_of_a_group_go_with_its_short_name() -> None:
    state = a_state()
    assert limit_group(state, "A", "4", 9.0) == GroupLimited(9.0, A, 4)
    state.apply(GroupLimited(9.0, A, 4))
    assert pause_group(state, "A", 9.0, paused=True) == GroupLimited(9.0, A, 4, paused=True)
    assert limit_group(state, "new", "none", 9.0) == GroupLimited(9.0, "new", None)
    assert [(view.label, view.jobs, view.running, view.waiting) for view in group_views(state)] == [
        ("A", 4, 2, 0), ("B", None, 0, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("jobs", ["0", "-1", "many", "", "1000001"])
def test_a_wrong_limit_is_refused(jobs: str) -> None:
    with pytest.raises(InputError, match="is not a whole number from 1 to"):
        limit_group(a_state(), "A", jobs, 0.0)


def test_a_short_name_of_two_groups_is_refused() -> None:
    rig = Rig("fifo", grid(1, 2))
    rig.submit(job("1", group=A), job("2", group=A.replace("ann", "bob")))
    with pytest.raises(InputError, match="short name of 2 groups"):
        find_group(rig.state, "A")
    with pytest.raises(InputError, match="no group is named"):
        find_group(rig.state, "")
