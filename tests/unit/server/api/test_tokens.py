"""Tokens: who holds them, what for, until when."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.access.auth.rate_limit import MAX_FAILURES, WINDOW_S, FailureLimiter, host_of
from weft.access.auth.tokens import Tokens, parse
from weft.errors import InputError, NotFound, NotPermitted, WeftError


class Hands:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def tokens(tmp_path: Path, clock: Hands) -> Iterator[Tokens]:
    made = Tokens(tmp_path / "server", clock)
    yield made
    made.close()


def invited(tokens: Tokens, role: str = "user", user: str = "ada", expires_s: float = 60.0) -> str:
    return tokens.invite(role, user, expires_s=expires_s, by="root", fingerprint="f" * 64)


def test_a_join_token_becomes_one_of_ones_own(tokens: Tokens) -> None:
    token, who = tokens.join(invited(tokens))
    assert (who.user, who.role, who.node) == ("ada", "user", "")
    assert tokens.verify(token) == who
    assert tokens.is_valid(who.key)


def test_it_is_good_once(tokens: Tokens) -> None:
    invitation = invited(tokens)
    tokens.join(invitation)
    with pytest.raises(NotPermitted, match="already used"):
        tokens.join(invitation)


def test_it_is_good_for_a_while(tokens: Tokens, clock: Hands) -> None:
    invitation = invited(tokens, expires_s=60.0)
    clock.now += 60.0
    with pytest.raises(NotPermitted, match="expired"):
        tokens.join(invitation)


def test_it_opens_nothing_itself(tokens: Tokens) -> None:
    with pytest.raises(NotPermitted, match="weft auth join"):
        tokens.verify(invited(tokens))


def test_a_token_of_ones_own_does_not_join(tokens: Tokens) -> None:
    token, _ = tokens.join(invited(tokens))
    with pytest.raises(NotPermitted, match="not a join token"):
        tokens.join(token)


def test_a_wrong_secret_is_as_unknown_as_a_wrong_id(tokens: Tokens) -> None:
    token, who = tokens.join(invited(tokens))
    words = set()
    for wrong in (f"weft.{who.key}.{'a' * 43}", f"weft.000000000000.{token.rpartition('.')[2]}"):
        with pytest.raises(NotPermitted) as caught:
            tokens.verify(wrong)
        words.add(str(caught.value))
    assert len(words) == 1


@pytest.mark.parametrize("text", ["", "x", "weft..", "weft.a.", "weft.a.b.c", "weft-join.a.b", "weft.é.b", "." * 900])
def test_what_is_no_token_is_said_to_be_none(tokens: Tokens, text: str) -> None:
    assert parse(text) is None
    with pytest.raises(NotPermitted, match="not a Weft token"):
        tokens.verify(text)


def test_revoked_it_opens_nothing(tokens: Tokens) -> None:
    token, who = tokens.join(invited(tokens))
    assert tokens.revoke(who.key)["state"] == "revoked"
    assert not tokens.is_valid(who.key)
    with pytest.raises(NotPermitted, match="revoked"):
        tokens.verify(token)
    with pytest.raises(NotFound, match="weft auth list"):
        tokens.revoke("nothing")


def test_a_revoked_invitation_is_void(tokens: Tokens) -> None:
    invitation = invited(tokens)
    shown = parse(invitation)
    assert shown is not None
    assert shown.fingerprint == "f" * 64
    tokens.revoke(shown.id)
    with pytest.raises(NotPermitted, match="revoked"):
        tokens.join(invitation)


def test_a_worker_is_one_node_and_a_node_one_worker(tokens: Tokens) -> None:
    with pytest.raises(InputError, match="node name"):
        tokens.join(invited(tokens, "worker"), "")
    first, second = invited(tokens, "worker"), invited(tokens, "worker")
    _, who = tokens.join(first, "gpu1")
    assert (who.role, who.node) == ("worker", "gpu1")
    with pytest.raises(NotPermitted, match="has a token already"):
        tokens.join(second, "gpu1")
    tokens.revoke(who.key)
    assert tokens.join(second, "gpu1")[1].node == "gpu1"


def test_no_secret_is_on_disk_or_in_the_list(tokens: Tokens, tmp_path: Path, clock: Hands) -> None:
    invitation = invited(tokens)
    clock.now += 1.0  # the list is in the order of time
    token, _ = tokens.join(invitation)
    secrets = [text.split(".")[2] for text in (invitation, token)]
    files = list((tmp_path / "server").iterdir())
    assert all(path.stat().st_mode & 0o077 == 0 for path in [*files, tmp_path / "server"])
    content = b"".join(path.read_bytes() for path in files)
    assert not any(secret.encode() in content or secret in str(tokens.all()) for secret in secrets)
    assert [(each["kind"], each["state"]) for each in tokens.all()] == [("join", "used"), ("own", "good")]


def test_the_owners_token_stays_while_it_is_good(tokens: Tokens, tmp_path: Path) -> None:
    path = tmp_path / "server" / "token"
    token = tokens.write_owner_token(path, "ada")
    assert path.read_text() == f"{token}\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert tokens.write_owner_token(path, "ada") == token
    who = tokens.verify(token)
    assert (who.user, who.role) == ("ada", "admin")
    tokens.revoke(who.key)
    assert tokens.write_owner_token(path, "ada") != token


def test_two_processes_may_have_it_open(tokens: Tokens, tmp_path: Path, clock: Hands) -> None:
    beside = Tokens(tmp_path / "server", clock)
    try:
        token, who = tokens.join(invited(beside))
        beside.revoke(who.key)
        with pytest.raises(NotPermitted, match="revoked"):
            tokens.verify(token)
    finally:
        beside.close()


@pytest.mark.parametrize(
    ("role", "user", "expires_s"),
    [("root", "a", 60.0), ("user", "", 60.0), ("user", "a b", 60.0), ("user", "a" * 65, 60.0), ("user", "a", 0.0),
     ("user", "a", 1e9)],
)  # fmt: skip
def test_nonsense_is_not_given_out(tokens: Tokens, role: str, user: str, expires_s: float) -> None:
    with pytest.raises(InputError):
        invited(tokens, role, user, expires_s)
    assert tokens.all() == []


def test_a_damaged_file_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "auth.db").write_bytes(b"not a database, but long enough to be looked at" * 100)
    with pytest.raises(WeftError, match=r"auth\.db"):
        Tokens(tmp_path)


def test_who_is_wrong_too_often_waits(clock: Hands) -> None:
    limiter = FailureLimiter(clock)
    for _ in range(MAX_FAILURES):
        assert not limiter.blocked_s("192.0.2.7")
        limiter.count("192.0.2.7")
    assert limiter.blocked_s("192.0.2.7") == WINDOW_S
    assert not limiter.blocked_s("192.0.2.8")
    clock.now += WINDOW_S + 1
    assert not limiter.blocked_s("192.0.2.7")
    limiter.count("192.0.2.7")
    assert not limiter.blocked_s("192.0.2.7")


def test_peers_are_told_apart_by_host() -> None:
    assert host_of("ipv4:192.0.2.7:51234") == "192.0.2.7"
    assert host_of("ipv6:%5B::1%5D:51234") == host_of("ipv6:[::1]:51234") == "::1"
    assert host_of("unix:") == "unix:"
