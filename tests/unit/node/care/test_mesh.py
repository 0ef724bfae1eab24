"""The network check between nodes: real listeners and transfers on loopback."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest

from support.running.secured_cluster import free_port
from weft.node.care.mesh import cluster, link, probe
from weft.node.care.mesh.cluster import LinkView, judge_links
from weft.node.care.mesh.link import LinkError, Listener, Member, measure

KEY = bytes(range(32))


def member(node: str = "n1", address: str = "127.0.0.1", ports: int = 1) -> Member:
    return Member(node, address, [free_port() for _ in range(ports)])


@contextmanager
def listening(at: Member) -> Iterator[Listener]:
    with closing(Listener(at, KEY)) as made:
        yield made


def test_a_link_is_measured_by_a_real_transfer() -> None:
    at = member()
    with listening(at) as listener:
        found = measure(at, KEY, "n2")
        listener.wait_for({"n2"}, 10.0)
    assert found.mb_per_s > 1
    assert 0 < found.latency_s < 5
    assert abs(found.clock_s) <= found.uncertainty_s + 0.5


def test_a_peer_with_another_key_gets_nothing_and_is_not_counted() -> None:
    at = member()
    with listening(at) as listener:
        with pytest.raises(LinkError, match="closed the connection"):
            measure(at, b"another key", "n2")
        listener.wait_for({"n2"}, 0.0)
        assert listener._served == set()
        assert measure(at, KEY, "n3").mb_per_s > 0, "the next peer is served"


def test_the_key_is_never_sent_and_a_proof_serves_once() -> None:
    ours, theirs = os.urandom(16), os.urandom(16)
    proof = link.prove(KEY, b"peer", ours, theirs, b"n2")
    assert KEY not in proof
    assert proof != link.prove(KEY, b"peer", os.urandom(16), theirs, b"n2"), "the listener's nonce is in it"
    assert proof != link.prove(KEY, b"listener", ours, theirs, b"n2")


def test_a_peer_that_sends_too_much_is_cut_off() -> None:
    at = member()
    with listening(at) as listener, socket.create_connection(("127.0.0.1", listener.port), 10) as peer:
        nonce, name = link._receive(peer, 16), b"n2"
        ours = os.urandom(16)
        peer.sendall(ours + link.prove(KEY, b"peer", nonce, ours, name) + bytes([len(name)]) + name)
        link._receive(peer, 32)
        peer.sendall(b"b")
        link._receive(peer, 1)
        too_much = bytes(2 * link.MAX_TRANSFER_BYTES)
        with pytest.raises((ConnectionError, TimeoutError)):
            peer.sendall(too_much)
        assert listener._served == set()


def test_a_listener_takes_the_next_port_where_the_first_is_taken() -> None:
    at = member(ports=2)
    with socket.create_server(("127.0.0.1", at.ports[0])), listening(at) as listener:
        assert listener.port == at.ports[1]


@pytest.mark.parametrize("address", ["no-such-host.invalid", "a..b"])
def test_a_host_name_that_does_not_resolve_is_named(address: str) -> None:
    with pytest.raises(LinkError, match=f"the host name {address} does not resolve"):
        measure(Member("n1", address, [20000]), KEY, "n2")


def test_a_closed_port_is_named() -> None:
    at = member()
    with pytest.raises(LinkError, match=f"port {at.ports[0]} of 127.0.0.1 refuses connections"):
        measure(at, KEY, "n2")


def test_another_program_at_the_port_is_not_taken_for_the_node() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(bytes(16 + 32))
                connection.recv(1000)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(LinkError, match="another program listens there"):
            measure(Member("n1", "127.0.0.1", [server.getsockname()[1]]), KEY, "n2")
        thread.join()


def run_probes(members: list[Member], timeout_s: float, absent: str = "") -> dict[str, Any]:
    with ThreadPoolExecutor(len(members)) as pool:
        started = {
            each.node: pool.submit(probe.run, members, each.node, KEY, timeout_s)
            for each in members
            if each.node != absent
        }
        return {node: future.result() for node, future in started.items()}


def test_every_node_measures_every_other() -> None:
    members = [member(f"n{number}") for number in range(4)]
    found = run_probes(members, 60.0)
    for node, result in found.items():
        assert {each["target"] for each in result["links"]} == {each.node for each in members} - {node}
        assert not [each["problem"] for each in result["links"] if each["problem"]]
        assert {step["name"] for step in result["steps"]} >= {"driver", "disk", "limits", "shm"}


def test_a_node_that_is_absent_is_named_and_the_others_are_measured() -> None:
    members = [member(f"n{number}") for number in range(3)]
    found = run_probes(members, 5.0, absent="n1")
    for result in found.values():
        problems = {each["target"]: each["problem"] for each in result["links"]}
        assert "refuses connections" in problems.pop("n1")
        assert set(problems.values()) == {""}


def links(**mb_per_s: float) -> list[LinkView]:
    """Links as in `a_b=100.0`; 0: broken."""
    found = []
    for name, rate in mb_per_s.items():
        source, target = name.split("_")
        problem = "" if rate else "closed"
        found.append(
            LinkView(source, target, problem, mb_per_s=rate or None, latency_ms=0.1, clock_s=0.0, uncertainty_s=0.0)
        )
    return found


def test_the_verdict_on_a_network() -> None:
    found = links(a_b=1000.0, a_c=100.0, b_a=1000.0, b_c=1000.0, c_a=0.0, c_b=1000.0)
    verdicts = {node: judge_links(node, {}, found) for node in "abc"}
    assert [(step.name, step.state) for step in verdicts["b"]] == [("network", "ok"), ("clock", "ok")]
    assert verdicts["a"][0].state == "warning"
    assert "100 MB/s to c, where 1,000 are usual" in verdicts["a"][0].detail
    assert (verdicts["c"][0].state, verdicts["c"][0].detail) == ("failed", "does not reach a: closed")
    (failed,) = judge_links("d", {"problem": "job 7 found nothing: exit"}, found)
    assert failed.state == "failed"


def test_ports_of_nodes_on_one_machine_differ_and_keep_to_the_range_of_gangs() -> None:
    from weft.views.answers.nodes import NodeView

    members = cluster._members([NodeView("n1", port=30000), NodeView("n2", port=30000), NodeView("n3", port=0)])
    ports = [port for each in members for port in each.ports]
    assert len(set(ports)) == len(ports) == 9
    assert all(30000 <= port < 30100 for each in members[:2] for port in each.ports)
    assert all(20000 <= port < 32000 for port in members[2].ports)
