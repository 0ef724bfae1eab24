"""Calls without the gRPC library: the same answers and statuses as on a channel, with and without TLS."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from support.running.secured_cluster import Gate, free_port, gate
from weft.access.client import unary
from weft.access.client.remote import MAX_UNARY_CALLS, RemoteTransport
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.credentials import Credentials, open_channel
from weft.access.wire import messages as m
from weft.access.wire.service import call, method_of, service_of
from weft.errors import NotPermitted, Unreachable

WAIT_S = 60.0
TRUE = m.JobSpec(command=["true"])
SLOW = (
    "grpc", "asyncio", "logging", "hashlib", "tempfile", "subprocess", "importlib.metadata", "dataclasses", "inspect",
    "pathlib", "textwrap", "shutil", "google.protobuf.internal.python_message", "weft.node.engine", "weft.server",
    "weft.model.job",
)  # fmt: skip
"""Modules that a call to the scheduler of a cluster does not need."""


@pytest.fixture(scope="module", params=[True, False], ids=["TLS", "plain"])
def door(request: pytest.FixtureRequest) -> Iterator[Gate]:
    with gate(tls=request.param) as made:
        yield made


def by_hand(where: Address, who: Credentials, name: str, request: Any) -> tuple[str, Any]:
    """The status, and the answer or the details."""
    try:
        found = unary.call(where, who, name, request.SerializeToString(), WAIT_S)
    except unary.CallFailed as failure:
        return failure.code, failure.details
    return "OK", method_of(name).reply.FromString(found)


def on_a_channel(where: Address, who: Credentials, name: str, request: Any) -> tuple[str, Any]:
    with open_channel(where, who) as channel:
        try:
            return "OK", call(channel, name, service_of(name))(request, timeout=WAIT_S, metadata=who.metadata())
        except grpc.RpcError as error:
            found: Any = error
            return found.code().name, found.details()


@pytest.mark.parametrize(
    ("name", "request_", "code"),
    [
        ("Query", m.QueryRequest(what="nodes"), "OK"),
        ("Query", m.QueryRequest(what="job", jobs=["77"]), "NOT_FOUND"),
        ("Query", m.QueryRequest(what="nonsense"), "INVALID_ARGUMENT"),
        ("Submit", m.SubmitRequest(jobs=[TRUE], dry_run=True, chdir="/"), "OK"),
        ("Submit", m.SubmitRequest(jobs=[m.JobSpec(command=["ü%\n"], name="é/€")], dry_run=True), "INVALID_ARGUMENT"),
        ("Manage", m.OperateRequest(verb="list"), "OK"),
        ("Manage", m.OperateRequest(verb="dance"), "INVALID_ARGUMENT"),
        ("Join", m.JoinRequest(token="weft-join.a.b."), "PERMISSION_DENIED"),
    ],
)
def test_answers_and_statuses_are_those_of_a_channel(door: Gate, name: str, request_: Any, code: str) -> None:
    who = door.owner()
    found, other = by_hand(door.where, who, name, request_), on_a_channel(door.where, who, name, request_)
    assert found[0] == other[0]
    assert found[0] == code
    if code != "OK":
        assert json.loads(found[1]) == json.loads(other[1])
    elif name == "Query":
        assert json.loads(found[1].json)["nodes"] == json.loads(other[1].json)["nodes"]
    else:
        assert found[1] == other[1]


def test_wrong_tokens_and_roles_are_refused_as_on_a_channel(door: Gate) -> None:
    worker = door.credentials("worker", node="n9")
    for who in (Credentials("", door.ca()), Credentials("weft.0123456789ab.abc", door.ca()), worker):
        request = m.QueryRequest(what="queue")
        found = by_hand(door.where, who, "Query", request)
        assert found == on_a_channel(door.where, who, "Query", request)
        assert found[0] == ("PERMISSION_DENIED" if who is worker else "UNAUTHENTICATED")
    transport = RemoteTransport(door.where, Credentials("weft.0123456789ab.abc", door.ca()))
    transport.open()
    with pytest.raises(NotPermitted, match="does not know"):
        transport.call("Query", m.QueryRequest(what="queue"), WAIT_S)


def test_an_old_or_new_protocol_is_refused_in_words(door: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.access.endpoints.credentials.version_metadata", lambda: (("weft-protocol", "1"),))
    code, details = by_hand(door.where, door.owner(), "Query", m.QueryRequest(what="queue"))
    assert code == "FAILED_PRECONDITION"
    assert "update the caller" in json.loads(details)["what"]


def test_a_large_request_and_many_calls_use_a_channel(door: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    transport = RemoteTransport(door.where, door.owner())
    transport.open()
    for _ in range(MAX_UNARY_CALLS):
        transport.call("Query", m.QueryRequest(what="nodes"), WAIT_S)
        assert transport._channel is None
    transport.call("Query", m.QueryRequest(what="nodes"), WAIT_S)
    assert transport._channel is not None
    transport.close()

    transport = RemoteTransport(door.where, door.owner())
    transport.open()
    large = m.JobSpec(command=["true", "x" * unary.MAX_CALL_BYTES])
    transport.call("Submit", m.SubmitRequest(jobs=[large], dry_run=True, chdir="/"), WAIT_S)
    assert transport._channel is not None
    transport.close()
    monkeypatch.setattr(RemoteTransport, "_method", None)
    transport = RemoteTransport(door.where, door.owner())
    transport.open()
    nearly = m.JobSpec(command=["true", "x" * (unary.MAX_CALL_BYTES - 100)])
    assert transport.call("Submit", m.SubmitRequest(jobs=[nearly], dry_run=True, chdir="/"), WAIT_S) is not None


def test_a_large_answer_comes_whole(door: Gate) -> None:
    specs = [m.JobSpec(command=["true", "y" * 20_000], hold=True) for _ in range(40)]
    assert on_a_channel(door.where, door.owner(), "Submit", m.SubmitRequest(jobs=specs, chdir="/"))[0] == "OK"
    request = m.QueryRequest(what="job", jobs=["1-40"])
    code, found = by_hand(door.where, door.owner(), "Query", request)
    assert code == "OK", found
    assert [len(job["command"][1]) for job in json.loads(found.json)["jobs"]] == [20_000] * 40


@pytest.mark.parametrize("words", [["queue"], ["queue", "--json"], ["submit", "--gpus", "0", "--hold", "--", "true"]])
def test_a_command_does_not_import_the_library(door: Gate, words: list[str]) -> None:
    line = [words[0], "--scheduler", str(door.where), *words[1:]]
    code = f"import sys; from weft.cli.main import main; print(main({line}), *sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], env=door.env, capture_output=True, text=True, check=True)
    result, *loaded = done.stderr.splitlines()[-1].split()
    assert result == "0"
    assert "weft.access.client.remote" in loaded
    assert not set(loaded).intersection(SLOW if door.ca() else (*SLOW, "ssl"))


def test_threads_call_at_the_same_time(door: Gate) -> None:
    who = door.owner()
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: by_hand(door.where, who, "Query", m.QueryRequest(what="nodes"))[0], range(100)))
    assert found == ["OK"] * 100


def test_a_server_that_says_nothing_or_hangs_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = Address("127.0.0.1", silent.getsockname()[1])
        with pytest.raises(unary.CallFailed) as caught:
            unary.call(where, Credentials("t"), "Query", b"", 0.3)
        assert caught.value.code == "DEADLINE_EXCEEDED"

        def hang_up() -> None:
            for _ in range(2):
                silent.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(unary.CallFailed) as caught:  # the connection of the call before is still in the backlog
            unary.call(where, Credentials("t"), "Query", b"", WAIT_S)
        thread.join()
        assert caught.value.code == "UNAVAILABLE"
    with pytest.raises(unary.CallFailed) as caught:
        unary.call(Address("127.0.0.1", free_port()), Credentials("t"), "Query", b"", WAIT_S)
    assert caught.value.code == "UNAVAILABLE"


def test_no_token_is_sent_to_a_server_with_another_authority() -> None:
    with gate() as first, gate() as second:
        liar = Credentials(first.owner().token, first.ca())
        assert by_hand(second.where, liar, "Query", m.QueryRequest(what="queue"))[0] == "UNAVAILABLE"
        transport = RemoteTransport(second.where, liar)
        transport.open()
        with pytest.raises(Unreachable, match="not the scheduler that was joined"):
            transport.call("Query", m.QueryRequest(what="queue"), WAIT_S)
