from __future__ import annotations

import math
import time

import pytest

from support.train_env import Inside
from weft.train.sender import MAX_METRICS, Sender


def test_the_scheduler_hears_the_step_the_total_and_the_metrics(job: Inside) -> None:
    job.run("train.progress(3, 10, loss=0.5, lr=1)")
    found = job.scheduler.next()
    assert found == {
        "job": "7",
        "run": 2,
        "step": 3,
        "total": 10,
        "metrics": {"loss": 0.5, "lr": 1.0},
        "checkpoint": None,
    }


def test_many_steps_are_few_messages_and_the_last_one_gets_out(job: Inside) -> None:
    begun = time.monotonic()
    job.run("import time\nfor step in range(200): train.progress(step, loss=step); time.sleep(0.005)")
    heard = job.scheduler.rest()
    assert heard[-1]["step"] == 199
    assert heard[-1]["metrics"] == {"loss": 199.0}
    assert len(heard) <= 5 * (time.monotonic() - begun) + 5  # five a second, and some for the ends
    assert len(heard) < 100


def test_a_value_that_nothing_follows_is_sent_while_the_step_lasts(job: Inside) -> None:
    process = job.start("for step in (1, 2, 3): train.progress(step)\ninput()")
    assert job.scheduler.until_step(3)
    process.communicate("\n", timeout=10)


def test_totals_and_metrics_once_told_are_kept(job: Inside) -> None:
    job.run("train.progress(1, 10, loss=0.5)\ntrain.progress(2, accuracy=0.25)")
    assert job.scheduler.until_step(2) | {"job": "", "run": 0} == {
        "job": "", "run": 0, "step": 2, "total": 10, "metrics": {"loss": 0.5, "accuracy": 0.25}, "checkpoint": None,
    }  # fmt: skip


def test_metrics_of_any_kind_do_no_harm(job: Inside) -> None:
    job.run(
        "class Tensor:\n    def __float__(self): return 2.5\n"
        "class Broken:\n    def __float__(self): raise KeyError\n"
        "train.progress(1, a=Tensor(), b='x', c=Broken(), d=float('nan'), e=float('inf'), f=None, g='1.5')"
    )
    assert job.scheduler.next()["metrics"] == {"a": 2.5, "d": None, "e": None, "f": None, "g": 1.5}


def test_metrics_without_end_are_cut(job: Inside) -> None:
    job.run("for step in range(1000): train.progress(step, **{f'm{step}': 1.0, 'x' * 5000: 2.0})")
    metrics = job.scheduler.until_step(999)["metrics"]
    assert len(metrics) <= MAX_METRICS
    assert metrics["m999"] == 1.0


def test_without_a_scheduler_nothing_is_said_and_nothing_waits(job: Inside) -> None:
    job.scheduler.close()
    job.scheduler.path.unlink()
    assert job.run("train.progress(1, 10)\ntrain.progress(10, 10)\nprint('went on')") == "went on"


def test_a_scheduler_that_does_not_listen_makes_nobody_wait(job: Inside) -> None:
    """Its socket is full: no process reads it."""
    out = job.run(
        "import time\nbegan = time.monotonic()\n"
        "for step in range(2000): train.progress(step, 1); train.reporting.reporter().flush()\n"
        "print(time.monotonic() - began)"
    )
    assert float(out) < 5.0


def test_a_scheduler_that_comes_back_learns_where_the_job_is(job: Inside) -> None:
    again = "train.progress(2)\nprint(train.reporting.reporter()._sender.flush(), flush=True)"
    process = job.start(f"train.progress(1, 10)\ninput()\n{again}\ninput()")
    assert process.stdin is not None
    assert process.stdout is not None
    job.scheduler.until_step(1)
    job.scheduler.close()
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "False\n", "it tries in vain"
    job.scheduler.open()
    assert job.scheduler.until_step(2)["total"] == 10
    process.communicate("\n", timeout=10)


def test_a_forked_child_reports_for_itself_and_not_for_its_parent(job: Inside) -> None:
    job.run(
        "import os\ntrain.progress(5)\nsender = train.reporting.reporter()\n"
        "pid = os.fork()\n"
        "if not pid:\n    assert train.reporting.reporter() is not sender\n    train.progress(6)\n"
        "    train.reporting.reporter().flush()\n    os._exit(0)\n"
        "os.waitpid(pid, 0)"
    )
    assert {each["step"] for each in job.scheduler.rest()} == {5, 6}


def test_several_threads_may_report(job: Inside) -> None:
    job.run(
        "import threading\n"
        "def work(name):\n    for step in range(5000): train.progress(step, **{name: step})\n"
        "threads = [threading.Thread(target=work, args=(f'm{i}',)) for i in range(4)]\n"
        "[each.start() for each in threads]; [each.join() for each in threads]"
    )
    assert job.scheduler.rest()[-1]["metrics"] == dict.fromkeys(("m0", "m1", "m2", "m3"), 4999.0)


def test_a_signal_handler_may_report_too(job: Inside) -> None:
    job.run(
        "import signal\nstep = 0\n"
        "signal.signal(signal.SIGALRM, lambda *_: train.progress(10**9, late=1))\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\n"
        "for step in range(100000): train.progress(step)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0)"
    )
    assert job.scheduler.rest()


@pytest.mark.parametrize("step", [1e300, math.inf, "x", None])
def test_steps_that_are_none_are_left_out(job: Inside, step: object) -> None:
    sender = Sender("7", 1, str(job.scheduler.path))
    sender.update(step, "many", {})
    sender.flush()
    found = job.scheduler.next()
    assert found["total"] is None
    assert found["step"] in (None, int(1e300))


def test_outside_a_job_nothing_happens(job: Inside) -> None:
    out = job.run(
        "import threading\ntrain.progress(1, 2, loss=3)\ntrain.checkpoint('x')\ntrain.done()\n"
        "print(train.should_stop(), train.resume_path(), threading.active_count())",
        outside=True,
    )
    assert out == "False None 1"
    assert job.scheduler.rest() == []
    assert not job.done.exists()
