"""The GPU watch, as tables: what the driver said at each look, and what became of it."""

from __future__ import annotations

from weft.model import Blocked, Measured, Unblocked
from weft.node.engine.gpu.monitor import Foreign, GpuChange, GpuMonitor, Misplaced, MonitorOptions, RunOnGpus
from weft.node.engine.gpu.nvml import Device, GpuProcess, Reading

DEVICES = (Device(4, "GPU-4", "A", 24576), Device(5, "GPU-5", "A", 24576))
IDLE = Reading()
OURS = ("job", 1)


class Scene:
    """A watch over two GPUs, which the driver calls 4 and 5; both idle unless a look says otherwise."""

    def __init__(self, foreign: Foreign = "avoid", known: tuple[tuple[int, str], ...] = ()) -> None:
        self.watch = GpuMonitor("n", DEVICES, MonitorOptions(foreign, free_after_s=30.0, warm_up_s=60.0), known)

    def look(
        self, at: float, first: Reading | None = IDLE, second: Reading | None = IDLE, **runs: RunOnGpus
    ) -> list[GpuChange]:
        readings = {4: first, 5: second}
        keyed = {(job, 1): run for job, run in runs.items()}
        return self.watch.update(at, {k: v for k, v in readings.items() if v is not None}, keyed)


def held(*processes: GpuProcess, more_mb: int = 0) -> Reading:
    return Reading(sum(process.used_mb or 0 for process in processes) + more_mb, 50, processes)


def process(pid: int, used_mb: int | None = 1000, name: str = "python", visible: bool = True) -> GpuProcess:
    return GpuProcess(pid, name, used_mb, visible)


def run(*gpus: int, pids: tuple[int, ...] = (10,), memory_mb: int = 8192, started_at: float = 0.0) -> RunOnGpus:
    return RunOnGpus(gpus, frozenset(pids), started_at, memory_mb)


def test_processes_on_a_gpu_that_another_scheduler_holds_are_not_foreign() -> None:
    devices = (Device(0, "GPU-0", "RTX3090", 24576),)
    monitor, busy, idle = GpuMonitor("n", devices), {0: held(process(77))}, {0: IDLE}
    assert monitor.update(0.0, busy, {}, {0}) == []
    assert monitor.update(1.0, idle, {}) == []
    assert monitor.update(2.0, busy, {}) == [Blocked(2.0, "n", 0, "ForeignProcess", None, "pid 77 (python)")]
    assert monitor.update(3.0, busy, {}, {0}) == [Unblocked(3.0, "n", 0, "ForeignProcess")]
    assert monitor.update(4.0, idle, {}) == []


def test_nothing_to_say() -> None:
    scene = Scene()
    assert scene.look(0.0) == scene.look(1.0) == []


# ---- other people


def test_a_gpu_with_a_stranger_is_avoided_until_it_has_been_free_for_a_while() -> None:
    scene = Scene()
    assert scene.look(0.0, held(process(77))) == [Blocked(0.0, "n", 0, "ForeignProcess", None, "pid 77 (python)")]
    assert scene.look(5.0, held(process(77, 3000))) == []
    gone = "pid 77 (python) has gone; jobs use the GPU again after 30 s"
    assert scene.look(10.0) == [Blocked(10.0, "n", 0, "ForeignProcess", None, gone)]
    assert scene.look(15.0) == []
    assert scene.look(20.0, held(process(78))) == [Blocked(20.0, "n", 0, "ForeignProcess", None, "pid 78 (python)")]
    gone = "pid 78 (python) has gone; jobs use the GPU again after 30 s"
    assert scene.look(49.0) == [Blocked(49.0, "n", 0, "ForeignProcess", None, gone)]
    assert scene.look(50.0) == [Unblocked(50.0, "n", 0, "ForeignProcess")]
    assert scene.look(51.0) == []


def test_a_gpu_with_a_stranger_is_shared_as_far_as_memory_goes() -> None:
    scene = Scene("share")
    assert scene.look(0.0, held(process(77, 1000))) == [Blocked(0.0, "n", 0, "ForeignProcess", 1024, "pid 77 (python)")]
    assert scene.look(1.0, held(process(77, 1020))) == []
    assert scene.look(2.0, held(process(77, 900))) == []
    assert scene.look(3.0, held(process(77, 3000))) == [Blocked(3.0, "n", 0, "ForeignProcess", 3072, "pid 77 (python)")]
    assert scene.look(4.0, held(process(77, None))) == [
        Blocked(4.0, "n", 0, "ForeignProcess", 24576, "pid 77 (python)")
    ]


def test_strangers_are_ignored_if_so_wished() -> None:
    assert Scene("ignore").look(0.0, held(process(77))) == []


def test_a_desktop_does_not_count() -> None:
    scene = Scene()
    assert scene.look(0.0, held(process(1, 300, "/usr/lib/xorg/Xorg"), process(2, 90, "gnome-shell"))) == []


def test_a_stranger_beside_a_run_of_ours_is_believed_at_second_sight() -> None:
    scene = Scene()
    both = held(process(10, 8000), process(77))
    assert scene.look(0.0, both, job=run(0)) == []
    assert scene.look(1.0, both, job=run(0)) == [Blocked(1.0, "n", 0, "ForeignProcess", None, "pid 77 (python)")]


def test_a_process_of_ours_that_has_just_ended_is_no_stranger() -> None:
    scene = Scene()
    scene.look(0.0, held(process(10, 8000)), job=run(0))
    assert scene.look(1.0, held(process(10, 8000), process(11)), job=run(0)) == []
    assert scene.look(2.0, held(process(10, 8000)), job=run(0)) == []


