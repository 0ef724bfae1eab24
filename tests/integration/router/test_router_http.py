"""HTTP/1.1 through a router to real replicas: framing, reuse, streams, tunnels, and clients that leave."""

from __future__ import annotations

import asyncio
import json

import pytest

from support.programs.http_replica import replicas
from support.router_client import Client, ask, in_loop, route, running_router, until
from weft.router.settings import RouterSettings

HEAD = b"Host: localhost\r\n"


@in_loop
async def test_a_request_reaches_the_replica_and_its_answer_the_client() -> None:
    async with replicas("a") as (a,), running_router(route("chat", a)) as (_, port):
        answer = await ask(port, "POST", "/chat/v2/x?q=1", b"hello", "X-Mine: 7\r\nX-Request-Id: abc-1\r\n")
        seen = a.seen[0]
        assert (seen.method, seen.target, seen.body) == ("POST", "/v2/x?q=1", b"hello")
        assert seen.header("x-mine") == "7"
        assert seen.header("x-request-id") == "abc-1" == answer.headers["x-request-id"]
        assert seen.header("x-forwarded-prefix") == "/chat"
        assert seen.header("x-forwarded-for") == "127.0.0.1"
        assert answer.status == 200
        assert answer.headers["x-weft-replica"] == "a"
        assert answer.headers["x-own"] == "1"
        assert "x-secret" not in answer.headers, "Connection names it"


