"""The GPUs of an allocation, by index, UUID or MIG name, with and without a driver."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.errors import InputError
from weft.node.engine.gpu.allocated import allocated_names, discover_allocated
from weft.node.engine.gpu.nvml import FAKE


@pytest.mark.parametrize(
    ("env", "names"),
    [
        ({"CUDA_VISIBLE_DEVICES": "2,3"}, ["2", "3"]),
        ({"CUDA_VISIBLE_DEVICES": "", "SLURM_JOB_GPUS": "1"}, ["1"]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-5f,GPU-6a"}, ["GPU-5f", "GPU-6a"]),
        ({"CUDA_VISIBLE_DEVICES": "MIG-1 , MIG-2"}, ["MIG-1", "MIG-2"]),
    ],
)
def test_the_first_variable_that_is_set_names_the_gpus(env: dict[str, str], names: list[str]) -> None:
    assert allocated_names(env) == names


@pytest.mark.parametrize("env", [{}, {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, {"CUDA_VISIBLE_DEVICES": "-1"}])
def test_without_gpus_of_an_allocation_the_error_says_so(env: dict[str, str]) -> None:
    with pytest.raises(InputError, match="no variable names the GPUs"):
        allocated_names(env)


def test_without_a_driver_one_model_and_memory_count_for_all() -> None:
    env = {"CUDA_VISIBLE_DEVICES": "2,3"}
    machine, _ = discover_allocated("A100", "80G", name="a100-0", pretend=True, env=env)
    assert [(d.index, d.uuid, d.model, d.memory_mb) for d in machine.devices] == [
        (2, "", "A100", 81920), (3, "", "A100", 81920),
    ]  # fmt: skip
    assert machine.node.id == "a100-0"
    assert len(machine.node.gpus) == 2


def test_parts_of_a_gpu_keep_their_names() -> None:
    env = {"CUDA_VISIBLE_DEVICES": "MIG-11,MIG-12"}
    machine, _ = discover_allocated("A100-20G", "20G", name="a100-0", pretend=True, env=env)
    assert machine.uuids((0, 1)) == ("MIG-11", "MIG-12")
    assert {gpu.memory_mb for gpu in machine.node.gpus} == {20480}


def test_a_driver_knows_models_and_memory(tmp_path: Path) -> None:
    gpus = [{"index": n, "uuid": f"GPU-{n}f{n}", "model": "H100", "memory_mb": 81559} for n in range(2)]
    (tmp_path / "driver.json").write_text(json.dumps({"devices": gpus}))
    env = {"CUDA_VISIBLE_DEVICES": "1", FAKE: str(tmp_path / "driver.json")}
    by_index, _ = discover_allocated("other", "1G", name="n", env=env)
    assert [(d.index, d.uuid, d.model, d.memory_mb) for d in by_index.devices] == [(1, "GPU-1f1", "H100", 81559)]
    by_uuid, _ = discover_allocated("", "", name="n", env={**env, "CUDA_VISIBLE_DEVICES": "GPU-0f"})
    assert [d.index for d in by_uuid.devices] == [0]
    with pytest.raises(InputError, match="there is no GPU 7"):
        discover_allocated("", "", name="n", env={**env, "CUDA_VISIBLE_DEVICES": "7"})


def test_lists_of_another_length_are_refused() -> None:
    with pytest.raises(InputError, match="3 for 2 GPUs"):
        discover_allocated("A,B,C", "", name="n", pretend=True, env={"CUDA_VISIBLE_DEVICES": "0,1"})
