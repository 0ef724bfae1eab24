"""A client that watches and does not read is cut off, and learns why; one that reads slowly is not."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import grpc
import pytest

from support.running.local_scheduler import Site, site, until
from support.running.secured_cluster import Gate, gate
from weft.access.client.local import LocalTransport
from weft.access.endpoints.credentials import open_channel
from weft.access.wire import frames
from weft.access.wire.messages import JobSpec, SubmitRequest, Variable, WatchRequest
from weft.access.wire.service import call

JOBS = 2500
PATIENCE_S = 120.0


def batch() -> SubmitRequest:
    """Jobs whose facts have a few megabytes."""
    params = [Variable(name="text", value="x" * 1000)]
    return SubmitRequest(jobs=[JobSpec(command=["true"], hold=True, chdir="/", params=params)] * JOBS, key="k")


def test_over_a_port() -> None:
    with gate() as here:
        ada = here.credentials("user", "ada")
        with open_channel(here.where, ada) as channel, open_channel(here.where, ada) as other:
            silent = call(channel, "Watch")(WatchRequest(), metadata=ada.metadata())
            first = next(silent)
            assert first.position == 1
            for at in range(2):
                parts = batch()
                parts.key = f"k{at}"
                call(other, "Submit")(parts, metadata=ada.metadata(), timeout=PATIENCE_S)
            until(lambda: "cut off" in log_of(here), PATIENCE_S)
            with pytest.raises(grpc.RpcError) as caught:
                for _ in silent:
                    pass
            assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
            what = json.loads(caught.value.details() or "")["what"]
            assert what.startswith("this client was cut off: it has read nothing for 10 s, and")
            follower = call(channel, "Watch")(WatchRequest(), metadata=ada.metadata())
            assert sum(1 for _, _ in zip(range(JOBS), follower, strict=False)) == JOBS


def log_of(here: Gate) -> str:
    return (here.folder / "server.log").read_text()


@pytest.fixture
def machine() -> Iterator[Site]:
    with site({"gpus": "0", "min_run_s": 0}) as made:
        yield made


def test_over_the_unix_socket(machine: Site) -> None:
    with machine.client() as client:
        with socket.socket(socket.AF_UNIX) as silent:
            silent.connect(str(machine.paths.socket))
            silent.sendall(frames.encode_request("Watch", WatchRequest().SerializeToString()))
            for at in range(2):
                parts = batch()
                parts.key = f"k{at}"
                client.submit(parts)
            until(lambda: "cut off" in machine.paths.server_log.read_text(), PATIENCE_S)
            silent.settimeout(PATIENCE_S)
            text = b""
            while part := silent.recv(1 << 20):
                text += part
        assert b"this client was cut off: it has read nothing for 10 s" in text[-1000:]
        transport = LocalTransport(machine.paths, start=False)
        follower = transport.stream("Watch", WatchRequest())
        assert sum(1 for _, _ in zip(range(JOBS), follower, strict=False)) == JOBS
