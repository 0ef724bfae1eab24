"""Authentication and authorisation at the port of a scheduler: real TLS, real sockets."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grpc
import pytest

from support.running.local_scheduler import until
from support.running.secured_cluster import Gate, gate
from weft.access.auth import certificates
from weft.access.auth.identity import Role
from weft.access.auth.tokens import Tokens
from weft.access.endpoints.credentials import Credentials, open_channel, version_metadata
from weft.access.wire import messages as m
from weft.access.wire.service import MAX_MESSAGE_BYTES, PREFIX, call
from weft.server.process.cpu_shares import MAX_STREAMS

Status = grpc.StatusCode
WAIT_S = 60.0


@pytest.fixture(scope="module")
def door() -> Iterator[Gate]:
    with gate() as made:
        yield made


def asked(
    gate: Gate, who: Credentials, name: str = "Query", request: Any = None, service: str = "Scheduler",
    metadata: tuple[tuple[str, str], ...] | None = None,
) -> Any:  # fmt: skip
    request = m.QueryRequest(what="queue") if request is None else request
    with open_channel(gate.where, who) as line:
        return call(line, name, service)(
            request, timeout=WAIT_S, metadata=who.metadata() if metadata is None else metadata
        )


def refused(gate: Gate, who: Credentials, *args: Any, **keys: Any) -> tuple[grpc.StatusCode, str]:
    """Return the status and its message."""
    with pytest.raises(grpc.RpcError) as caught:
        asked(gate, who, *args, **keys)
    error: Any = caught.value
    return error.code(), json.loads(error.details())["what"]


def test_a_token_lets_its_holder_in(door: Gate) -> None:
    assert json.loads(asked(door, door.owner()).json)["jobs"] == []
    assert json.loads(asked(door, door.credentials()).json)["jobs"] == []


def test_without_a_token_nobody_comes_in(door: Gate) -> None:
    for metadata in (
        version_metadata(),
        (*version_metadata(), ("authorization", "Basic abc")),
        (*version_metadata(), ("authorization", "")),
    ):
        code, words = refused(door, door.owner(), metadata=metadata)
        assert code == Status.UNAUTHENTICATED
        assert "weft auth join" in words


def test_a_wrong_expired_or_revoked_token_is_said_to_be_that(door: Gate) -> None:
    good = door.credentials()
    tokens = Tokens(door.folder)
    tokens.revoke(good.token.split(".")[1])
    tokens.close()
    wrong = {"weft.0123456789ab.abc": "does not know", "nonsense": "not a Weft token", door.invited(): "weft auth join"}
    for token, said in {good.token: "revoked", **wrong}.items():
        code, words = refused(door, Credentials(token, good.ca))
        assert code == Status.UNAUTHENTICATED
        assert said in words


@pytest.mark.parametrize(
    ("role", "service", "method", "request_", "opens"),
    [
        ("user", "Scheduler", "Query", m.QueryRequest(what="queue"), True),
        ("worker", "Scheduler", "Query", m.QueryRequest(what="queue"), False),
        ("worker", "Scheduler", "Submit", m.SubmitRequest(), False),
        ("user", "Auth", "Manage", m.OperateRequest(verb="list"), False),
        ("worker", "Auth", "Manage", m.OperateRequest(verb="list"), False),
        ("admin", "Auth", "Manage", m.OperateRequest(verb="list"), True),
        ("user", "Agents", "Attach", iter(()), False),
        ("user", "Blobs", "Get", m.BlobName(), False),
        ("worker", "Blobs", "Put", iter(()), False),
    ],
)  # fmt: skip
def test_a_role_opens_some_methods(
    door: Gate, role: Role, service: str, method: str, request_: Any, opens: bool
) -> None:
    who = door.credentials(role, node=f"{service}-{method}".lower())
    if opens:
        assert asked(door, who, method, request_, service) is not None
        return
    with open_channel(door.where, who) as line, pytest.raises(grpc.RpcError) as caught:
        list(call(line, method, service)(request_, timeout=WAIT_S, metadata=who.metadata()))
    error: Any = caught.value
    assert error.code() == Status.PERMISSION_DENIED
    assert f"role {role}" in json.loads(error.details())["what"]


def test_jobs_are_their_submitters(door: Gate) -> None:
    ada, bob = door.credentials(user="ada"), door.credentials(user="bob")
    path = m.Variable(name="PATH", value=os.environ["PATH"])
    spec = m.JobSpec(command=["sh", "-c", "echo hush"], env=[m.Variable(name="MY_KEY", value="s3cr3t")], hold=True)
    (job,) = asked(door, ada, "Submit", m.SubmitRequest(jobs=[spec], env=[path], chdir=str(door.root))).ids
    found = json.loads(asked(door, bob, "Query", m.QueryRequest(what="job", jobs=[job])).json)["jobs"][0]
    assert found["user"] == "ada"
    assert refused(door, bob, "Change", m.ChangeRequest(verb="cancel", jobs=[job]))[0] == Status.PERMISSION_DENIED
    with open_channel(door.where, bob) as line, pytest.raises(grpc.RpcError, match="only its owner and admins"):
        list(call(line, "Logs")(m.LogsRequest(job=job), timeout=WAIT_S, metadata=bob.metadata()))
    assert "s3cr3t" not in facts_of(door, bob, job)
    assert "s3cr3t" in facts_of(door, ada, job)
    assert refused(door, bob, "Operate", m.OperateRequest(verb="pause"))[0] == Status.PERMISSION_DENIED
    assert list(asked(door, door.owner(), "Change", m.ChangeRequest(verb="cancel", jobs=[job])).ids) == [job]


def test_only_admins_store_profiles_for_the_jobs_of_all_users(door: Gate) -> None:
    options = [m.Variable(name=name, value=value) for name, value in (("job", "1"), ("shared", "yes"))]
    request = m.OperateRequest(verb="profile", options=options)
    status, said = refused(door, door.credentials(user="ada"), "Operate", request)
    assert status == Status.PERMISSION_DENIED
    assert "only admins store profiles for the jobs of all users" in said
    assert refused(door, door.owner(), "Operate", request)[0] != Status.PERMISSION_DENIED


def facts_of(gate: Gate, who: Credentials, job: str) -> str:
    """All facts up to the one with which it was submitted."""
    text = ""
    with open_channel(gate.where, who) as line:
        for fact in call(line, "Watch")(m.WatchRequest(), timeout=WAIT_S, metadata=who.metadata()):
            text += fact.json
            if '"Submitted"' in fact.json and json.loads(fact.json)["job"]["id"] == job:
                break
    return text


# ---- joining


def test_joining_gives_a_token_of_ones_own_once(door: Gate) -> None:
    request, nobody = m.JoinRequest(token=door.invited(user="bob")), Credentials("", door.ca())
    reply = asked(door, nobody, "Join", request, "Auth", version_metadata())
    assert (reply.role, reply.user) == ("user", "bob")
    assert asked(door, Credentials(reply.token, nobody.ca)) is not None
    code, words = refused(door, nobody, "Join", request, "Auth", metadata=version_metadata())
    assert code == Status.PERMISSION_DENIED
    assert "already used" in words


def test_many_with_one_join_token_and_one_comes_in(door: Gate) -> None:
    request, nobody = m.JoinRequest(token=door.invited()), Credentials("", door.ca())
    came: list[str] = []

    def join() -> None:
        with contextlib.suppress(grpc.RpcError):
            came.append(asked(door, nobody, "Join", request, "Auth", version_metadata()).token)

    threads = [threading.Thread(target=join) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(came) == 1


# ---- versions


@pytest.mark.parametrize(
    ("forged", "said"),
    [("999", "update the scheduler"), *((text, "update the caller") for text in ("0", "", "-1", "1e9", "9" * 400))],
)
def test_another_protocol_is_refused_with_who_is_older(door: Gate, forged: str, said: str) -> None:
    metadata = (*door.owner().metadata()[:1], ("weft-protocol", forged), ("weft-version", "9.9"))
    code, words = refused(door, door.owner(), metadata=metadata)
    assert code == Status.FAILED_PRECONDITION
    assert said in words
    assert "Weft 9.9" in words


def test_who_says_no_protocol_is_refused(door: Gate) -> None:
    code, words = refused(door, door.owner(), metadata=door.owner().metadata()[:1])
    assert code == Status.FAILED_PRECONDITION
    assert "no protocol" in words


@pytest.mark.parametrize("method", ["Doors/Join", "Agents/Attach", "Scheduler/Query"])
def test_a_peer_of_protocol_1_is_refused_by_its_own_names_for_methods(door: Gate, method: str) -> None:
    metadata = (*door.owner().metadata()[:1], ("weft-protocol", "1"), ("weft-version", "0.1.0"))
    with open_channel(door.where, door.owner()) as line, pytest.raises(grpc.RpcError) as caught:
        line.unary_unary(f"/{PREFIX}{method}")(b"", timeout=WAIT_S, metadata=metadata)
    error: Any = caught.value
    assert error.code() == Status.FAILED_PRECONDITION
    assert f"Weft 0.1.0 speaks protocol 1, the scheduler (Weft {version('weft')}) protocol 2" in error.details()
    assert "update the caller" in error.details()


# ---- bytes


def test_another_authority_is_not_trusted(door: Gate, tmp_path: Path) -> None:
    other, _ = certificates.init(tmp_path, ["localhost"])
    with pytest.raises(grpc.RpcError) as caught:
        asked(door, Credentials(door.owner().token, other.ca))
    error: Any = caught.value
    assert error.code() == Status.UNAVAILABLE


def test_a_message_too_large_is_refused_and_others_go_on(door: Gate) -> None:
    big = m.SubmitRequest(jobs=[m.JobSpec(command=["x" * (MAX_MESSAGE_BYTES + 1)])])
    options = [("grpc.max_send_message_length", -1)]
    with open_channel(door.where, door.owner(), options=options) as line, pytest.raises(grpc.RpcError) as caught:
        call(line, "Submit")(big, timeout=WAIT_S, metadata=door.owner().metadata())
    error: Any = caught.value
    assert error.code() == Status.RESOURCE_EXHAUSTED
    assert asked(door, door.owner()) is not None


def test_nothing_is_read_of_what_a_stranger_sends(door: Gate) -> None:
    """A stream without end is answered at its first moment."""
    stop = threading.Event()

    def endless() -> Iterator[m.BlobPart]:
        while not stop.is_set():
            yield m.BlobPart(bytes=b"x" * 100_000)

    nobody = Credentials("weft.0123456789ab.abc", door.ca())
    try:
        with open_channel(door.where, nobody) as line, pytest.raises(grpc.RpcError) as caught:
            call(line, "Put", "Blobs")(endless(), timeout=WAIT_S, metadata=nobody.metadata())
    finally:
        stop.set()
    error: Any = caught.value
    assert error.code() == Status.UNAUTHENTICATED


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
NOISE = (
    b"",
    b"\x00" * 100_000,
    b"GET / HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01\xff\xff" + b"a" * 5000,
    PREFACE + b"\xff" * 50_000,
)


@pytest.mark.parametrize("noise", NOISE, ids=("nothing", "zeros", "http", "hello", "frames"))
def test_noise_at_the_port_disturbs_nobody(door: Gate, noise: bytes) -> None:
    with socket.create_connection(("127.0.0.1", door.where.port), timeout=WAIT_S) as line:
        with contextlib.suppress(OSError):
            line.sendall(noise)
        assert asked(door, door.owner()) is not None
    assert asked(door, door.owner()) is not None


def test_noise_inside_tls_disturbs_nobody(door: Gate) -> None:
    context = ssl.create_default_context(cadata=(door.ca() or b"").decode())
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", door.where.port), timeout=WAIT_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as line,
    ):
        line.sendall(PREFACE + b"\xff" * 20_000)
        assert asked(door, door.owner()) is not None
    assert asked(door, door.owner()) is not None


def test_who_never_finishes_a_handshake_holds_up_nobody_and_is_let_go(door: Gate) -> None:
    slow = [socket.create_connection(("127.0.0.1", door.where.port), timeout=WAIT_S) for _ in range(50)]
    try:
        for line in slow:
            line.sendall(b"\x16\x03\x01")
        assert asked(door, door.owner()) is not None
        assert slow[0].recv(1) == b""  # after the handshake's time
    finally:
        for line in slow:
            line.close()


def test_bytes_that_are_no_message_are_refused(door: Gate) -> None:
    who = door.owner()
    with open_channel(door.where, who) as line:
        method = line.unary_unary("/weft.v1.Scheduler/Submit")
        with pytest.raises(grpc.RpcError) as caught:
            method(b"\xff\xff\xff\xff", timeout=WAIT_S, metadata=who.metadata())
        with pytest.raises(grpc.RpcError) as unknown:
            line.unary_unary("/weft.v1.Scheduler/Nothing")(b"", timeout=WAIT_S, metadata=who.metadata())
    error: Any = caught.value
    assert error.code() in (Status.INTERNAL, Status.UNKNOWN, Status.INVALID_ARGUMENT)
    error = unknown.value
    assert error.code() == Status.UNIMPLEMENTED
    assert asked(door, who) is not None


# ---- those who are inside


def test_whose_token_is_revoked_is_shown_out(door: Gate) -> None:
    who = door.credentials()
    with open_channel(door.where, who) as line:
        facts = call(line, "Watch")(m.WatchRequest(), timeout=WAIT_S, metadata=who.metadata())
        assert next(facts)  # it is inside
        request = m.OperateRequest(verb="revoke", options=[m.Variable(name="ids", value=who.token.split(".")[1])])
        asked(door, door.owner(), "Manage", request, "Auth")
        with pytest.raises(grpc.RpcError) as cut:
            for _ in facts:
                pass
        assert cut.value.code() == Status.UNAUTHENTICATED
    assert refused(door, who)[0] == Status.UNAUTHENTICATED


def test_a_client_that_vanishes_is_forgotten(door: Gate) -> None:
    lines = []
    for _ in range(20):
        line = open_channel(door.where, door.owner())
        facts = call(line, "Watch")(m.WatchRequest(), timeout=WAIT_S, metadata=door.owner().metadata())
        assert next(facts)
        lines.append(line)
    assert door.calls() >= 20
    for line in lines:
        line.close()
    until(lambda: door.calls() <= 1)
    assert asked(door, door.owner()) is not None


def test_too_many_wrong_tokens_are_not_looked_at() -> None:
    """And a right one still opens."""
    with gate() as own:
        wrong = Credentials("weft.0123456789ab.abc", own.ca())
        codes = [refused(own, wrong)[0] for _ in range(25)]
        assert codes[0] == Status.UNAUTHENTICATED
        assert codes[-1] == Status.RESOURCE_EXHAUSTED
        assert "try again in" in refused(own, wrong)[1]
        nobody = Credentials("", own.ca())
        invitation = m.JoinRequest(token=own.invited())
        assert (
            refused(own, nobody, "Join", invitation, "Auth", metadata=version_metadata())[0]
            == Status.RESOURCE_EXHAUSTED
        )
        assert asked(own, own.owner()) is not None


def test_on_loopback_it_needs_a_token_but_no_certificate() -> None:
    with gate(tls=False) as own:
        assert own.ca() is None
        assert asked(own, own.owner()) is not None
        assert refused(own, Credentials("weft.0123456789ab.abc"))[0] == Status.UNAUTHENTICATED


def test_a_user_has_a_limited_number_of_streams(door: Gate) -> None:
    """Others, and single calls of the same user, are answered."""
    many, other = door.credentials(user="many"), door.credentials()
    with open_channel(door.where, many) as line:

        def watch() -> Any:
            return call(line, "Watch")(m.WatchRequest(), timeout=WAIT_S, metadata=many.metadata())

        streams = [watch() for _ in range(MAX_STREAMS)]
        for stream in streams:
            assert next(stream)
        with pytest.raises(grpc.RpcError) as caught:
            next(watch())
        assert "500 streams of this caller are open already" in str(caught.value.details())
        assert asked(door, many) is not None
        with open_channel(door.where, other) as its_line:
            assert next(call(its_line, "Watch")(m.WatchRequest(), timeout=WAIT_S, metadata=other.metadata()))
        for stream in streams:
            stream.cancel()
        until(lambda: door.calls() <= 1)
        assert next(watch())
