"""Commands and Python calls to a scheduler on a port, as its owner and as other users; and the errors if it fails."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.running.secured_cluster import Gate, free_port, gate
from weft.access.auth import certificates
from weft.access.auth.tokens import Tokens
from weft.access.client import Client
from weft.access.endpoints.addresses import Address
from weft.errors import NotPermitted, Unreachable


@pytest.fixture(scope="module")
def door() -> Iterator[Gate]:
    with gate(worker=True) as made:
        yield made


def run(gate: Gate, *words: str, env: dict[str, str] | None = None, code: int = 0, stdin: str = "") -> str:
    """Return its output: stdout if it succeeded, stderr if not."""
    at = () if words[0] == "auth" else ("--scheduler", str(gate.where))
    done = gate.weft(words[0], *at, *words[1:], env=env, stdin=stdin)
    assert done.returncode == code, f"{words}: {done.returncode}: {done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def joined(gate: Gate, name: str, role: str = "user") -> dict[str, str]:
    """The environment of another user who has joined, as a person would."""
    env = gate.visitor(name)
    token = run(gate, "auth", "token", "--port", str(gate.where.port), "--user", name, "--role", role).strip()
    said = run(gate, "auth", "join", str(gate.where), "-", env=env, stdin=f"{token}\n")
    assert said == f"joined {gate.where} as {role} {name}\n"
    return env


# ---- what works


def test_the_owner_needs_nothing_but_the_address(door: Gate) -> None:
    job = run(door, "submit", "-q", "--", "echo", "hello").strip()
    assert run(door, "wait", "-q", job) == ""
    assert run(door, "logs", job) == "hello\n"
    found = json.loads(run(door, "show", "--json", job))["jobs"][0]
    assert found["status"] == "done"


def test_the_variable_and_the_config_file_do_as_well(door: Gate) -> None:
    env = {**door.env, "WEFT_SCHEDULER": str(door.where)}
    done = door.weft("nodes", "--json", env=env)
    assert json.loads(done.stdout)["nodes"][0]["gpus"] == 2, done.stderr
    config = door.root / "elsewhere.yaml"
    config.write_text(f"scheduler: {door.where}\n")
    done = door.weft("doctor", "--json", env={**door.env, "WEFT_CONFIG": str(config)})
    assert json.loads(done.stdout)["scheduler_at"] == f"{door.where} (~/elsewhere.yaml:1)"


def test_another_user_joins_and_has_jobs_of_their_own(door: Gate) -> None:
    ada, bob = joined(door, "ada"), joined(door, "bob")
    job = run(door, "submit", "-q", "--", "sleep", "300", env=ada).strip()
    assert [each["user"] for each in json.loads(run(door, "queue", "--json", env=bob))["jobs"]] == ["ada"]
    assert f"job {job} belongs to ada, and you are bob" in run(door, "cancel", "-y", job, env=bob, code=5)
    assert "belongs to ada" in run(door, "logs", job, env=bob, code=5)
    assert "for admins" in run(door, "pause", env=bob, code=5)
    assert run(door, "cancel", "-y", "--all", env=bob) == ""
    assert run(door, "cancel", "-y", "@", env=ada) == f"cancelled {job}\n"
    assert list((door.root / "ada" / ".config" / "weft" / "credentials").iterdir())
    for path_ in (door.root / "ada" / ".config" / "weft").rglob("*"):
        assert path_.stat().st_mode & 0o077 == 0, path_


def test_an_admin_manages_tokens_from_elsewhere(door: Gate) -> None:
    eve = joined(door, "eve", "admin")
    at = ("--scheduler", str(door.where))
    token = run(door, "auth", "token", "--user", "dan", "--json", *at, env=eve)
    dan = door.visitor("dan")
    run(door, "auth", "join", str(door.where), json.loads(token)["token"], env=dan)
    assert "dan" in run(door, "auth", "list", *at, env=eve)
    (mine,) = [each for each in json.loads(run(door, "auth", "list", "--json", *at, env=eve))["tokens"]
               if (each["user"], each["kind"]) == ("dan", "own")]  # fmt: skip
    run(door, "queue", env=dan)
    assert run(door, "auth", "revoke", mine["id"], *at, env=eve) == f"revoked {mine['id']} (user dan)\n"
    assert "revoked" in run(door, "queue", env=dan, code=5)
    assert "may not call" in run(door, "auth", "list", *at, env=joined(door, "fay"), code=5)
    assert "nothing was revoked" in run(door, "auth", "revoke", mine["id"], "nosuch", *at, env=eve, code=3)


def test_a_client_in_python(door: Gate) -> None:
    program = (
        "import weft, sys\n"
        "job = weft.submit(['sh', '-c', 'echo $GREETING; exit 3'], env={'GREETING': 'hi'},\n"
        "                  scheduler=sys.argv[1])\n"
        "print(job.wait(60), job.logs(), job.show()['user'], weft.JobHandle(job.id, scheduler=sys.argv[1]) == job)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(door.where)], env=joined(door, "gus"), cwd=door.root, capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout == "3 hi\n gus True\n", done.stderr


def test_a_job_elsewhere_is_given_nothing_of_this_machine(door: Gate) -> None:
    env = {**door.env, "LC_ALL": "C.UTF-8", "LD_LIBRARY_PATH": "/here", "VIRTUAL_ENV": "/here", "WANDB_PROJECT": "p"}
    job = run(door, "submit", "-q", "--", "env", env=env).strip()
    run(door, "wait", "-q", job)
    given = dict(line.split("=", 1) for line in run(door, "logs", job).splitlines())
    assert given["LC_ALL"] == "C.UTF-8"
    assert given["WANDB_PROJECT"] == "p"
    assert "/here" not in given.values()
    assert given["PATH"] == door.env["PATH"]  # the worker's


# ---- what does not


def test_nobody_there(door: Gate) -> None:
    nowhere = Gate(door.root, Address("localhost", free_port()), door.env, door.process)
    assert f"weft server --port {nowhere.where.port}" in run(nowhere, "queue", code=4)
    assert "no scheduler" in run(nowhere, "submit", "--", "true", code=4)
    error = json.loads(nowhere.weft("queue", "--json", "--scheduler", str(nowhere.where)).stderr)["error"]
    assert error["code"] == "unreachable"


def test_a_stranger_is_told_how_to_join(door: Gate) -> None:
    assert "weft auth join" in run(door, "queue", env=door.visitor("stranger"), code=5)
    far = Gate(door.root, Address("192.0.2.7", 50051), door.env, door.process)
    assert "weft auth join 192.0.2.7:50051" in run(far, "queue", code=5)


def test_another_scheduler_with_the_same_address(door: Gate) -> None:
    ann = joined(door, "ann")
    folder = door.root / "ann" / ".config" / "weft" / "credentials" / f"localhost_{door.where.port}"
    other, _ = certificates.init(door.root / "other", ["localhost"])
    (folder / "ca.pem").write_bytes(other.ca)
    assert "not the scheduler that was joined" in run(door, "queue", env=ann, code=4)


def test_a_name_that_the_certificate_does_not_have(door: Gate) -> None:
    joined(door, "amy")
    here = door.root / "amy" / ".config" / "weft" / "credentials"
    (here / f"localhost_{door.where.port}").rename(here / f"127.0.0.2_{door.where.port}")
    by_number = Gate(door.root, Address("127.0.0.2", door.where.port), door.env, door.process)
    with socket.create_server(("127.0.0.2", door.where.port)) as server, forwarding(server, door.where.port):
        said = run(by_number, "queue", env=door.visitor("amy"), code=4)
    assert "not for the name 127.0.0.2" in said
    assert "weft auth init" in said


class forwarding:  # noqa: N801
    """Passes every connection on to a port of loopback."""

    def __init__(self, server: socket.socket, port: int) -> None:
        self._server, self._port = server, port
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def _accept(self) -> None:
        try:
            while True:
                one, _ = self._server.accept()
                other = socket.create_connection(("127.0.0.1", self._port))
                for source, sink in ((one, other), (other, one)):
                    threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()
        except OSError:
            return

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        finally:
            source.close()
            sink.close()


def serving(reply: bytes) -> tuple[socket.socket, Address]:
    """Something that answers every connection with these bytes."""
    server = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        try:
            while True:
                line, _ = server.accept()
                line.recv(65536)
                line.sendall(reply)
                line.close()
        except OSError:
            return

    threading.Thread(target=accept, daemon=True).start()
    return server, Address("localhost", server.getsockname()[1])


@pytest.mark.parametrize(
    "reply", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"220 mail\r\n", b""], ids=("http", "mail", "mute")
)
@pytest.mark.parametrize("tls", [True, False], ids=("tls", "plain"))
def test_another_service_at_the_port(door: Gate, reply: bytes, tls: bool) -> None:
    server, where = serving(reply)
    with server:
        env = door.visitor(f"lost-{where.port}")
        folder = Path(env["HOME"], ".config", "weft", "credentials", f"localhost_{where.port}")
        folder.mkdir(parents=True)
        for name, content in (("token", b"weft.a.b"), *((("ca.pem", door.ca() or b""),) if tls else ())):
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o600)
        said = run(Gate(door.root, where, env, door.process), "queue", env=env, code=4)
    assert ("TLS" if tls else "is not a scheduler") in said


def test_tls_where_none_is_expected(door: Gate) -> None:
    env = joined(door, "kim")
    (Path(env["HOME"], ".config", "weft", "credentials", f"localhost_{door.where.port}") / "ca.pem").unlink()
    assert "needs TLS" in run(door, "queue", env=env, code=4)


def test_a_token_for_another_scheduler_is_not_told_to_this_one(door: Gate) -> None:
    """Its authority is looked at first."""
    token = door.invited()
    wrong = token[:-64] + "0" * 64
    said = run(door, "auth", "join", str(door.where), wrong, env=door.visitor("lea"), code=4)
    assert "its certificate authority differs" in said
    tokens = Tokens(door.folder)
    try:
        assert tokens.join(token)[1].user == "ada"  # it was not used up
    finally:
        tokens.close()


def test_joining_with_nonsense(door: Gate) -> None:
    env = door.visitor("moe")
    assert "not a join token" in run(door, "auth", "join", str(door.where), "nonsense", env=env, code=2)
    assert "not a join token" in run(door, "auth", "join", str(door.where), door.owner().token, env=env, code=2)
    spent = door.invited()
    run(door, "auth", "join", str(door.where), spent, env=env)
    assert "already used" in run(door, "auth", "join", str(door.where), spent, env=env, code=5)
    nobody = f"localhost:{free_port()}"
    assert "cannot be reached" in run(door, "auth", "join", nobody, door.invited(), env=env, code=4)
    without = ".".join((*door.invited().split(".")[:3], ""))
    assert "without a certificate" in run(door, "auth", "join", "192.0.2.7:7", without, env=env, code=2)


def test_no_server_of_ones_own_to_make_tokens_for(door: Gate) -> None:
    said = run(door, "auth", "token", "--port", "1", code=2)
    assert "you have no scheduler" in said


# ---- what outlives what


def test_waiting_goes_on_when_the_scheduler_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with gate(worker=True) as own:
        for name, value in own.env.items():
            monkeypatch.setenv(name, value)
        job = run(own, "submit", "-q", "--", "sh", "-c", "until [ -e go ]; do sleep 0.1; done; exit 7").strip()
        with Client(own.where) as client, ThreadPoolExecutor(1) as pool:
            assert client.jobs([job]).jobs
            waiting = pool.submit(client.wait, job)
            own.restart()
            (own.root / "go").touch()
            assert waiting.result(60).exit_code == 7


def test_a_snapshot_is_run_where_it_was_never_checked_out(door: Gate) -> None:
    tree = door.root / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "lib.py").write_text("GREETING = 'committed'\n")
    (tree / "sub" / "train.py").write_text("import sys; sys.path.insert(0, '..'); import lib; print(lib.GREETING)\n")
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", "-C", str(tree), *words], check=True)
    (tree / "lib.py").write_text("GREETING = 'changed'\n")
    (tree / "notes.txt").write_text("x")
    flags = ("--snapshot", "--chdir", str(tree / "sub"))
    said = door.weft("submit", "--scheduler", str(door.where), *flags, "--", sys.executable, "train.py")
    assert "2 files" in said.stderr
    assert "notes.txt" in said.stderr
    job = said.stdout.split()[2]
    subprocess.run(["rm", "-r", str(tree)], check=True)
    assert run(door, "wait", "-q", job) == ""
    assert run(door, "logs", job) == "changed\n"


def test_a_snapshot_is_not_for_ones_own_machine(door: Gate) -> None:
    said = door.weft("submit", "--snapshot", "--", "true")
    assert said.returncode == 2
    assert "scheduler of a cluster" in said.stderr


def test_a_scheduler_without_a_certificate_is_for_this_machine_alone() -> None:
    with gate(tls=False) as own:
        assert json.loads(run(own, "queue", "--json"))["jobs"] == []
        said = own.weft("auth", "token", "--port", str(own.where.port)).stderr
        assert "only on this machine" in said
        ada = joined(own, "ada")
        assert json.loads(run(own, "queue", "--json", env=ada))["jobs"] == []
        with pytest.raises((NotPermitted, Unreachable)):
            Client(Address("192.0.2.7", own.where.port))