@in_loop
async def test_hop_by_hop_headers_end_at_the_router() -> None:
    async with replicas("a") as (a,), running_router(route("chat", a)) as (_, port):
        given = "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nUpgrade: h2c\r\n"
        await ask(port, "GET", "/chat/", headers=given)
        names = {name.lower() for name, _ in a.seen[0].headers}
        assert names == {"host", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-prefix", "x-request-id"}


@in_loop
async def test_connections_are_kept_on_both_sides() -> None:
    async with replicas("a") as (a,), running_router(route("chat", a)) as (_, port):
        client = await Client.connect(port)
        for at in range(20):
            answer = await client.ask("POST", f"/chat/{at}", b"x" * at)
            assert answer.json()["target"] == f"/{at}"
        client.close()
        assert a.connections == 1


@in_loop
async def test_pipelined_requests_are_answered_in_order() -> None:
    async with replicas("a", "b") as (a, b), running_router(route("chat", a, b)) as (_, port):
        client = await Client.connect(port)
        client.send(b"".join(b"GET /chat/%d HTTP/1.1\r\n%b\r\n" % (at, HEAD) for at in range(50)))
        for at in range(50):
            assert (await client.read()).json()["target"] == f"/{at}"
        client.close()


@in_loop
async def test_thousands_of_pipelined_requests_do_not_hold_up_other_clients() -> None:
    async with replicas("a") as (a,), running_router(route("chat", a)) as (router, port):
        many, other = await Client.connect(port), await Client.connect(port)
        many.send(b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3000)
        await until(lambda: router.refusals.get("no_such_service", 0) > 0)
        assert (await other.ask("GET", "/chat/x")).status == 200
        assert router.refusals["no_such_service"] < 3000, "the other client had its turn in between"
        for _ in range(3000):
            assert (await many.read()).status == 404


@in_loop
async def test_a_connection_that_its_replica_closes_is_not_used_again() -> None:
    async with replicas("a") as (a,), running_router(route("chat", a)) as (_, port):
        client = await Client.connect(port)
        for number in range(30):
            assert (await client.ask("POST", f"/chat/{number}", b"x")).status == 200
            for writer in list(a.writers):
                writer.close()  # after the answer, as servers do with idle connections
            await until(lambda: not a.writers)


@in_loop
async def test_a_request_may_arrive_byte_by_byte() -> None:
    async with replicas("a") as (a,), running_router(route("chat", a)) as (_, port):
        client = await Client.connect(port)
        for byte in (
            b"POST /chat/ HTTP/1.1\r\n%bTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n" % HEAD
        ):
            client.send(bytes([byte]))
            await asyncio.sleep(0)
        assert (await client.read()).json()["body"] == "abcde"
        client.close()


@pytest.mark.parametrize("size", [1, 70_000, 3_000_000])
@in_loop
async def test_large_bodies_pass_whole_both_ways(size: int) -> None:
    async with replicas("a") as (a,), running_router(route("chat", a)) as (router, port):
        body = bytes(range(256)) * (size // 256) + b"z" * (size % 256)
        await ask(port, "POST", "/chat/", body)
        assert a.seen[0].body == body
        client = await Client.connect(port)
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in (body[at : at + 9999] for at in range(0, size, 9999)))
        client.send(b"POST /chat/ HTTP/1.1\r\n%bTransfer-Encoding: chunked\r\n\r\n%b0\r\n\r\n" % (HEAD, chunks))
        await client.read()
        assert a.seen[1].body == body
        assert (await client.ask("GET", f"/chat/big?bytes={size}")).body == b"x" * size
        client.close()
        assert router.services["chat"].load().answered == 3


@in_loop
async def test_a_client_that_reads_slowly_holds_its_replica_back() -> None:
    async with replicas("a") as (a,), running_router(route("chat", a)) as (router, port):
        size = 64 << 20
        client = await Client.connect(port)
        client.send(b"GET /chat/big?bytes=%d HTTP/1.1\r\n%b\r\n" % (size, HEAD))
        await client.read_head()
        await until(lambda: any(each.blocked for each in router.clients))
        assert a.open == 1, "the replica has not sent everything"
        left = size
        while left:
            left -= len(await client.reader.read(1 << 20))
        await until(lambda: a.open == 0)
        client.close()


@in_loop
async def test_answers_without_a_length_and_interim_answers() -> None:
    async with replicas("a") as (a,), running_router(route("chat", a)) as (_, port):
        client = await Client.connect(port)
        assert (await client.ask("GET", "/chat/until-close")).body == b"all of it"
        assert (await client.ask("GET", "/chat/early")).body == b"late"
        assert (await client.ask("GET", "/chat/no-content")).status == 204
        chunked = await client.ask("GET", "/chat/chunks?n=4")
        assert chunked.body == b"data: 0\n\ndata: 1\n\ndata: 2\n\ndata: 3\n\n"
        head = await client.ask("HEAD", "/chat/x")
        assert int(head.headers["content-length"]) > 0
        assert (await client.ask("GET", "/chat/y")).json()["target"] == "/y"
        client.close()


@in_loop
async def test_http_1_0_clients_get_answers_up_to_the_close() -> None:
    async with replicas("a") as (a,), running_router(route("chat", a)) as (_, port):
        client = await Client.connect(port)
        client.send(b"GET /chat/chunks?n=2 HTTP/1.0\r\n\r\n")
        answer = await client.read()
        assert answer.body == b"data: 0\n\ndata: 1\n\n"
        assert "transfer-encoding" not in answer.headers
        kept = await Client.connect(port)
        for _ in range(2):
            kept.send(b"GET /chat/x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            assert (await kept.read()).headers["connection"] == "keep-alive"
        kept.close()


@in_loop
async def test_events_reach_the_client_one_by_one() -> None:
    async with replicas("a") as (a,), running_router(route("chat", a)) as (_, port):
        client = await Client.connect(port)
        client.send(b"GET /chat/chunks?n=3&gap=0.05 HTTP/1.1\r\n%b\r\n" % HEAD)
        status, headers = await client.read_head()
        assert (status, headers["content-type"]) == (200, "text/event-stream")
        assert await client.reader.readuntil(b"0\n\n\r\n") == b"9\r\ndata: 0\n\n\r\n"
        assert a.open == 1, "the answer has not ended"
        client.close()


@in_loop
async def test_expect_100_is_answered_when_a_replica_takes_the_request() -> None:
    async with replicas("a") as (a,), running_router(route("chat", a), route("empty", max_queue=0)) as (_, port):
        client = await Client.connect(port)
        client.send(b"POST /chat/ HTTP/1.1\r\n%bContent-Length: 5\r\nExpect: 100-continue\r\n\r\n" % HEAD)
        assert (await client.read_head())[0] == 100
        client.send(b"hello")
        assert (await client.read()).json()["body"] == "hello"
        client.send(b"POST /empty/ HTTP/1.1\r\n%bContent-Length: 5\r\nExpect: 100-continue\r\n\r\n" % HEAD)
        assert (await client.read()).status == 503, "no body is asked for"
        client.close()
        assert a.seen[0].header("expect") is None


@in_loop
async def test_a_websocket_is_a_tunnel() -> None:
    async with replicas("a") as (a,), running_router(route("chat", a)) as (router, port):
        client = await Client.connect(port)
        upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        client.send(b"GET /chat/websocket HTTP/1.1\r\n%b%b\r\nearly" % (HEAD, upgrade))
        status, headers = await client.read_head()
        assert (status, headers["upgrade"].lower(), headers["connection"].lower()) == (101, "websocket", "upgrade")
        assert headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        assert await client.reader.readexactly(11) == b"hello EARLY"
        blob = b"ab" * 500_000
        client.send(blob)
        assert await client.reader.readexactly(len(blob)) == blob.upper()
        assert router.services["chat"].dispatcher.in_flight == 1
        client.send(b"bye")
        assert await client.reader.read() == b"BYE"
        await until(lambda: router.services["chat"].dispatcher.in_flight == 0)
        assert router.services["chat"].codes == {101: 1}


@in_loop
async def test_a_client_that_leaves_aborts_its_request() -> None:
    async with replicas("a") as (a,), running_router(route("chat", a, concurrency=1)) as (router, port):
        first, second = await Client.connect(port), await Client.connect(port)
        first.send(b"POST /chat/wait HTTP/1.1\r\n%bContent-Length: 0\r\n\r\n" % HEAD)
        await until(lambda: a.open == 1)
        second.send(b"GET /chat/next HTTP/1.1\r\n%b\r\n" % HEAD)
        await until(lambda: len(router.services["chat"].dispatcher.queue) == 1)
        first.close()
        assert (await second.read()).json()["target"] == "/next"
        await until(lambda: a.aborted == 1)
        assert router.services["chat"].codes == {499: 1, 200: 1}
        second.close()


@in_loop
async def test_half_an_answer_is_cut_and_never_completed() -> None:
    async with replicas("a") as (a,), running_router(route("chat", a)) as (router, port):
        client = await Client.connect(port)
        client.send(b"GET /chat/die?after=100 HTTP/1.1\r\n%b\r\n" % HEAD)
        _, headers = await client.read_head()
        assert headers["content-length"] == "1000"
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.reader.readexactly(1000)
        assert router.services["chat"].codes == {599: 1}
        assert len(a.seen) == 1, "an answered request is not sent again"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nxx",
        b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"SMTP ready\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 1\n\nx",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 400_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 20,
    ],
)
@in_loop
async def test_answers_that_are_not_http_become_502(answer: bytes) -> None:
    async with replicas("a") as (a,), running_router(route("chat", a)) as (_, port):
        client = await Client.connect(port)
        found = await client.ask("POST", "/chat/raw", answer)
        assert (found.status, found.json()["error"]["code"]) == (502, "bad_answer")
        assert (await client.ask("GET", "/chat/next")).status == 200
        client.close()


