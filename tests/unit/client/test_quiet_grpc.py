"""gRPC loads without log lines, and leaves no variable behind that jobs would inherit."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = """
import os, sys
import grpc_seen
from weft.client.quiet_grpc import load_grpc
load_grpc()
print(grpc_seen.verbosity, os.environ.get("GRPC_VERBOSITY"))
"""
SEEN = """
import importlib.abc, os, sys
verbosity = None
class Spy(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        global verbosity
        if name == "grpc":
            verbosity = os.environ.get("GRPC_VERBOSITY")
sys.meta_path.insert(0, Spy())
"""


@pytest.mark.parametrize(("given", "expected"), [({}, "NONE None"), ({"GRPC_VERBOSITY": "INFO"}, "INFO INFO")])
def test_grpc_loads_quietly(tmp_path: object, given: dict[str, str], expected: str) -> None:
    with open(f"{tmp_path}/grpc_seen.py", "w") as file:
        file.write(SEEN)
    env = {key: value for key, value in os.environ.items() if key != "GRPC_VERBOSITY"}
    env |= {"PYTHONPATH": str(tmp_path), **given}
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.strip() == expected
