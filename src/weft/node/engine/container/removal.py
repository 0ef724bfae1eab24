"""Removal of containers: by the name of one run, or by the labels of a job's earlier runs.

As a script, `removal FOLDER` removes the container of the run in that directory. Its shim runs it, if the supervisor of
the container was killed.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

from weft.node.engine.container import record
from weft.node.engine.container.detection import host_environment, runtime_named
from weft.node.engine.shim import run_files

CALL_TIMEOUT_S: Final = 60.0
ATTEMPTS: Final = 3
RETRY_S: Final = 1.0


def call(argv: Sequence[str], env: Mapping[str, str], timeout_s: float = CALL_TIMEOUT_S) -> tuple[int, str]:
    """Run the program of a runtime; return its exit code and output."""
    try:
        done = subprocess.run(
            list(argv), env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=timeout_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return -1, f"no answer within {timeout_s:g} s"
    except OSError as error:
        return -1, str(error)
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr


def remove_container(runtime: str, program: str, name: str, env: Mapping[str, str]) -> bool:
    """Kill and remove a container; return whether it is gone."""
    named = runtime_named(runtime).named
    if named is None:
        return True
    for attempt in range(ATTEMPTS):
        code, said = call([program, *named.remove(name)], env)
        if code == 0 or "no such container" in said.lower():
            return True
        if attempt < ATTEMPTS - 1:
            time.sleep(RETRY_S)
    return False


def remove_labelled(runtime: str, program: str, labels: Mapping[str, str], env: Mapping[str, str]) -> int:
    """Remove all containers with these labels; return how many there were."""
    named = runtime_named(runtime).named
    if named is None:
        return 0
    code, said = call([program, *named.list_containers(labels)], env)
    found = said.split() if code == 0 else []
    return sum(remove_container(runtime, program, each, env) for each in found)


def remove_of_run(folder: str) -> bool:
    """Remove the container of a run, if it still has one; return whether it is gone."""
    known = record.read_record(folder)
    if known is None:
        return True
    spec = run_files.read_object(f"{folder}/{run_files.SPEC}") or {}
    env = (spec.get("container") or {}).get("host_env") or host_environment({})
    if not remove_container(known.runtime, known.program, known.name, env):
        return False
    record.forget_record(folder)
    return True


def remove_leftover(folder: str) -> None:
    """Remove what a lost run left of its container, so that it does not run next to the next run."""
    if not remove_of_run(folder):
        logging.getLogger(__name__).warning("a container could not be removed: see %s/%s", folder, record.RECORD)


def main(folder: str) -> int:
    if remove_of_run(folder):
        return 0
    sys.stderr.write(f"weft: the container of the run could not be removed: see {folder}/{record.RECORD}\n")
    return 1
