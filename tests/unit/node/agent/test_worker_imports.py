"""The modules of a worker: each costs memory on every node."""

from __future__ import annotations

import subprocess
import sys

IMPORTS = """
from weft.node.agent.without_openssl import avoid_openssl
avoid_openssl()
from weft.cli import connection
connection.load_grpc()
import asyncio, sys
import weft.node.agent.node_status, weft.node.agent.worker, weft.cli.commands.worker, weft.access.wire.convert
from weft.node.agent.state_dir import agent_dir
print(*sys.modules)
"""
RARE = ("weft.node.agent.terminals", "weft.node.engine.container.detection", "weft.node.engine.shim.shim")


def test_a_worker_imports_no_openssl_and_nothing_that_few_jobs_need() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True, timeout=60)
    found = done.stdout.split()
    assert "weft.node.agent.worker" in found
    assert not {"_ssl", *RARE} & set(found)


def test_a_process_that_has_openssl_keeps_it() -> None:
    code = (
        "import ssl; from weft.node.agent.without_openssl import avoid_openssl as avoid; avoid(); import ssl, hashlib"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
