"""Addresses of schedulers, and whether messages to them leave the machine."""

from __future__ import annotations

import socket

import pytest

from weft.access.endpoints.addresses import DEFAULT_PORT, Address, is_loopback, parse_address, resolve_local
from weft.errors import InputError


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("localhost:50051", "localhost", 50051), ("gpu-head", "gpu-head", DEFAULT_PORT), ("10.0.0.1:1", "10.0.0.1", 1),
        ("[::1]:7", "::1", 7), ("[::1]", "::1", DEFAULT_PORT), ("::1", "::1", DEFAULT_PORT),
        (" a.b.c:65535 ", "a.b.c", 65535),
    ],
)  # fmt: skip
def test_an_address_is_a_host_and_a_port(text: str, host: str, port: int) -> None:
    assert parse_address(text) == Address(host, port)
    assert parse_address(str(parse_address(text))) == Address(host, port)


@pytest.mark.parametrize(
    "text", ["", ":1", "a:0", "a:65536", "a:x", "a:", "a b:1", "[::1", "[::1]x", "http://a:1", "a/b:1", "é:1", "a:1:b",
             "-a:1", "a" * 300, "a:1\n2", "[a]:1"],
)  # fmt: skip
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a scheduler address"):
        parse_address(text)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.8.7", "::1", "localhost"])
def test_these_never_leave_the_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.0.2.7", "128.0.0.1", "no-such-host.invalid", "::ffff:192.0.2.7"]
)
def test_these_may_leave_it(host: str) -> None:
    assert not is_loopback(host)


def test_a_name_is_what_it_resolves_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what it is called: `localhost` can be made to mean another machine."""
    elsewhere = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 0)) for each in ("127.0.0.1", "192.0.2.7")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: elsewhere)
    assert not is_loopback("localhost")


def test_a_name_here_is_taken_where_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert resolve_local(Address("localhost", server.getsockname()[1])).host == "127.0.0.1"
