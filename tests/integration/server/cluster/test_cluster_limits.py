"""Limits per user, and files that submitters hand in, with a real server."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import grpc
import pytest

from support.running.live_cluster import Cluster
from support.running.live_cluster import cluster as a_cluster
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.credentials import find_credentials, open_channel
from weft.access.wire import messages as m
from weft.access.wire.service import call


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    limits = ("--max-gpus-per-user", "1", "--max-queued-per-user", "3", "--log-format", "json")
    with a_cluster("n1", options=limits) as made:
        yield made


def test_a_user_holds_no_more_gpus_and_queues_no_more_jobs_than_allowed(cluster: Cluster) -> None:
    first, second = (cluster.submit("sleep", "60") for _ in range(2))
    cluster.until_status(first, "running")
    assert cluster.json("why", second)["reasons"][0]["code"] == "Quota"
    large = cluster.call("submit", "--gpus", "2", "--", "true")
    assert (large.returncode, "quota" in large.stderr) == (6, True)
    cluster.submit("sleep", "60", flags=["--gpus", "0"])
    fourth = cluster.call("submit", "--", "true")
    assert (fourth.returncode, "quota" in fourth.stderr) == (6, True)
    cluster.weft("cancel", first)
    assert cluster.until_status(second, "running")
    assert '"message": "serving at' in (cluster.folder / "server.log").read_text()


def test_blobs_are_kept_once_checked_and_given_back(cluster: Cluster) -> None:
    where = Address("localhost", cluster.port)
    credentials = find_credentials(where, env=cluster.env)
    said = credentials.metadata()
    content = bytes(range(256)) * 4000
    name = hashlib.sha256(content).hexdigest()
    parts = [content[at : at + 300_000] for at in range(0, len(content), 300_000)]
    with open_channel(where, credentials) as wire:
        put, get = call(wire, "Put", "Blobs"), call(wire, "Get", "Blobs")
        for _ in range(2):
            sent = iter([m.BlobPart(sha256=name), *(m.BlobPart(bytes=part) for part in parts)])
            assert put(sent, metadata=said).sha256 == name
        assert b"".join(part.bytes for part in get(m.BlobName(sha256=name), metadata=said)) == content
        with pytest.raises(grpc.RpcError) as wrong:
            put(iter([m.BlobPart(sha256="0" * 64), m.BlobPart(bytes=b"other")]), metadata=said)
        assert wrong.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        for bad, code in (("../token", grpc.StatusCode.INVALID_ARGUMENT), ("1" * 64, grpc.StatusCode.NOT_FOUND)):
            with pytest.raises(grpc.RpcError) as refused:
                list(get(m.BlobName(sha256=bad), metadata=said))
            assert refused.value.code() == code
    assert [path.name for path in (cluster.folder / "blobs").iterdir()] == [name]
