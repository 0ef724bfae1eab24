"""Calls in flight when a server stops: they end CANCELLED, and the client sends them to the next leader."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import Any

import grpc
import pytest

from weft.access.client import Client
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.credentials import Credentials
from weft.access.wire.http2 import MAX_CALL_BYTES
from weft.access.wire.messages import JobSpec, SubmitReply, SubmitRequest
from weft.errors import Unanswered

TOKEN = Credentials("t", None)


class Server:
    """A gRPC server that takes submissions. One that `stops` does so while it works on the first."""

    def __init__(self, *, stops: bool) -> None:
        self.stops, self.keys = stops, list[str]()
        self.grpc = grpc.server(ThreadPoolExecutor(2))
        method = grpc.unary_unary_rpc_method_handler(
            self.submit,
            request_deserializer=SubmitRequest.FromString,
            response_serializer=SubmitReply.SerializeToString,
        )
        self.grpc.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("weft.v1.Scheduler", {"Submit": method}),)
        )
        self.port = self.grpc.add_insecure_port("localhost:0")
        self.grpc.start()

    def submit(self, request: SubmitRequest, _: Any) -> SubmitReply:
        self.keys.append(request.key)
        if self.stops:
            Thread(target=self.grpc.stop, args=(None,)).start()
            self.grpc.wait_for_termination(10)
        return SubmitReply(ids=["1"])


@pytest.fixture
def servers() -> Iterator[tuple[Server, Server]]:
    made = Server(stops=True), Server(stops=False)
    yield made
    for server in made:
        server.grpc.stop(None).wait()


@pytest.mark.parametrize("padding", [0, MAX_CALL_BYTES])
def test_a_submission_goes_to_the_next_leader_with_the_same_key(servers: tuple[Server, Server], padding: int) -> None:
    first, second = servers
    where = Address("localhost", first.port, (Address("localhost", second.port),))
    with Client(where, credentials=TOKEN) as client:
        assert client.submit(SubmitRequest(jobs=[JobSpec(command=["true", "x" * padding])])) == ["1"]
    assert first.keys == second.keys
    assert len(first.keys) == 1


def test_without_another_server_the_error_names_the_key(servers: tuple[Server, Server]) -> None:
    first, _ = servers
    with Client(Address("localhost", first.port), credentials=TOKEN) as client, pytest.raises(Unanswered) as caught:
        client.submit(SubmitRequest(jobs=[JobSpec(command=["true"])]))
    assert f"the same with --key {first.keys[0]} submits what is missing, and nothing twice" in str(caught.value)
