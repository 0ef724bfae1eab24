"""Which scheduler is meant: flag, variable, config file, this machine's own; and where credentials are."""

from __future__ import annotations

import os
import socket
from ipaddress import ip_address
from pathlib import Path

import pytest

from weft.access.endpoints import addresses, discovery
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.config import Setting, effective_setting, scheduler_address
from weft.access.endpoints.credentials import Credentials, credentials_folder, find_credentials, save_credentials
from weft.access.endpoints.paths import server_folder, user_paths
from weft.access.endpoints.private_files import write_private
from weft.errors import InputError, NotPermitted, Unreachable, WeftError


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path)}


def write(env: dict[str, str], text: str) -> Path:
    path = Path(env["HOME"], ".config", "weft", "config.yaml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_flag_before_variable_before_file_before_ones_own(env: dict[str, str]) -> None:
    assert scheduler_address(None, env) is None
    path = write(env, "# mine\nscheduler: a:1\n")
    assert scheduler_address(None, env) == Address("a", 1)
    assert effective_setting("scheduler", None, env) == Setting("a:1", f"{path}:2")
    env["WEFT_SCHEDULER"] = "b:2"
    assert scheduler_address(None, env) == Address("b", 2)
    assert scheduler_address("c:3", env) == Address("c", 3)
    assert scheduler_address("local", env) is None


def test_where_nothing_is_said_it_is_the_server_that_this_user_runs(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        port = line.getsockname()[1]
        monkeypatch.setattr(discovery, "DEFAULT_PORT", port)
        server_folder(port, env).mkdir(parents=True)
        assert discovery.find_listeners(port) == [], "bound, but nobody listens yet"
        line.listen()
        assert discovery.find_listeners(port) == [(ip_address("127.0.0.1"), os.getuid())]
        assert scheduler_address(None, env) is None, "it has left no token: it is somebody else's"
        (server_folder(port, env) / "token").write_text("weft.a.b")
        assert effective_setting("scheduler", None, env) == Setting(f"localhost:{port}", "your weft server")
        assert scheduler_address(None, env) == Address("localhost", port)
        assert scheduler_address("local", env) is None
        assert scheduler_address(None, {**env, "WEFT_SCHEDULER": "a:1"}) == Address("a", 1)
        here = user_paths(env)
        here.make()
        here.lock.write_text(str(os.getpid()))
        assert scheduler_address(None, env) is None, "one's own scheduler runs, or died and left jobs"
        here.lock.write_text("")
        assert scheduler_address(None, env) == Address("localhost", port)
    assert scheduler_address(None, env) is None, "it has ended"


@pytest.mark.parametrize("text", ["", "\n", "# nothing yet\n"])
def test_a_file_that_says_nothing_says_nothing(env: dict[str, str], text: str) -> None:
    write(env, text)
    assert scheduler_address(None, env) is None


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("\nscheduler: x:y\n", 2, "not a scheduler address"), ("schedular: a:1\n", 1, "known: scheduler"),
        ("scheduler: [a]\n", 1, "expected text"), ("- a\n", 1, "a config"), ("{", 1, "not YAML"),
        ("scheduler: a:1\nscheduler: b:1\n", 2, "twice"),
    ],
)  # fmt: skip
def test_a_mistake_in_it_is_told_with_its_line(env: dict[str, str], text: str, line: int, says: str) -> None:
    path = write(env, text)
    with pytest.raises(InputError) as caught:
        scheduler_address(None, env)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert says in str(caught.value)


def test_a_wrong_variable_is_named(env: dict[str, str]) -> None:
    with pytest.raises(InputError, match="WEFT_SCHEDULER: "):
        scheduler_address(None, {**env, "WEFT_SCHEDULER": "a:b"})
    with pytest.raises(InputError, match="WEFT_CONFIG"):
        scheduler_address(None, {**env, "WEFT_CONFIG": "/nowhere/at/all.yaml"})


# ---- credentials


def test_what_was_joined_is_found_again(env: dict[str, str]) -> None:
    where, mine, theirs = Address("gpu-head", 7), Credentials("weft.a.b", b"CA"), Credentials("weft.c.d", b"CA")
    save_credentials(where, "user", mine, env)
    assert find_credentials(where, "user", env) == find_credentials(where, "worker", env) == mine
    path = save_credentials(where, "worker", theirs, env)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert find_credentials(where, "worker", env) == theirs
    assert find_credentials(where, "user", env) == mine
    assert "weft.a" not in repr(mine)


def test_nothing_goes_elsewhere_in_clear(env: dict[str, str]) -> None:
    where = Address("192.0.2.7", 7)
    save_credentials(where, "user", Credentials("weft.a.b"), env)
    with pytest.raises(NotPermitted, match="no certificate"):
        find_credentials(where, "user", env)


@pytest.mark.parametrize(
    ("at", "found"), [("::1", "::1"), ("127.0.0.2", "127.0.0.2"), ("::ffff:127.0.0.1", "127.0.0.1")]
)
def test_who_listens_where_is_read_from_the_kernel(at: str, found: str) -> None:
    family = socket.AF_INET6 if ":" in at else socket.AF_INET
    with socket.create_server((at, 0), family=family, dualstack_ipv6="ffff" in at) as line:
        assert discovery.find_listeners(line.getsockname()[1]) == [(ip_address(found), os.getuid())]


def test_the_owner_of_a_server_needs_no_token_at_any_address_of_this_machine(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = server_folder(7, env)
    folder.mkdir(parents=True)
    write_private(folder / "token", b"weft.a.b")
    monkeypatch.setattr(
        addresses, "_resolve", lambda host: {"here": ["127.0.0.2"], "there": ["192.0.2.7"]}.get(host, [])
    )
    monkeypatch.setattr(addresses, "is_loopback", lambda _: False)
    with pytest.raises(NotPermitted):
        find_credentials(Address("here", 7), "user", env)  # it has no certificate: nothing is said to it in clear
    write_private(folder / "ca.pem", b"CA")
    assert find_credentials(Address("here", 7), "user", env) == Credentials("weft.a.b", b"CA")
    with pytest.raises(NotPermitted):
        find_credentials(Address("there", 7), "user", env)
    with pytest.raises(Unreachable, match="the host mistyped is not known"):
        find_credentials(Address("mistyped", 7), "user", env)


def test_the_token_of_a_server_here_is_not_for_other_machines(env: dict[str, str]) -> None:
    server_folder(7, env).mkdir(parents=True)
    write_private(server_folder(7, env) / "token", b"weft.a.b\n")
    assert find_credentials(Address("127.0.0.1", 7), "user", env) == Credentials("weft.a.b")
    with pytest.raises(NotPermitted, match="weft auth join"):
        find_credentials(Address("192.0.2.7", 7), "user", env)
    with pytest.raises(Unreachable, match="weft server --port 8"):
        find_credentials(Address("127.0.0.1", 8), "user", env)


def test_a_token_that_others_can_read_is_not_used(env: dict[str, str]) -> None:
    where = Address("gpu-head", 7)
    save_credentials(where, "user", Credentials("weft.a.b", b"CA"), env)
    (credentials_folder(where, env) / "token").chmod(0o644)
    with pytest.raises(WeftError, match="chmod 600"):
        find_credentials(where, "user", env)
