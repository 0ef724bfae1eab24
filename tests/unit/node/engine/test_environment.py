"""The variables that describe a run to its processes."""

from __future__ import annotations

import sys

import pytest

from weft.access.jobspec.placeholders import param_variable
from weft.node.engine.environment import run_environment
from weft.node.engine.launch_spec import LaunchSpec


def env_of(**more: object) -> dict[str, str]:
    return run_environment(LaunchSpec("7", 2, ("true",), **more), "here", "/jobs", "abc", 1000.0)  # type: ignore[arg-type]


def test_what_every_run_is_told() -> None:
    assert env_of(env=(("HOME", "/h"), ("WEFT_RUN", "99")), name="train it", restarts=1) == {
        "HOME": "/h",
        "WEFT_JOB_ID": "7",
        "WEFT_JOB_NAME": "train it",
        "WEFT_PYTHON": sys.executable,
        "WEFT_RUN": "2",
        "WEFT_RUN_TOKEN": "abc",
        "WEFT_RESTART_COUNT": "1",
        "WEFT_GPU_IDS": "",
        "WEFT_NODE_RANK": "0",
        "WEFT_NUM_NODES": "1",
        "WEFT_NODELIST": "here",
        "WEFT_CKPT_DIR": "/jobs/7/checkpoints",
        "WEFT_PREEMPT_FILE": "/jobs/7/2/preempt",
        "WEFT_DONE_FILE": "/jobs/7/2/done",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "",
        "NVIDIA_VISIBLE_DEVICES": "void",
        "ROCR_VISIBLE_DEVICES": "",
        "HIP_VISIBLE_DEVICES": "",
    }


def test_what_some_runs_are_told() -> None:
    env = env_of(
        array_index=0,
        array_size=4,
        memory_mb=8192,
        time_limit_s=60.5,
        socket="/run/s",
        params=(("learning-rate", "0.1"), ("epochs", "3")),
    )
    assert env["WEFT_ARRAY_TASK_ID"] == "0"
    assert env["WEFT_ARRAY_TASK_COUNT"] == "4"
    assert env["WEFT_GPU_MEM_LIMIT_MB"] == "8192"
    assert env["WEFT_DEADLINE_EPOCH"] == "1060"
    assert env["WEFT_SOCKET"] == "/run/s"
    assert env["WEFT_PARAMS_FILE"] == "/jobs/7/2/params.json"
    assert (env["WEFT_PARAM_LEARNING_RATE"], env["WEFT_PARAM_EPOCHS"]) == ("0.1", "3")


def test_gpus_by_uuid_where_known() -> None:
    env = env_of(gpus=(2, 5), gpu_uuids=("GPU-a", "GPU-b"), env=(("CUDA_VISIBLE_DEVICES", "0,1,2"),))
    assert env["CUDA_VISIBLE_DEVICES"] == env["NVIDIA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
    assert env["WEFT_GPU_IDS"] == env["ROCR_VISIBLE_DEVICES"] == "2,5"
    assert env["HIP_VISIBLE_DEVICES"] == "0,1"
    assert env_of(gpus=(2, 5))["CUDA_VISIBLE_DEVICES"] == "2,5"


def test_a_run_without_gpus_may_keep_what_it_sees() -> None:
    env = env_of(hide_gpus=False, env=(("CUDA_VISIBLE_DEVICES", "3"),))
    assert env["CUDA_VISIBLE_DEVICES"] == "3"
    assert "NVIDIA_VISIBLE_DEVICES" not in env


@pytest.mark.parametrize(
    ("name", "variable"),
    [("epochs", "WEFT_PARAM_EPOCHS"), ("a.b c", "WEFT_PARAM_A_B_C"), ("x=y", "WEFT_PARAM_X_Y"), ("é", "WEFT_PARAM__")],
)
def test_params_become_names_of_variables(name: str, variable: str) -> None:
    assert param_variable(name) == variable
