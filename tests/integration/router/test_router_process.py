"""`weft router` as a process: its table file, a shared port, its end, access from elsewhere, and fronts."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from support.programs.http_replica import Replica, replicas
from support.router_client import Client, ask, in_loop

WEFT = [sys.executable, "-m", "weft"]


@asynccontextmanager
async def weft_router(
    *words: str, env: dict[str, str] | None = None
) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """Run `weft router`, and yield the process and its port."""
    process = await asyncio.create_subprocess_exec(
        *WEFT, "router", *words, stdout=asyncio.subprocess.PIPE, env={**os.environ, **(env or {})}
    )
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode()
        assert "listens" in line, line
        yield process, int(line.rsplit(":", 1)[1])
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def write(path: Path, *services: tuple[str, list[Replica]]) -> None:
    lines = ["services:"]
    for name, listed in services:
        lines += [f"  {name}:", f"    replicas: [{', '.join(f'127.0.0.1:{each.port}' for each in listed)}]"]
    path.with_suffix(".new").write_text("\n".join(lines) + "\n")
    path.with_suffix(".new").rename(path)


async def answer_of(port: int, target: str, wanted: int) -> None:
    while (await ask(port, "GET", target)).status != wanted:
        await asyncio.sleep(0.02)


@in_loop
async def test_a_router_follows_its_file_and_keeps_the_last_good_table(tmp_path: Path) -> None:
    table = tmp_path / "table.yaml"
    async with replicas("a", "b") as (a, b):
        write(table, ("one", [a]))
        async with weft_router("--table", str(table), "--listen", "127.0.0.1:0") as (_, port):
            assert (await ask(port, "GET", "/one/x")).status == 200
            write(table, ("one", [a]), ("two", [b]))
            await answer_of(port, "/two/x", 200)
            table.write_text("services: [broken")
            write(tmp_path / "other.yaml", ("three", [b]))
            assert (await ask(port, "GET", "/two/x")).status == 200
            (tmp_path / "other.yaml").rename(table)
            await answer_of(port, "/three/x", 200)
            assert (await ask(port, "GET", "/two/x")).status == 404


@in_loop
async def test_two_routers_share_a_port_and_one_ends_without_losing_a_request(tmp_path: Path) -> None:
    table = tmp_path / "table.yaml"
    async with replicas("a") as (a,):
        write(table, ("one", [a]))
        words = ("--table", str(table), "--share-port")
        async with AsyncExitStack() as stack:
            first, port = await stack.enter_async_context(weft_router(*words, "--listen", "127.0.0.1:0"))
            _, other = await stack.enter_async_context(weft_router(*words, "--listen", f"127.0.0.1:{port}"))
            assert other == port
            client = await Client.connect(port)
            client.send(b"GET /one/wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
            while not a.open:
                await asyncio.sleep(0.01)
            first.send_signal(signal.SIGTERM)
            a.gate.set()
            assert (await client.read()).status == 200
            await first.wait()
            assert first.returncode == 0
            assert (await ask(port, "GET", "/one/x")).status == 200, "the other router serves on"


@in_loop
async def test_requests_that_name_another_host_are_refused_on_loopback(tmp_path: Path) -> None:
    table = tmp_path / "table.yaml"
    async with replicas("a") as (a,):
        write(table, ("one", [a]))
        words = ("--table", str(table), "--listen", "127.0.0.1:0", "--allow-host", "front.example")
        async with weft_router(*words) as (_, port):
            for host, wanted in (("evil.example", 421), ("front.example:443", 200), (f"127.0.0.1:{port}", 200)):
                client = await Client.connect(port)
                client.send(f"GET /one/x HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                assert (await client.read()).status == wanted


@in_loop
async def test_other_machines_need_tls_and_a_token(tmp_path: Path) -> None:
    table, env = tmp_path / "table.yaml", {"XDG_STATE_HOME": str(tmp_path / "state")}
    async with replicas("a") as (a,):
        write(table, ("one", [a]))
        words = ["router", "--table", str(table), "--listen", "0.0.0.0:0"]
        refused = subprocess.run([*WEFT, *words], env={**os.environ, **env}, capture_output=True, text=True)
        assert (refused.returncode, "weft auth init" in refused.stderr) == (2, True)
        made = subprocess.run(
            [*WEFT, "auth", "init", "--host", "127.0.0.1"], env={**os.environ, **env}, capture_output=True, text=True
        )
        assert made.returncode == 0, made.stderr
        from weft.access.auth.tokens import Tokens

        folder = tmp_path / "state" / "weft" / "servers" / "50051"
        tokens = Tokens(folder)
        token, _ = tokens.join(tokens.invite("user", "ann", expires_s=60.0, by="test"))
        tokens.close()
        async with weft_router(*words[1:], env=env) as (_, port):
            trust = ssl.create_default_context(cafile=str(folder / "tls" / "ca.pem"))
            for header, wanted in (
                ("", 401),
                ("Authorization: Bearer weft.x.y\r\n", 401),
                (f"Authorization: Bearer {token}\r\n", 200),
            ):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
                client = Client(reader, writer)
                answer = await client.ask("GET", "/one/x", headers=header)
                assert answer.status == wanted
                assert (await client.ask("GET", "/-/healthz")).status == 200
                writer.close()
        assert len(a.seen) == 1
        assert a.seen[0].header("authorization") is None, "the token stays in the router"
        assert a.seen[0].header("x-forwarded-proto") == "https"


def test_a_bad_table_or_address_is_one_clear_error(tmp_path: Path) -> None:
    table = tmp_path / "table.yaml"
    table.write_text("services: {a: {replicas: [nowhere]}}")
    for words, wanted in (
        (["--table", str(table)], "table.yaml:1: 'nowhere' has no port"),
        (["--table", str(tmp_path / "none.yaml")], "no such file"),
        (["--listen", "not an address", "--table", str(table)], "--listen"),
        (["--listen", "127.0.0.1:0"], "--listen needs a port here"),
    ):
        done = subprocess.run([*WEFT, "router", *words], capture_output=True, text=True)
        assert done.returncode == 2
        assert wanted in done.stderr


@pytest.mark.parametrize("kind", ["haproxy", "nginx"])
def test_a_front_is_printed_for_the_routers_address(kind: str) -> None:
    words = ["router", "--print-front", kind, "--listen", "127.0.0.1:9999"]
    done = subprocess.run([*WEFT, *words], capture_output=True, text=True, check=True)
    assert "127.0.0.1:9999" in done.stdout
    assert done.stdout.count("{") == done.stdout.count("}")
