"""Arrays on the command line: one line in the queue, and commands that take the array as a whole."""

from __future__ import annotations

from support.running.local_scheduler import until
from support.weft_cli import Weft

SLEEP = ("--gpus", "0", "--", "sleep", "60")


def row(weft: Weft, job: str) -> str:
    return next(line for line in weft("queue").out.splitlines() if line.split()[0] == job)


def test_an_array_is_one_line_of_the_queue(weft: Weft) -> None:
    array, other = weft.submit("--array", "0-9%2", "--name", "sweep", *SLEEP), weft.submit("--hold", *SLEEP)
    until(lambda: row(weft, array).endswith("2 running, 8 waiting (JobArrayTaskLimit)"))
    assert row(weft, array).split()[1:2] == ["sweep"]
    assert row(weft, other).endswith("(JobHeldUser)")
    assert len(weft("queue").out.splitlines()) == 3
    assert f"{array}_9" in weft("queue", "-r").out
    assert len(weft("queue", "-r").out.splitlines()) == 12
    assert len(weft.json("queue")["jobs"]) == 11
    weft("cancel", f"{array}_9")
    assert row(weft, array).endswith("2 running, 7 waiting, 1 cancelled (JobArrayTaskLimit)")
    assert len(weft("queue", "--limit", "1").out.splitlines()) == 2
    assert len(weft("queue", "--name", "sw*").out.splitlines()) == 2


def test_the_last_job_may_be_an_array_and_then_all_of_it_is_meant(weft: Weft) -> None:
    before = weft.submit("--hold", *SLEEP)
    array = weft.submit("--array", "0-3%1", *SLEEP)
    until(lambda: row(weft, array).endswith("1 running, 3 waiting (JobArrayTaskLimit)"))
    assert weft.show("@~1")["id"] == before
    assert weft("why", "@").out.splitlines()[0] == f"array {array} (sleep): 1 running, 3 waiting"
    weft("cancel", "@", "-y")
    weft("wait", array, code=None)
    assert {job["status"] for job in weft.json("show", array)["jobs"]} == {"cancelled"}
    assert " 4 cancelled\n" in weft("show", "@").out


def test_show_why_and_logs_take_an_array(weft: Weft) -> None:
    array = weft.submit("--array", "1-3%1", "--gpus", "0", "--", "sh", "-c", "echo $WEFT_ARRAY_TASK_ID; sleep 60")
    until(lambda: weft("logs", f"{array}_1", code=None).out == "1\n")
    shown = weft("show", array).out
    assert shown.split()[:2] == ["job", array]
    assert " 1 running, 2 waiting\n" in shown
    assert len(weft.json("show", array)["jobs"]) == 3
    lines = weft("why", array).out.splitlines()
    assert lines[:2] == [f"array {array} (sh): 1 running, 2 waiting", f"job {array}_2 (sh) is blocked"]
    assert "JobArrayTaskLimit" in lines[2]
    assert weft("logs", array).out == weft("logs", "@").out == f"==> {array}_1 <==\n1\n"
    assert "is an array of 3 tasks" in weft("logs", "-f", array, code=2).err
    weft("cancel", f"{array}_1", "-y")
    until(lambda: weft("logs", array).out == f"==> {array}_1 <==\n1\n==> {array}_2 <==\n2\n")


def test_an_array_that_restarts_keeps_its_limit(weft: Weft) -> None:
    array = weft.submit(
        "--array", "0-4%2", "--gpus", "0", "--", "sh", "-c", "test $WEFT_ARRAY_TASK_ID -gt 1 && sleep 60"
    )
    weft("wait", f"{array}_0", f"{array}_1", code=1)
    cancelled = weft("cancel", array, "-y")
    assert cancelled.out == f"cancelled {array}: 3 tasks\n"
    assert f"2 tasks of job {array} are unchanged, such as {array}_0: it is failed already" in cancelled.err
    assert f"2 tasks of job {array} are unchanged" not in weft("cancel", f"{array}_0", "-y", code=6).err
    weft("wait", array, code=None)
    weft("cancel", array, "-y", code=6)
    again = weft("restart", array).out
    number = again.split()[2].rstrip(":")
    assert again == f"submitted job {number}: 5 tasks\n"
    until(lambda: row(weft, number).endswith("2 running, 1 waiting, 2 failed (JobArrayTaskLimit)"))
    weft("cancel", number, "-y")  # its tasks hold the CPUs
    single = weft("restart", f"{array}_0").out.split()[2]
    assert "_" not in single, "one task alone is a job"
    weft("wait", single, code=1)


def test_the_limit_of_an_array_is_set(weft: Weft) -> None:
    array = weft.submit("--array", "0-5%1", *SLEEP)
    assert weft("set", array, "limit=2").out == f"changed {array}\n"
    until(lambda: row(weft, array).endswith("2 running, 4 waiting (JobArrayTaskLimit)"))
    assert "not a task of an array" in weft("set", weft.submit("--hold", *SLEEP), "limit=3", code=6).err
    assert "is not a whole number from 1" in weft.fails("set", array, "limit=0")
    assert "set it alone" in weft.fails("set", array, "limit=2", "priority=1")


def test_a_tree_shows_what_depends_on_what(weft: Weft) -> None:
    first = weft.submit("--hold", "--name", "prepare", *SLEEP)
    other = weft.submit("--hold", "--name", "other", *SLEEP)
    second = weft.submit("--after", first, "--name", "train", *SLEEP)
    third = weft.submit("--after", f"{second},{other}", "--name", "evaluate", *SLEEP)
    lines = [line.split()[:3] for line in weft("queue", "--tree", "--no-header").out.splitlines()]
    assert [line[0] for line in lines] == [first, second, third, other]
    assert lines[1][1:] == ["└─", "train"]
    assert "   └─ evaluate" in weft("queue", "--tree").out


def test_the_name_of_an_array_means_all_its_tasks(weft: Weft) -> None:
    command = ("--gpus", "0", "--", "sh", "-c", "echo $WEFT_ARRAY_TASK_ID")
    array = weft.submit("--array", "1-2%1", "--name", "sweep", "--hold", *command)
    assert weft("why", "sweep").out.splitlines()[0] == f"array {array} (sweep): 2 held"
    assert weft("show", "sweep").out.split()[:2] == ["job", array]
    weft("release", "sweep")
    weft("wait", "sweep")
    until(lambda: weft("logs", "sweep").out == f"==> {array}_1 <==\n1\n==> {array}_2 <==\n2\n")
    again = weft("restart", "sweep").out.split()[2].rstrip(":")
    assert len(weft.json("show", again)["jobs"]) == 2
    weft("wait", again)