@in_loop
async def test_a_second_answer_is_never_taken_for_that_of_the_next_request() -> None:
    async with replicas("a") as (a,), running_router(route("chat", a, concurrency=1)) as (_, port):
        two = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none" + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
        client = await Client.connect(port)
        assert (await client.ask("POST", "/chat/raw", two)).body == b"one"
        assert (await client.ask("GET", "/chat/next")).json()["target"] == "/next"
        client.close()


@in_loop
async def test_a_thousand_connections_at_once() -> None:
    service = route("chat", concurrency=64, max_queue=2000)
    async with replicas("a", "b") as (a, b), running_router(service) as (router, port):
        clients = await asyncio.gather(*(Client.connect(port) for _ in range(1000)))
        for at, client in enumerate(clients):
            client.send(b"POST /chat/%d HTTP/1.1\r\n%bContent-Length: 2\r\n\r\nhi" % (at, HEAD))
        await until(lambda: len(router.services["chat"].dispatcher.queue) == 1000)
        router.apply(type(router.table)((route("chat", a, b, concurrency=64, max_queue=2000),)))
        answers = await asyncio.gather(*(client.read() for client in clients))
        assert [answer.json()["target"] for answer in answers] == [f"/{at}" for at in range(1000)]
        assert max(a.most_open, b.most_open) <= 64
        for client in clients:
            client.close()


@in_loop
async def test_the_pages_of_the_router() -> None:
    settings = RouterSettings(drain_s=5.0)
    async with replicas("a") as (a,), running_router(route("chat", a, models=("m",)), settings=settings) as (_, port):
        await ask(port, "GET", "/chat/x")
        services = (await ask(port, "GET", "/-/services")).json()["services"]
        assert services[0]["service"] == "chat"
        assert services[0]["replicas"][0]["name"] == "a"
        metrics = (await ask(port, "GET", "/-/metrics")).body.decode()
        assert 'weft_router_requests_total{code="200",service="chat"} 1.0' in metrics
        assert (await ask(port, "GET", "/-/healthz")).body == b"ok\n"
        assert (await ask(port, "POST", "/-/healthz")).status == 405
        error = (await ask(port, "GET", "/nothing")).json()["error"]
        assert error["code"] == "no_such_service"
        assert json.loads((await ask(port, "GET", "/v1/models")).body)["data"][0]["id"] == "m"
