from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from weft.access.client.api import JobHandle
from weft.access.jobspec.fields import spec_of
from weft.access.jobspec.python import as_text
from weft.errors import InputError, UnknownName


def test_python_values_are_what_a_file_would_say() -> None:
    spec = spec_of(
        as_text(
            {
                "command": ["python", Path("train.py"), 3], "gpus": 2, "memory": [8192, "16G"], "priority": -5,
                "time": timedelta(minutes=90), "grace": "30s", "retries": 3, "after": [JobHandle("7"), 8, "name"],
                "array": range(4), "env": {"A": 1, "B": Path("/x")}, "params": {"lr": 1e-3, "deep": True},
                "requeue_exit": [3, 4], "gpu_ids": (0, 1), "hold": True, "comment": "", "chdir": Path("/x"),
                "cpus": None,
            }
        )
    )  # fmt: skip
    assert list(spec.command) == ["python", "train.py", "3"]
    assert (spec.gpus, list(spec.memory_mb), spec.priority, spec.retries) == (2, [8192, 16384], -5, 3)
    assert (spec.time_limit_s, spec.grace_s) == (5400.0, 30.0)
    assert list(spec.after) == ["7", "8", "name"]
    assert spec.array == "0,1,2,3"
    assert [(each.name, each.value) for each in spec.env] == [("A", "1"), ("B", "/x")]
    assert [(each.name, each.value) for each in spec.params] == [("lr", "0.001"), ("deep", "true")]
    assert (list(spec.requeue_exits), list(spec.gpu_ids), spec.hold, spec.chdir) == ([3, 4], [0, 1], True, "/x")


def test_text_is_a_line_for_the_shell() -> None:
    assert list(spec_of(as_text({"command": "a | b"})).command) == ["sh", "-c", "a | b"]


def test_one_value_stands_for_a_list_of_it() -> None:
    spec = spec_of(as_text({"command": ["a"], "after": JobHandle(7), "gpu_ids": 1, "requeue_exit": 3}))
    assert (list(spec.after), list(spec.gpu_ids), list(spec.requeue_exits)) == (["7"], [1], [3])


@pytest.mark.parametrize(
    ("key", "value"),
    [("gpus", 1.5), ("gpus", "many"), ("gpus", object()), ("gpus", True), ("memory", {"a": 1}), ("params", {"a": [1]}),
     ("env", {"a b": 1}), ("name", b"x"), ("time", timedelta(0)), ("command", [object()]), ("command", 5),
     ("hold", "perhaps")],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_by_its_key(key: str, value: object) -> None:
    with pytest.raises(InputError, match=f"^{key}: "):
        spec_of(as_text({key: value}))


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="the nearest are gpus"):
        spec_of(as_text({"gpu": 1}))


def test_an_exit_of_0_cannot_ask_for_another_run() -> None:
    with pytest.raises(InputError, match="from 1 to 255"):
        spec_of({"command": ["true"], "requeue_exit": "3,0"})


def test_a_bad_name_is_refused_with_what_it_may_not_hold() -> None:
    with pytest.raises(InputError, match=r"cannot be a name\n.*\$"):
        spec_of({"command": ["true"], "name": "a$b"})
