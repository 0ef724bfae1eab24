"""GPUs from the driver, from a file that plays it, and as declared."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from weft.errors import InputError
from weft.model import Gpu
from weft.node.engine.gpu.discovery import DeclaredGpus, discover
from weft.node.engine.gpu.nvml import Device, GpuProcess, NoDriver, Nvml, Reading, open_nvml

TWO = [
    {"index": 0, "uuid": "GPU-a", "model": "A100", "memory_mb": 40960},
    {"index": 1, "uuid": "GPU-b", "model": "A100", "memory_mb": 40960, "processes": [{"pid": 7, "used_mb": 500}]},
]


def write(path: Path, devices: Any) -> None:
    """Write the whole file, with a new time, however coarse the clock of the file system."""
    beside = path.with_suffix(".new")
    beside.write_text(devices if isinstance(devices, str) else json.dumps({"devices": devices}))
    beside.rename(path)


def fake(path: Path) -> Nvml:
    found = open_nvml({"WEFT_NVML_FAKE": str(path)})
    assert not isinstance(found, NoDriver)
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "gpus.json"
    write(path, TWO)
    return path


def test_a_file_plays_the_driver(file: Path) -> None:
    nvml = fake(file)
    assert nvml.devices() == (Device(0, "GPU-a", "A100", 40960), Device(1, "GPU-b", "A100", 40960))
    assert nvml.read() == {0: Reading(0, 0), 1: Reading(500, 0, (GpuProcess(7, "", 500),))}


def test_it_is_read_again_when_it_changes(file: Path) -> None:
    nvml = fake(file)
    write(file, [{**TWO[0], "used_mb": 9000, "utilisation": 80}, {**TWO[1], "vanished": True}])
    assert nvml.read() == {0: Reading(9000, 80)}
    write(file, TWO[:1])
    assert nvml.read() == {0: Reading(0, 0)}
    assert len(nvml.devices()) == 2


def test_a_broken_file_keeps_what_was_read_and_warns_once(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    nvml = fake(file)
    before = nvml.read()
    with caplog.at_level(logging.WARNING):
        write(file, '{"devices": [')
        assert nvml.read() == nvml.read() == before
        file.unlink()
        assert nvml.read() == before
    assert len(caplog.records) == 1
    write(file, TWO[:1])
    assert nvml.read() == {0: Reading(0, 0)}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "devices"),
        ("{", "Expecting"),
        ('{"devices": [3]}', "device 0"),
        ('{"devices": [{"memory": 3}]}', "'memory'"),
        ('{"devices": [{"memory_mb": -3}]}', "memory_mb"),
        ('{"devices": [{"index": 1}, {"index": 1}]}', "twice"),
        ('{"devices": [{"processes": [{"name": "x"}]}]}', "pid"),
    ],
)
def test_a_file_that_was_never_right_is_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "gpus.json"
    path.write_text(content)
    with pytest.raises(InputError, match=said):
        fake(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        fake(tmp_path / "none.json")


def test_without_a_driver_there_is_a_reason() -> None:
    found = open_nvml({})
    if isinstance(found, NoDriver):
        assert found.reason
        machine = discover("here", found)
        assert (machine.node.gpus, machine.source, machine.note) == ((), "none", found.reason)


def test_the_machine_as_a_node(file: Path) -> None:
    machine = discover("here", fake(file))
    assert machine.node.gpus == (Gpu("A100", 40960), Gpu("A100", 40960))
    assert machine.node.cpus == len(os.sched_getaffinity(0))
    assert machine.node.ram_mb > 100
    assert machine.source == "driver"
    assert machine.uuids((1, 0)) == ("GPU-b", "GPU-a")


NONE = NoDriver("no driver here")


def test_declared_without_a_driver() -> None:
    machine = discover("here", NONE, DeclaredGpus((2, 5), ("RTX3090", "RTX4090"), (24576, 24000)))
    assert machine.node.gpus == (Gpu("RTX3090", 24576), Gpu("RTX4090", 24000))
    assert (machine.indices((1, 0)), machine.uuids((0,))) == ((5, 2), ())
    assert (machine.source, machine.note) == ("declared", "no driver here")
    assert discover("here", NONE, DeclaredGpus((0,))).node.gpus == (Gpu(),)


def test_declared_with_a_driver_says_only_what_it_wants_to(file: Path) -> None:
    machine = discover("here", fake(file), DeclaredGpus((1,), memories_mb=(1000,)))
    assert machine.devices == (Device(1, "GPU-b", "A100", 1000),)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (DeclaredGpus((0, 1), ("A",)), "models: 1 for 2 GPUs"),
        (DeclaredGpus((0,), memories_mb=(1, 2, 3)), "memories: 3 for 1 GPU"),
        (DeclaredGpus((0, 0)), "twice"),
        (DeclaredGpus((-1,)), "-1"),
        (DeclaredGpus((0,), memories_mb=(0,)), "more than 0"),
    ],
)
def test_what_cannot_be_declared(declared: DeclaredGpus, said: str) -> None:
    with pytest.raises(InputError, match=said):
        discover("here", NONE, declared)


def test_a_gpu_that_the_driver_does_not_know(file: Path) -> None:
    with pytest.raises(InputError, match="no GPU 7"):
        discover("here", fake(file), DeclaredGpus((0, 7)))
