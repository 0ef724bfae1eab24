"""Every field of every message that a peer can send, filled as badly as possible, against a server with 3,000 jobs: it
answers or refuses, and no other caller waits for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

import grpc
import pytest

from support.hostile_messages import Attack, attacks, paired_attacks
from support.running.live_cluster import Cluster, cluster
from support.running.local_scheduler import until
from weft.access.auth.identity import Role
from weft.access.auth.tokens import Tokens
from weft.access.endpoints.credentials import Credentials, open_channel
from weft.access.wire import messages as m
from weft.access.wire.failures import decode_error
from weft.access.wire.protocol import PROTOCOL
from weft.access.wire.service import PREFIX, SERVICES
from weft.server.admin.operations import VERBS as OPERATIONS
from weft.server.jobs.commands import VERBS as CHANGES
from weft.version import VERSION

JOBS = 3000
MAX_TURN_CPU_S = 0.25
MAX_GROWTH_MB = 100.0
SETTLING_S = 40.0
"""The time within which the server returns the memory of all requests."""
TIMEOUT_S = 30.0
STREAM_TIMEOUT_S = 0.5
"""For a stream that has nothing to say yet."""
REFUSALS = {
    grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED,
}  # fmt: skip
JOB = m.JobSpec(command=["true"], chdir="/tmp", hold=True)
QUERIES = (
    "queue", "job", "history", "gpus", "nodes", "groups", "teams", "weaves", "profiles", "pools", "services", "sweeps"
)  # fmt: skip
OWN_CHANGES = ("hold", "set", "suspend")
"""Verbs that leave the 3,000 jobs as they are. A user without jobs tries the others."""
HELLO = m.AgentMessage(
    hello=m.Hello(protocol=PROTOCOL, version=VERSION, node=m.NodeSpec(id="n9"), instance="i", disk_id="d")
)


class Peers:
    """The tokens of an admin, a user and a worker, and the calls that they make."""

    def __init__(self, server: Cluster) -> None:
        self.server, self.longest_s, self.idle_mb = server, 0.0, server.memory_mb()
        self._tokens = {role: self._join(role) for role in ("admin", "user", "worker")}
        self._channel = open_channel(server.address, server.credentials())

    def close(self) -> None:
        self._channel.close()

    def _join(self, role: Role) -> Credentials:
        tokens = Tokens(self.server.folder)
        try:
            token = tokens.invite(role, f"mallory-{role}", expires_s=600.0, by="test", fingerprint="")
            return Credentials(tokens.join(token, "n9" if role == "worker" else "")[0])
        finally:
            tokens.close()

    def send(self, call: Call, content: bytes) -> str:
        """Make a call with this message. Return what is wrong with the answer; empty: nothing."""
        kind = SERVICES[call.service][call.name].kind
        types = {"unary": "unary_unary", "stream": "unary_stream", "upload": "stream_unary", "both": "stream_stream"}
        method = getattr(self._channel, types[kind])(f"/{PREFIX}{call.service}/{call.name}", bytes, bytes)
        request = iter((*call.first, content)) if kind in ("upload", "both") else content
        is_stream = kind in ("stream", "both")
        timeout_s = STREAM_TIMEOUT_S if kind == "stream" else TIMEOUT_S
        try:
            reply = method(request, metadata=self._tokens[call.role].metadata(), timeout=timeout_s)
            if is_stream:
                next(iter(reply), None)
                reply.cancel()
        except grpc.RpcError as error:
            code = error.code()
            waits = is_stream and code in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
            is_refusal = code in REFUSALS or decode_error(error.details() or "") is not None
            return "" if is_refusal or waits else f"{code}: {error.details()}"[:500]
        return ""


@pytest.fixture(scope="module")
def peers() -> Iterator[Peers]:
    with cluster(options=("--policy", "srsf"), settings={"max_cpu_per_user": 0.0}) as server:
        jobs = [
            m.JobSpec(name=f"task-{at}", command=["true"], chdir="/tmp", hold=True, group=f"group-{at % 7}")
            for at in range(JOBS // 2)
        ]
        jobs.append(m.JobSpec(name="many", command=["true"], chdir="/tmp", hold=True, array=f"0-{JOBS // 2 - 1}"))
        with server.channel() as method:
            method("Submit")(m.SubmitRequest(jobs=jobs))
        made = Peers(server)
        yield made
        made.close()


class Call(NamedTuple):
    """A call of a method, from valid requests on."""

    role: Role
    service: str
    name: str
    base: Any
    skip: Collection[str] = ()
    """Fields that are bad in another call."""
    first: tuple[bytes, ...] = ()
    """Messages of the stream before the bad one."""

    def __str__(self) -> str:
        fields = [getattr(self.base, key) for key in ("what", "verb") if hasattr(self.base, key)]
        return " ".join([self.name, *fields, *([] if self.service != "Agents" else [self.base.WhichOneof("is")])])


def calls() -> Iterator[Call]:
    for service, methods in SERVICES.items():
        for name, method in methods.items():
            yield from _calls(service, name, method.request)


def _calls(service: str, name: str, kind: Any) -> Iterator[Call]:
    if name == "Query":
        for what in QUERIES:
            yield Call("admin", service, name, kind(what=what), () if what == QUERIES[0] else ("what",))
    elif name == "Change":
        for verb in CHANGES:
            skip = () if verb == "edit" else ("spec", "verb")
            yield Call("admin" if verb in OWN_CHANGES else "user", service, name, kind(verb=verb), skip)
    elif name == "Operate":
        for verb in OPERATIONS.keys() - {"shutdown"}:
            yield Call("admin", service, name, kind(verb=verb), () if verb == "doctor" else ("verb",))
    elif name == "Attach":
        for field in kind.DESCRIPTOR.fields:
            base = kind()
            base.CopyFrom(HELLO) if field.name == "hello" else getattr(base, field.name).SetInParent()
            others = {other.name for other in kind.DESCRIPTOR.fields} - {field.name}
            yield Call(
                "worker", service, name, base, others, () if field.name == "hello" else (HELLO.SerializeToString(),)
            )
    elif name == "Submit":
        yield Call("user", service, name, kind(jobs=[JOB], dry_run=True), ("dry_run",))
    else:
        yield Call("worker" if name == "ServeTerminal" else "admin", service, name, kind())


@pytest.mark.parametrize("call", sorted(calls(), key=str), ids=str)
def test_a_bad_field_is_answered_or_refused(peers: Peers, call: Call) -> None:
    check(peers, call, attacks(call.base, call.skip))


def test_the_server_returns_their_memory(peers: Peers) -> None:
    until(lambda: peers.server.memory_mb() - peers.idle_mb < MAX_GROWTH_MB, SETTLING_S)
    assert len(peers.server.json("queue", "--limit", "10000")["jobs"]) > 0


@pytest.mark.soak
@pytest.mark.parametrize("call", sorted(calls(), key=str), ids=str)
def test_two_bad_fields_are_answered_or_refused(peers: Peers, call: Call) -> None:
    check(peers, call, paired_attacks(call.base, call.skip))


def check(peers: Peers, call: Call, bad: Iterable[Attack]) -> None:
    for attack in bad:
        wrong = peers.send(call, attack.content)
        assert not wrong, f"{attack.field} ({attack.what}): {wrong}"
    longest_s = peers.server.metric("weft_loop_longest_turn_cpu_seconds")
    was_longest_s, peers.longest_s = peers.longest_s, longest_s
    assert longest_s <= max(MAX_TURN_CPU_S, was_longest_s), f"{longest_s:.2f} CPU s in one turn of the loop"
    log = (peers.server.folder / "server.log").read_text()
    assert "Traceback" not in log
    assert "rebuilding" not in log
    assert peers.server.processes["server"].poll() is None