def test_memory_held_by_processes_of_another_namespace_is_a_strangers() -> None:
    found = Scene().look(0.0, held(more_mb=9000))
    assert found == [Blocked(0.0, "n", 0, "ForeignProcess", None, "9000 MB held by invisible processes")]


def test_a_process_of_another_namespace_is_taken_for_ours_where_we_have_a_run() -> None:
    scene = Scene()
    hidden = held(process(99999, 8000, "", visible=False))
    assert scene.look(0.0, hidden, job=run(0, pids=())) == []
    assert scene.look(1.0, hidden, job=run(0, pids=())) == []
    assert Scene().look(0.0, hidden) == [Blocked(0.0, "n", 0, "ForeignProcess", None, "pid 99999 (unknown)")]


# ---- what stays behind


def test_a_leftover_of_ours_makes_the_gpu_dirty_until_it_has_gone() -> None:
    scene = Scene()
    scene.look(0.0, held(process(10, 8000)), job=run(0))
    assert scene.look(1.0, held(process(10, 8000))) == [
        Blocked(1.0, "n", 0, "DirtyGpu", None, "still held by pid 10 (python)")
    ]
    assert scene.look(2.0, held(process(10, 7000))) == []
    assert scene.look(3.0) == [Unblocked(3.0, "n", 0, "DirtyGpu")]


def test_memory_that_nobody_holds_makes_the_gpu_dirty() -> None:
    scene = Scene()
    scene.look(0.0, held(process(10, 8000)), job=run(0))
    assert scene.look(1.0, held(more_mb=5000)) == [
        Blocked(1.0, "n", 0, "DirtyGpu", None, "5000 MB held by no visible process")
    ]
    assert scene.look(2.0, held(more_mb=4000)) == []
    assert scene.look(3.0, held(more_mb=400)) == [Unblocked(3.0, "n", 0, "DirtyGpu")]
    assert scene.look(4.0, held(more_mb=400)) == []


def test_a_leftover_is_seen_beside_another_run() -> None:
    scene = Scene()
    both = held(process(10), process(20))
    scene.look(0.0, both, job=run(0), other=run(0, pids=(20,)))
    found = scene.look(1.0, both, other=run(0, pids=(20,)))
    assert found == [Blocked(1.0, "n", 0, "DirtyGpu", None, "still held by pid 10 (python)")]


def test_what_an_earlier_watch_blocked_is_taken_up() -> None:
    known = ((0, "ForeignProcess"), (1, "DirtyGpu"), (1, "Drained"))
    scene = Scene(known=known)
    assert scene.look(0.0, IDLE, held(more_mb=5000)) == [Unblocked(0.0, "n", 0, "ForeignProcess")]
    assert scene.look(1.0) == [Unblocked(1.0, "n", 1, "DirtyGpu")]


# ---- GPUs that go


def test_a_gpu_that_vanishes_is_not_there_until_it_is_back() -> None:
    scene = Scene()
    scene.look(0.0)
    assert scene.look(1.0, None) == [Blocked(1.0, "n", 0, "ReqNodeNotAvail", None, "GPU 4 (GPU-4) no longer answers")]
    assert scene.look(2.0, None) == []
    assert scene.look(3.0) == [Unblocked(3.0, "n", 0, "ReqNodeNotAvail")]
    assert [type(change) for change in scene.look(4.0, None, None)] == [Blocked, Blocked]


# ---- what runs need


def test_more_than_was_given_is_told_at_once() -> None:
    scene = Scene()
    assert scene.look(0.0, held(process(10, 8000)), job=run(0)) == []
    assert scene.look(1.0, held(process(10, 9000)), job=run(0)) == [Measured(1.0, "job", 1, 9472)]
    assert scene.look(2.0, held(process(10, 9400)), job=run(0)) == []
    assert scene.look(3.0, held(process(10, 9500)), job=run(0)) == [Measured(3.0, "job", 1, 9984)]


def test_less_is_told_after_the_warm_up_and_the_mark_is_the_highest_seen() -> None:
    scene = Scene()
    assert scene.look(0.0, held(process(10, 4000)), job=run(0)) == []
    assert scene.look(59.0, held(process(10, 1000)), job=run(0)) == []
    assert scene.look(60.0, held(process(10, 1000)), job=run(0)) == [Measured(60.0, "job", 1, 4352)]
    assert scene.look(61.0, held(process(10, 1000)), job=run(0)) == []


def test_a_run_of_several_gpus_needs_what_its_hungriest_needs() -> None:
    scene = Scene()
    pids = (10, 11)
    found = scene.look(0.0, held(process(10, 9000)), held(process(11, 12000)), job=run(0, 1, pids=pids))
    assert found == [Measured(0.0, "job", 1, 12544)]


def test_no_run_needs_more_than_there_is() -> None:
    assert Scene().look(0.0, held(process(10, 24500)), job=run(0)) == [Measured(0.0, "job", 1, 24576)]


def test_where_processes_do_not_say_what_they_hold_who_is_alone_holds_it_all() -> None:
    scene = Scene()
    silent = Reading(9000, 50, (process(10, None),))
    assert scene.look(0.0, silent, job=run(0)) == [Measured(0.0, "job", 1, 9472)]
    assert Scene().look(0.0, silent, job=run(0), other=run(0, pids=(20,))) == []


def test_a_run_that_uses_nothing_yet_keeps_what_it_was_given() -> None:
    scene = Scene()
    assert scene.look(0.0, job=run(0)) == scene.look(100.0, job=run(0)) == []


# ---- the wrong GPU


def test_a_process_on_a_gpu_that_its_run_was_not_given_is_told_once() -> None:
    scene = Scene()
    wrong = held(process(10))
    assert scene.look(0.0, IDLE, wrong, job=run(0)) == [Misplaced(0.0, "job", 1, 1, 10)]
    assert scene.look(1.0, IDLE, wrong, job=run(0)) == []
