"""Clients that send their bodies slowly: they hold no place at a replica, or not for long."""

from __future__ import annotations

import asyncio
import json

from support.programs.http_replica import replicas
from support.router_client import Client, ask, in_loop, route, running_router, until
from weft.router.settings import REPLAY_BYTES, RouterSettings

BODY = json.dumps({"model": "tiny", "text": "x" * 960}).encode()


async def begin(port: int, target: str, header: str, start: bytes) -> Client:
    client = await Client.connect(port)
    client.send(f"POST {target} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n".encode() + start)
    return client


@in_loop
async def test_clients_that_drip_their_bodies_do_not_block_others() -> None:
    length = f"Content-Length: {len(BODY)}"
    async with replicas("a") as (a,), running_router(route("chat", a, models=("tiny",))) as (router, port):
        slow = [await begin(port, "/chat/", length, BODY[:1]) for _ in range(4)]
        slow += [await begin(port, "/chat/", length + "\r\nExpect: 100-continue", b"") for _ in range(2)]
        slow += [await begin(port, "/v1/completions", length, BODY[:20]) for _ in range(2)]
        chunked = await begin(port, "/chat/", "Transfer-Encoding: chunked", b"3e8\r\n" + BODY[:1])
        await until(lambda: router.held_bytes == 4 + 2 * 20 + 1)
        answers = await asyncio.gather(*(ask(port, "POST", "/chat/", b"quick") for _ in range(16)))
        assert {answer.status for answer in answers} == {200}
        assert router.services["chat"].dispatcher.in_flight == 0
        for at, client in enumerate(slow):
            if at in (4, 5):
                assert (await client.read_head())[0] == 100
            client.send(BODY[0 if at in (4, 5) else 20 if at > 5 else 1 :])
            answer = await client.read()
            assert (answer.status, answer.json()["body"].encode()) == (200, BODY)
        chunked.send(b"x" * 999 + b"\r\n0\r\n\r\n")
        assert (await chunked.read()).status == 200


@in_loop
async def test_a_large_body_that_comes_too_slowly_loses_its_place() -> None:
    settings = RouterSettings(body_timeout_s=1.0, min_body_rate=1e6, drain_s=5.0)
    async with replicas("a") as (a,), running_router(route("chat", a), settings=settings) as (router, port):
        client = await begin(port, "/chat/", "Content-Length: 10000000", b"x" * (REPLAY_BYTES + 1))
        await until(lambda: router.services["chat"].dispatcher.in_flight == 1)
        reading = asyncio.create_task(client.read())
        while not reading.done():  # it is never silent for as long as the limit
            client.send(b"x")
            await asyncio.sleep(0.05)
        assert (reading.result().status, reading.result().json()["error"]["code"]) == (408, "request_timeout")
        assert router.services["chat"].dispatcher.in_flight == 0
        assert a.aborted == 1
        assert not router.services["chat"].dispatcher.replicas["a"].health.is_out(), "the client is at fault"


@in_loop
async def test_a_large_body_at_a_fair_rate_may_take_longer_than_the_time_limit() -> None:
    settings = RouterSettings(body_timeout_s=2.0, min_body_rate=1000.0, drain_s=5.0)
    async with replicas("a") as (a,), running_router(route("chat", a), settings=settings) as (_, port):
        client = await begin(port, "/chat/", f"Content-Length: {16 * 20_000}", b"")
        for _ in range(16):
            client.send(b"x" * 20_000)
            await asyncio.sleep(0.15)
        assert (await client.read()).status == 200
