"""The files in examples/services: each can be deployed, and the shapes of load are those of the generator."""

from __future__ import annotations

import json
import re
import runpy
import socket
import threading
from http.server import ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.running.local_scheduler import site
from weft.access.services.description import KEYS, LIVE_KEYS
from weft.cli.main import main

EXAMPLES = Path(__file__).parents[3] / "examples" / "services"
GPUS = {"gpus": "0,1", "models": "A100,A100", "memories": "40960,40960"}


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed: make workloads")
def test_each_example_can_be_deployed_with_training_next_to_it() -> None:
    files = sorted(EXAMPLES.glob("*.yaml"))
    assert len(files) == 9
    with site(GPUS) as here:
        for file in files:
            done = here.weft("deploy", str(file), "--dry-run", "--json", check=True)
            assert json.loads(done.stdout)["outcome"] == "deployed", file
        for file in sorted((EXAMPLES / "training").glob("*.json")):
            here.weft("submit", "--dry-run", "--config", str(file), check=True)


def test_an_inference_request_of_a_dead_replica_goes_to_another() -> None:
    files = [file for file in EXAMPLES.glob("*.yaml") if file.stem != "hello"]
    assert [file.name for file in files if "\nretry: unanswered\n" not in re.sub(" +#.*", "", file.read_text())] == []


def test_an_answer_of_the_example_leaves_in_one_packet() -> None:
    handler = runpy.run_path(str(EXAMPLES / "hello.py"))["Handler"]
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with socket.create_connection(("127.0.0.1", server.server_port)) as client:
            for _ in range(5):
                client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert client.recv(65536).endswith(b"}\n")
        server.shutdown()


@pytest.mark.parametrize("shape", ["bursty", "periodic", "sporadic"])
def test_the_shapes_are_those_of_the_generator(shape: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["load", "--rps", f"{shape}:50", "--duration", "300s", "--print-rps"]) == 0
    assert capsys.readouterr().out == (EXAMPLES / "rps" / f"{shape}.txt").read_text()


def test_every_key_of_a_service_is_documented() -> None:
    page = (EXAMPLES.parents[1] / "docs" / "reference" / "services-file.md").read_text()
    missing = [key for key in (*KEYS, *LIVE_KEYS) if not re.search(rf"`{key}[`.:]", page)]
    assert not missing
