"""The network interface that gangs are told to use."""

from __future__ import annotations

import pytest

from weft.node.engine import interfaces
from weft.node.engine.rendezvous import Gang, GangMember

HERE = {"127.0.0.1": "lo", "10.0.0.7": "eth1", "192.168.1.7": "eth0", "fd00::7": "eth1"}


@pytest.mark.parametrize(
    ("own", "others", "source", "chosen"),
    [
        (["10.0.0.7"], ["10.0.0.8"], "192.168.1.7", "eth1"),
        (["fd00::7"], ["fd00::8"], "", "eth1"),
        (["127.0.0.1"], ["127.0.0.1"], "", "lo"),
        (["127.0.1.1"], ["127.0.1.1"], "", "lo"),
        (["127.0.1.1"], ["10.0.0.8"], "10.0.0.7", "eth1"),  # Debian's name for the host itself
        (["127.0.1.1"], ["10.0.0.8"], "", ""),
        (["10.9.9.9"], ["10.0.0.8"], "10.0.0.7", ""),  # an address behind NAT
        ([], ["10.0.0.8"], "10.0.0.7", "eth1"),
    ],
)
def test_the_interface_of_the_address_the_worker_joined_with(
    own: list[str], others: list[str], source: str, chosen: str
) -> None:
    assert interfaces.choose_interface(own, others, HERE, lambda _: source) == chosen


def test_the_addresses_of_this_machine_are_found() -> None:
    assert interfaces.list_addresses()["127.0.0.1"] == "lo"
    assert interfaces.source_towards("127.0.0.1") == "127.0.0.1"
    assert interfaces.resolve("no-such-host.invalid") == []


def test_what_is_set_stays() -> None:
    gang = Gang((GangMember("n1", "localhost", 1), GangMember("n2", "127.0.0.1", 1)), rank=1)
    assert interfaces.gang_variables(gang, {}) == {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "=lo"}
    assert interfaces.gang_variables(gang, {"NCCL_SOCKET_IFNAME": "ib0"}) == {"GLOO_SOCKET_IFNAME": "lo"}
