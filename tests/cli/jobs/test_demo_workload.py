"""A submit without a command runs the built-in demo: it prints its GPUs, reports progress, saves and resumes."""

from __future__ import annotations

from support.running.local_scheduler import until
from support.weft_cli import Weft


def test_submit_with_flags_alone_runs_the_demo(weft: Weft) -> None:
    out, err = weft("submit", "--name=ResNet50 Training", "--gpus=2", "--memory=8192", "--duration=1s")
    assert err == "weft: no command given: the job runs the built-in demo for 1 s\nweft: duration: 1s\n"
    assert out.startswith("submitted job 1 (ResNet50 Training)")
    weft("wait", "1")
    shown = weft.show("1")
    assert (shown["state"], shown["name"], shown["gpus"]) == ("CD", "ResNet50 Training", 2), shown
    assert (shown["progress"]["step"], shown["progress"]["total"]) == (1.0, 1.0)
    log = weft("logs", "1").out
    assert "GPUs: 0,1, from 0.0 to 1.0 s\n" in log
    assert log.endswith("done\n")


def test_the_demo_takes_30_s_and_is_called_demo_by_default(weft: Weft) -> None:
    out, err = weft("submit", "--gpus", "0")
    assert "the built-in demo for 30 s" in err
    assert "(demo)" in out
    weft("cancel", "@")


def test_quiet_submits_print_the_id_alone(weft: Weft) -> None:
    assert weft("submit", "--quiet", "--gpus", "0", "--hold").err == ""


def test_a_preempted_demo_resumes(weft: Weft) -> None:
    job = weft.submit("--gpus", "2", "--duration", "4s")
    until(lambda: ((weft.show(job)["progress"] or {}).get("step") or 0) >= 1)
    weft("submit", "--gpus", "1", "--priority", "10", "--", "true")
    weft("wait", job)
    shown = weft.show(job)
    assert (shown["run"], shown["preemptions"], shown["failures"]) == (2, 1, 0)
    assert "from 0.0 to" not in weft("logs", job).out
