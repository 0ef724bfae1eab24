"""Where control groups can be made, on folders that look like both hierarchies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.node.engine.cgroups import DAEMON, RunGroup, find, remove_stale


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own"
    path.write_text("4:memory:/user/7\n3:cpu,cpuacct:/user/8\n0::/unit.service\n")
    return path


@pytest.fixture
def v1(tmp_path: Path) -> Path:
    for group in ("memory/user/7", "cpu/user/8"):
        (tmp_path / "fs" / group).mkdir(parents=True)
    return tmp_path / "fs"


@pytest.fixture
def v2(tmp_path: Path) -> Path:
    root = tmp_path / "fs"
    for group in (root, root / "unit.service"):
        group.mkdir()
        (group / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    return root


def test_version_1_uses_the_groups_of_this_process(v1: Path, own: Path) -> None:
    found = find(str(v1), str(own))
    assert found.version == 1
    assert found.folders == {"memory": f"{v1}/memory/user/7/weft", "cpu": f"{v1}/cpu/user/8/weft"}
    assert found.describe() == "control groups, version 1"


def test_version_2_moves_this_process_aside_and_passes_the_controllers_on(v2: Path, own: Path) -> None:
    found = find(str(v2), str(own))
    unit = v2 / "unit.service"
    assert (found.version, found.folders["memory"]) == (2, f"{unit}/weft")
    assert (unit / DAEMON / "cgroup.procs").read_text() == str(os.getpid())
    assert [(folder / "cgroup.subtree_control").read_text() for folder in (unit, unit / "weft")] == ["+memory +cpu"] * 2


def test_a_group_without_the_controllers_is_of_no_use(v2: Path, own: Path) -> None:
    (v2 / "unit.service" / "cgroup.controllers").write_text("cpu pids\n")
    found = find(str(v2), str(own))
    assert (found.version, found.why) == (0, f"{v2}/unit.service does not control memory")


def test_a_shared_group_is_left_as_it_was(v2: Path, own: Path) -> None:
    (v2 / "unit.service" / "cgroup.subtree_control").mkdir()  # cannot be written, as where others are in the group
    found = find(str(v2), str(own))
    assert found.version == 0
    assert "Delegate=yes" in found.why
    assert (v2 / "unit.service" / "cgroup.procs").read_text() == str(os.getpid())


def test_without_any_groups_the_reason_is_named(tmp_path: Path, own: Path) -> None:
    found = find(str(tmp_path / "nothing"), str(tmp_path / "none"))
    assert (found.version, "No such file" in found.why) == (0, True)
    assert found.describe().startswith("main memory is watched, CPUs are not limited")
    assert find(str(own), str(own)).version == 0


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ({"ram_mb": 64, "cpus": 2}, {"memory.max": str(64 << 20), "memory.oom.group": "1", "cpu.max": "200000 100000"}),
        ({"ram_mb": 64, "cpus": 0}, {"memory.max": str(64 << 20), "memory.oom.group": "1"}),
        ({"ram_mb": 0, "cpus": 1}, {"cpu.max": "100000 100000"}),
    ],
)
def test_a_run_of_version_2_has_one_group_with_its_limits(
    v2: Path, own: Path, limits: dict[str, int], wanted: dict[str, str]
) -> None:
    found = find(str(v2), str(own))
    group = RunGroup(2, found.folders, "7-1-abc", ram_mb=limits["ram_mb"], cpus=limits["cpus"])
    group.enter()
    folder = v2 / "unit.service" / "weft" / "7-1-abc"
    assert {path.name: path.read_text() for path in folder.iterdir()} == {**wanted, "cgroup.procs": str(os.getpid())}
    (v2 / "unit.service" / DAEMON / "cgroup.procs").write_text("")
    group.leave()
    assert (v2 / "unit.service" / DAEMON / "cgroup.procs").read_text() == str(os.getpid())
    (folder / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    assert group.ran_out_of_memory() == bool(limits["ram_mb"])
    group.kill()
    assert (folder / "cgroup.kill").read_text() == "1"


def test_only_empty_groups_are_removed(v1: Path, own: Path) -> None:
    found = find(str(v1), str(own))
    stale, living = Path(found.folders["memory"]) / "1-1-x", Path(found.folders["memory"]) / "2-1-x"
    stale.mkdir()
    living.mkdir()
    (living / "cgroup.procs").write_text("1")  # a folder with files stands for a group with processes
    remove_stale(found)
    assert (stale.exists(), living.exists()) == (False, True)
