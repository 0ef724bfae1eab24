from __future__ import annotations

import signal
import subprocess
import time

import pytest

from support.train_env import Inside

LOOP = """
import signal, sys, time
def train_until_told(stop):
    print('ready', flush=True)
    until = time.monotonic() + 20
    while not stop():
        assert time.monotonic() < until
        time.sleep(0.005)
"""


def ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def ends(process: subprocess.Popen[str], code: int) -> str:
    out, err = process.communicate(timeout=20)
    assert process.returncode == code, err
    return out.strip()


def test_sigterm_is_a_question_within_the_block(job: Inside) -> None:
    process = job.start(
        LOOP + "with train.preemptible() as p:\n    train_until_told(lambda: p.should_stop)\n    p.requeue()"
    )
    ready(process)
    process.send_signal(signal.SIGTERM)
    ends(process, 85)


def test_after_the_block_sigterm_does_what_it_did(job: Inside) -> None:
    process = job.start(LOOP + "with train.preemptible():\n    pass\nprint('ready', flush=True)\ntime.sleep(20)")
    ready(process)
    process.send_signal(signal.SIGTERM)
    ends(process, -signal.SIGTERM)


def test_a_handler_that_was_there_comes_back(job: Inside) -> None:
    script = (
        "import signal\nmine = lambda *_: None\nsignal.signal(signal.SIGTERM, mine)\n"
        "with train.preemptible():\n    with train.preemptible(): pass\n"
        "    assert signal.getsignal(signal.SIGTERM) is not mine\n"
        "print(signal.getsignal(signal.SIGTERM) is mine)"
    )
    assert job.run(script) == "True"


def test_a_signal_during_the_look_for_the_file_is_not_lost(job: Inside) -> None:
    script = "import os, signal\ndef exists(path): os.kill(os.getpid(), signal.SIGTERM)\n"
    script += "real, os.path.exists = os.path.exists, exists\ntrain.should_stop()\nos.path.exists = real\n"
    assert job.run(f"{script}print(train.should_stop())") == "True"


def test_should_stop_alone_takes_sigterm_over(job: Inside) -> None:
    process = job.start(LOOP + "train.should_stop()\ntrain_until_told(train.should_stop)\nsys.exit(3)")
    ready(process)
    process.send_signal(signal.SIGTERM)
    ends(process, 3)


def test_should_stop_leaves_a_handler_alone(job: Inside) -> None:
    script = (
        "import signal\nmine = lambda *_: None\nsignal.signal(signal.SIGTERM, mine)\n"
        "train.should_stop()\nprint(signal.getsignal(signal.SIGTERM) is mine)"
    )
    assert job.run(script) == "True"


def test_the_file_alone_says_it_too(job: Inside) -> None:
    process = job.start(LOOP + "train_until_told(train.should_stop)\nprint('told')")
    ready(process)
    time.sleep(0.05)
    (job.root / "preempt").touch()
    assert ends(process, 0) == "told"


def test_in_another_thread_the_file_is_watched_and_requeue_ends_the_process(job: Inside) -> None:
    process = job.start(
        LOOP + "import threading\n"
        "def work():\n    with train.preemptible() as p:\n        train_until_told(lambda: p.should_stop)\n"
        "        train.progress(9)\n        print('saved', end='')\n        p.requeue()\n"
        "threading.Thread(target=work).start()\ntime.sleep(20)"
    )
    ready(process)
    (job.root / "preempt").touch()
    assert ends(process, 85) == "saved"
    assert job.scheduler.rest()[-1]["step"] == 9


def test_what_was_said_last_is_out_before_the_exit(job: Inside) -> None:
    process = job.start(
        "with train.preemptible() as p:\n    for step in range(50): train.progress(step)\n"
        "    open('c', 'w').close(); train.checkpoint('c'); p.requeue()"
    )
    ends(process, 85)
    last = job.scheduler.rest()[-1]
    assert last["step"] == 49
    assert last["checkpoint"]["path"] == str(job.root / "c")


def test_a_forked_worker_can_still_be_ended(job: Inside) -> None:
    """As DataLoader workers are: one that ignored SIGTERM would be waited for without end."""
    script = (
        "import multiprocessing, time\n"
        "with train.preemptible():\n"
        "    worker = multiprocessing.get_context('fork').Process(target=time.sleep, args=(30,))\n"
        "    worker.start(); worker.terminate(); worker.join(10)\n"
        "    print(worker.exitcode)"
    )
    assert job.run(script) == str(-signal.SIGTERM)


def test_outside_a_job_sigterm_still_ends_the_process(job: Inside) -> None:
    process = job.start(
        LOOP + "with train.preemptible() as p:\n    train_until_told(lambda: p.should_stop)", outside=True
    )
    ready(process)
    process.send_signal(signal.SIGTERM)
    ends(process, -signal.SIGTERM)


@pytest.mark.parametrize("told", [False, True])
def test_looking_is_cheap(job: Inside, told: bool) -> None:
    if told:
        (job.root / "preempt").touch()
    out = job.run(
        "import time\nbest = 1.0\n"
        "for _ in range(5):\n"
        "    began = time.process_time()\n"
        "    for _ in range(10000): train.should_stop()\n"
        "    best = min(best, (time.process_time() - began) / 10000)\n"
        "print(best)"
    )
    assert float(out) < 5e-6
