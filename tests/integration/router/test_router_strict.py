"""Requests that are not HTTP, or that two parsers could read differently: refused, without harm to the connection."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest

from support.programs.http_replica import replicas
from support.router_client import Client, in_loop, route, running_router, until
from weft.model.service import Timeouts
from weft.router.settings import RouterSettings

HEAD = b"POST /chat/x HTTP/1.1\r\nHost: localhost\r\n"
BODY = b"Content-Length: 3\r\n\r\nabc"
SMUGGLED = b"GET /chat/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
REFUSED = {
    "length and chunks": HEAD + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "chunks and length": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "two lengths": HEAD + b"Content-Length: 0\r\nContent-Length: 50\r\n\r\n" + SMUGGLED,
    "the same length twice": HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "a list of lengths": HEAD + b"Content-Length: 3, 3\r\n\r\nabc",
    "a signed length": HEAD + b"Content-Length: +3\r\n\r\nabc",
    "a length in hex": HEAD + b"Content-Length: 0x3\r\n\r\nabc",
    "a huge length": HEAD + b"Content-Length: 99999999999999999999999\r\n\r\nabc",
    "a blank before the colon": HEAD + b"Content-Length : 3\r\n\r\nabc",
    "a folded header": HEAD + b"X: a\r\n b\r\n" + BODY,
    "a folded length": HEAD + b"Content-Length:\r\n 3\r\n\r\nabc",
    "bare line feeds": HEAD.replace(b"\r\n", b"\n") + b"\n",
    "one bare line feed": HEAD + b"X: a\nContent-Length: 3\r\n\r\nabc",
    "a bare carriage return": HEAD + b"X: a\rContent-Length: 3\r\n\r\nabc",
    "a null byte": HEAD + b"X: a\0b\r\n" + BODY,
    "a control character in a name": HEAD + b"X\x01: a\r\n" + BODY,
    "chunks twice": HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "another last encoding": HEAD + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "an unknown encoding": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "an encoding before chunks": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "an encoding after a tab": HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": b"POST /chat/x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a chunk with a bare line feed": HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n",
    "a chunk that is longer than it says": HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    "a huge chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc\r\n0\r\n\r\n",
    "a negative chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n",
    "no host": b"GET /chat/x HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /chat/x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "a host with a path": b"GET /chat/x HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "HTTP/0.9": b"GET /chat/x\r\n\r\n",
    "HTTP/2.0": b"GET /chat/x HTTP/2.0\r\nHost: localhost\r\n\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "an unknown method": b"FETCH /chat/x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a blank in the target": b"GET /chat/x y HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a target without a path": b"GET chat/x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a tunnel": b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an upgrade with a body": HEAD + b"Connection: upgrade\r\nUpgrade: websocket\r\n" + BODY,
    "an unknown expectation": HEAD + b"Expect: something\r\n" + BODY,
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "nothing but noise": b"\xff\xfe\x00\x01" * 10,
}


@in_loop
async def test_ambiguous_requests_are_refused_and_nothing_behind_them_is_read() -> None:
    async with replicas("a") as (a,), running_router(route("chat", a)) as (_, port):
        for name, sent in REFUSED.items():
            client = await Client.connect(port)
            client.send(sent)
            answer = await client.read()
            assert 400 <= answer.status < 506, name
            assert answer.headers["connection"] == "close", name
            assert await client.is_closed(), f"{name}: nothing follows"
            client.close()
        paths = {seen.target for seen in a.seen}
        assert "/smuggled" not in paths
        assert paths <= {"/x"}, "at most the head of a request whose body was bad"


@in_loop
async def test_a_bad_request_does_not_take_the_answers_before_it() -> None:
    async with replicas("a") as (a,), running_router(route("chat", a)) as (_, port):
        client = await Client.connect(port)
        client.send(b"GET /chat/1 HTTP/1.1\r\nHost: x\r\n\r\nGET /chat/2 HTTP/1.1\r\nHost: x\r\n\r\nGARBAGE\r\n\r\n")
        assert (await client.read()).json()["target"] == "/1"
        assert (await client.read()).json()["target"] == "/2"
        assert (await client.read()).status == 400
        assert await client.is_closed()


@in_loop
async def test_nothing_is_read_after_the_last_request() -> None:
    async with replicas("a") as (a,), running_router(route("chat", a)) as (_, port):
        client = await Client.connect(port)
        client.send(b"GET /chat/1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" + SMUGGLED)
        assert (await client.read()).headers["connection"] == "close"
        assert await client.is_closed()
        assert [seen.target for seen in a.seen] == ["/1"]


def valid_request(number: int, draw: random.Random) -> bytes:
    """Return a request whose answer names its number."""
    body = bytes(draw.randrange(256) for _ in range(draw.choice((0, 0, 3, 2000))))
    head = f"{draw.choice(('POST', 'PUT'))} /chat/{number} HTTP/1.1\r\nHost: localhost\r\n"
    if draw.random() < 0.5:
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    pieces = [body[at : at + 700] for at in range(0, len(body), 700)]
    chunks = b"".join(b"%x%b\r\n%b\r\n" % (len(piece), draw.choice((b"", b";a=b")), piece) for piece in pieces)
    return f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunks + b"0\r\n\r\n"


def mutate(data: bytes, draw: random.Random) -> bytes:
    """Change, insert, remove, double or cut some bytes."""
    found = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(found) + 1)
        act = draw.randrange(5)
        if act == 0 and at < len(found):
            found[at] = draw.randrange(256)
        elif act == 1:
            found[at:at] = draw.choice(
                (b"\r\n", b"\n", b" ", b"\0", b":", b"0\r\n\r\n", b"Content-Length: 7\r\n", SMUGGLED)
            )
        elif act == 2:
            del found[at : at + draw.randint(1, 10)]
        elif act == 3:
            found[at:at] = found[at : at + draw.randint(1, 40)]
        else:
            del found[at:]
    return bytes(found)


async def send_in_pieces(client: Client, data: bytes, draw: random.Random) -> None:
    while data:
        size = draw.choice((1, 2, 7, 50, 1000, len(data)))
        client.send(data[:size])
        data = data[size:]
        await asyncio.sleep(0)


async def storm(port: int, seed: int) -> None:
    """Send valid requests, then a damaged one, over one connection in random pieces."""
    draw = random.Random(seed)
    client = await Client.connect(port)
    numbers = [seed * 100 + at for at in range(draw.randint(0, 3))]
    damaged = mutate(b"".join(valid_request(seed * 100 + 50 + at, draw) for at in range(2)), draw)
    data = b"".join(valid_request(number, draw) for number in numbers) + damaged
    try:
        await send_in_pieces(client, data, draw)
        for number in numbers:
            answer = await client.read()
            assert (answer.status, answer.json()["target"]) == (200, f"/{number}"), seed
        client.writer.write_eof()
        while head := await client.reader.read(65536):
            assert head
    except ConnectionError:
        pass  # the router may cut a connection that is out of step
    finally:
        client.close()


@pytest.mark.soak
@pytest.mark.parametrize("first", range(300, 5300, 100))
def test_many_more_damaged_requests(first: int) -> None:
    test_damaged_requests_neither_crash_nor_hang_nor_mix_answers_up(first)


@pytest.mark.parametrize("first", range(0, 300, 100))
@in_loop
async def test_damaged_requests_neither_crash_nor_hang_nor_mix_answers_up(first: int) -> None:
    settings = RouterSettings(head_timeout_s=5.0, body_timeout_s=5.0, drain_s=10.0)
    async with (
        replicas("a") as (a,),
        running_router(route("chat", a, max_queue=5000), settings=settings) as (router, port),
    ):
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        for seed in range(first, first + 100, 10):
            await asyncio.gather(*(storm(port, each) for each in range(seed, seed + 10)))
        await until(lambda: not router.clients)
        assert router.services["chat"].dispatcher.in_flight == 0
        client = await Client.connect(port)
        for number in range(5):
            assert (await client.ask("GET", f"/chat/after-{number}")).json()["target"] == f"/after-{number}"
        assert not failures


@in_loop
async def test_damaged_answers_never_reach_the_wrong_client() -> None:
    quick = Timeouts(answer_s=1.5, idle_s=1.5)
    async with replicas("a") as (a,), running_router(route("chat", a, concurrency=64, timeouts=quick)) as (_, port):
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))

        async def bad(seed: int) -> None:
            draw = random.Random(seed)
            answer = b"HTTP/1.1 200 OK\r\nX-Seed: %d\r\nContent-Length: 5\r\n\r\nhello" % seed
            client = await Client.connect(port)
            damaged = mutate(answer, draw)
            client.send(b"POST /chat/raw HTTP/1.1\r\nHost: x\r\nConnection: close\r\n")
            client.send(b"Content-Length: %d\r\n\r\n%b" % (len(damaged), damaged))
            with suppress(ConnectionError):
                assert (await client.reader.read(-1)).startswith(b"HTTP/1.1 ")

        async def good(number: int) -> None:
            client = await Client.connect(port)
            for at in range(10):
                answer = await client.ask("POST", f"/chat/{number}-{at}", b"x")
                assert answer.json()["target"] == f"/{number}-{at}"

        for first in range(0, 120, 40):
            await asyncio.gather(
                *(bad(seed) for seed in range(first, first + 40)), *(good(first + at) for at in range(3))
            )
        assert not failures
