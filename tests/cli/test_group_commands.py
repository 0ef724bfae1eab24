"""Groups of jobs on the command line: submit, list, filter, limit, pause."""

from __future__ import annotations

import json

from support.running.local_scheduler import until
from support.weft_cli import Weft

SLEEP = ("--gpus", "0", "--", "sleep", "60")


def ids(weft: Weft, *words: str) -> list[str]:
    return [job["id"] for job in weft.json(*words)["jobs"]]


def test_the_queue_shows_groups_and_filters_by_them(weft: Weft) -> None:
    plain = weft.submit("--hold", "--name", "plain", *SLEEP)
    assert "GROUP" not in weft("queue").out
    one = weft.submit("--hold", "--group", "sweep", "--name", "s-1", *SLEEP)
    two = weft.submit("--hold", "--partition", "sweep", "--name", "s-2", *SLEEP)
    head, *rows = weft("queue").out.splitlines()
    assert head.split()[:3] == ["JOBID", "NAME", "GROUP"]
    assert [row.split()[:3] for row in rows] == [[plain, "plain", "-"], [one, "s-1", "sweep"], [two, "s-2", "sweep"]]
    assert ids(weft, "queue", "--group", "sweep") == [one, two]
    assert ids(weft, "queue", "--name", "s-*", "-t", "H") == [one, two]
    assert ids(weft, "queue", "--group", "sweep", "--limit", "1") == [one]
    assert "1 more job" in weft("queue", "--group", "sweep", "--limit", "1").err
    assert ids(weft, "queue", "--user", "nobody-else") == []
    assert "unknown state 'nope'" in weft.fails("queue", "-t", "nope")
    assert weft.json("queue")["jobs"][1]["group"] == "sweep"


def test_failed_jobs_are_listed_by_queue_and_history(weft: Weft) -> None:
    good, bad = weft.submit("--gpus", "0", "--", "true"), weft.submit("--gpus", "0", "--group", "g", "--", "false")
    weft("wait", good, bad, code=1)
    waiting = weft.submit("--hold", *SLEEP)
    assert ids(weft, "queue", "--failed") == [bad]
    assert ids(weft, "queue", "-a", "-t", "failed,H") == [waiting, bad]
    assert ids(weft, "history", "--failed") == [bad]
    assert ids(weft, "history", "-t", "CD") == [good]
    assert weft("history", "--group", "g").out.splitlines()[0].split()[:3] == ["JOBID", "NAME", "GROUP"]


def test_a_group_has_a_limit_and_can_be_paused(weft: Weft) -> None:
    assert weft("group", "set", "g", "jobs=1").err == "weft: at most 1 job of group g at a time\n"
    first, second = weft.submit("--group", "g", *SLEEP), weft.submit("--group", "g", *SLEEP)
    until(lambda: weft.show(first)["status"] == "running")
    assert weft.show(second)["reason"] == "GroupLimit"
    assert "GroupLimit: at most 1 jobs of the group g at a time" in weft("why", second).out
    weft("pause", "--group", "g")
    weft("cancel", first)
    until(lambda: weft.show(first)["status"] == "cancelled")
    assert weft.show(second)["reason"] == "GroupPaused"
    assert weft("group", "list").out.splitlines()[1].split() == ["g", "0", "1", "1", "paused"]
    weft("resume", "--group", "g")
    until(lambda: weft.show(second)["status"] == "running")
    assert weft("group", "set", "g", "jobs=none").err == "weft: group g has no limit\n"
    (found,) = json.loads(weft("group", "list", "--json").out)["groups"]
    assert (found["group"], found["jobs"], found["paused"], found["running"]) == ("g", None, False, 1)
    assert "is not jobs=N" in weft.fails("group", "set", "g", "size=3")


def test_a_limit_survives_the_scheduler(weft: Weft) -> None:
    weft("group", "set", "g", "jobs=2")
    weft("pause", "--group", "g")
    waiting = weft.submit("--group", "g", *SLEEP)
    weft.site.kill9()
    assert weft("group", "list").out.splitlines()[1].split() == ["g", "0", "1", "2", "paused"]
    assert weft.show(waiting)["reason"] == "GroupPaused"


def test_a_name_of_two_groups_cancels_neither(weft: Weft) -> None:
    one = weft.submit("--hold", "--group", "x", "--name", "a", *SLEEP)
    two = weft.submit("--hold", "--group", "y", "--name", "a", *SLEEP)
    for verb in (("cancel",), ("release",), ("restart",), ("set", "priority=1")):
        said = weft(verb[0], "a", *verb[1:], code=3).err
        assert f"'a' matches jobs of 2 groups: x/a ({one}), y/a ({two})" in said
    assert weft("cancel", "x/a").out == f"cancelled {one}\n"
    assert weft("cancel", "a").out == f"cancelled {two}\n"
