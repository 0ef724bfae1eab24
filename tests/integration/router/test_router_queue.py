"""Queueing, balance, retries, drain, limits and time-outs of a router with real replicas."""

from __future__ import annotations

import asyncio
import json

import pytest

from support.programs.http_replica import Replica, replicas
from support.router_client import Client, ask, in_loop, route, running_router, until
from weft.access.endpoints.addresses import Address
from weft.model.service import Timeouts
from weft.router.settings import RouterSettings
from weft.router.table import ReplicaRoute, RouteTable, ServiceRoute

HEAD = b"Host: localhost\r\n"


class Heard:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.demands: list[str] = []
        self.drained: list[tuple[str, str]] = []

    def on_demand(self, service: str) -> None:
        self.demands.append(service)

    def on_drained(self, service: str, replica: str) -> None:
        self.drained.append((service, replica))


@in_loop
async def test_requests_wait_while_no_replica_is_ready() -> None:
    heard = Heard()
    async with replicas("a") as (a,), running_router(route("chat"), listener=heard) as (router, port):
        asked = [asyncio.create_task(ask(port, "POST", f"/chat/{at}", b"x" * 100_000)) for at in range(20)]
        await until(lambda: len(router.services["chat"].dispatcher.queue) == 20)
        assert heard.demands == ["chat"], "the first waiting request calls for a replica"
        assert router.held_bytes <= 20 * 200_000, "a waiting client stops sending"
        router.apply(RouteTable((route("chat", a),)))
        answers = await asyncio.gather(*asked)
        assert [answer.status for answer in answers] == [200] * 20
        assert all(len(seen.body) == 100_000 for seen in a.seen)


@in_loop
async def test_no_replica_gets_more_than_its_concurrency() -> None:
    async with replicas("a", "b") as (a, b):
        both = ServiceRoute(
            "chat",
            (ReplicaRoute("a", Address("127.0.0.1", a.port), 3), ReplicaRoute("b", Address("127.0.0.1", b.port), 1)),
        )
        async with running_router(both) as (router, port):
            asked = [asyncio.create_task(ask(port, "GET", "/chat/wait")) for _ in range(12)]
            await until(lambda: (a.open, b.open, len(router.services["chat"].dispatcher.queue)) == (3, 1, 8))
            a.gate.set()
            b.gate.set()
            assert {answer.status for answer in await asyncio.gather(*asked)} == {200}
            assert (a.most_open, b.most_open) == (3, 1)


@in_loop
async def test_a_full_queue_and_a_long_wait_get_503_with_retry_after() -> None:
    quick = Timeouts(queue_s=2.0)
    service = route("chat", max_queue=2, timeouts=quick)
    async with running_router(service) as (router, port):
        waiting = [asyncio.create_task(ask(port, "GET", "/chat/")) for _ in range(2)]
        await until(lambda: len(router.services["chat"].dispatcher.queue) == 2)
        refused = await ask(port, "GET", "/chat/")
        assert (refused.status, refused.json()["error"]["code"]) == (503, "queue_full")
        assert int(refused.headers["retry-after"]) >= 1
        for answer in await asyncio.gather(*waiting):
            assert (answer.status, answer.json()["error"]["code"]) == (503, "queue_timeout")
            assert answer.json()["error"]["service"] == "chat"


@in_loop
async def test_a_replica_that_refuses_connections_costs_no_request() -> None:
    async with replicas("a", "gone") as (a, gone):
        service = route("chat", a, gone)
        await gone.stop()
        async with running_router(service) as (router, port):
            answers = await asyncio.gather(*(ask(port, "POST", "/chat/", b"x") for _ in range(40)))
            assert {answer.status for answer in answers} == {200}
            assert len(a.seen) == 40
            assert router.services["chat"].connect_errors >= 1


@in_loop
async def test_a_replica_that_comes_back_is_used_again() -> None:
    async with replicas("a") as (a,), running_router(route("chat", a)) as (_, port):
        where = a.port
        await a.stop()
        asked = asyncio.create_task(ask(port, "POST", "/chat/", b"x"))
        back = Replica("a")
        await asyncio.sleep(0.05)
        await back.start(where)
        assert (await asked).status == 200
        await back.stop()


@pytest.mark.parametrize(
    ("method", "retry", "status"),
    [
        ("GET", "safe", 200), ("POST", "safe", 502), ("POST", "unanswered", 200), ("GET", "connect", 502),
        ("GET", "never", 502),
    ],
)  # fmt: skip
@in_loop
async def test_an_unanswered_request_goes_elsewhere_if_the_rule_allows_it(method: str, retry: str, status: int) -> None:
    async with replicas("a", "b") as (a, b), running_router(route("chat", a, retry=retry)) as (router, port):
        asked = asyncio.create_task(ask(port, method, "/chat/wait", b"body" if method == "POST" else b""))
        await until(lambda: a.open == 1)
        b.gate.set()
        router.apply(RouteTable((route("chat", a, b, retry=retry),)))
        await a.stop()
        answer = await asked
        assert answer.status == status
        assert len(b.seen) == (1 if status == 200 else 0)
        if status == 200 and method == "POST":
            assert b.seen[0].body == b"body"


@in_loop
async def test_requests_under_load_survive_the_death_of_a_replica() -> None:
    async with replicas("a", "b") as (a, b):
        service = route("chat", a, b, concurrency=4, retry="unanswered")
        async with running_router(service) as (router, port):
            answers: list[int] = []

            async def send() -> None:
                client = await Client.connect(port)
                for _ in range(25):
                    answer = await client.ask("POST", "/chat/", b"x")
                    answers.append(answer.status)

            senders = [asyncio.create_task(send()) for _ in range(8)]
            await until(lambda: len(answers) > 40)
            await a.stop()
            await asyncio.gather(*senders)
            assert answers == [200] * 200
            assert router.services["chat"].load().answered == 200


@in_loop
async def test_a_draining_replica_finishes_and_says_so() -> None:
    heard = Heard()
    async with replicas("a", "b") as (a, b):
        draining = ServiceRoute(
            "chat",
            (
                ReplicaRoute("a", Address("127.0.0.1", a.port), 8, draining=True),
                ReplicaRoute("b", Address("127.0.0.1", b.port), 8),
            ),
        )
        async with running_router(route("chat", a), listener=heard) as (router, port):
            stream = asyncio.create_task(ask(port, "GET", "/chat/wait"))
            await until(lambda: a.open == 1)
            router.apply(RouteTable((draining,)))
            for _ in range(10):
                assert (await ask(port, "GET", "/chat/x")).json()["replica"] == "b"
            assert heard.drained == []
            a.gate.set()
            assert (await stream).body == b"a"
            await until(lambda: heard.drained == [("chat", "a")])


@in_loop
async def test_a_removed_replica_and_a_removed_service_finish_what_they_have() -> None:
    async with replicas("a", "b") as (a, b), running_router(route("chat", a, concurrency=1)) as (router, port):
        first = asyncio.create_task(ask(port, "GET", "/chat/wait"))
        await until(lambda: a.open == 1)
        router.apply(RouteTable((route("chat", b, concurrency=1),)))
        second = asyncio.create_task(ask(port, "GET", "/chat/wait"))
        await until(lambda: b.open == 1)
        third = asyncio.create_task(ask(port, "GET", "/chat/wait"))
        await until(lambda: len(router.services["chat"].dispatcher.queue) == 1)
        router.apply(RouteTable(()))
        assert (await third).status == 404
        a.gate.set()
        b.gate.set()
        assert [(await first).body, (await second).body] == [b"a", b"b"]
        await until(lambda: not a.writers and not b.writers)


@in_loop
async def test_slow_replicas_get_504_and_are_aborted() -> None:
    quick = Timeouts(answer_s=0.3, idle_s=0.3)
    async with replicas("a") as (a,), running_router(route("chat", a, timeouts=quick)) as (_, port):
        answer = await ask(port, "POST", "/chat/wait", b"x")
        assert (answer.status, answer.json()["error"]["code"]) == (504, "answer_timeout")
        await until(lambda: a.aborted == 1)
        client = await Client.connect(port)
        client.send(b"GET /chat/chunks?n=2&gap=30 HTTP/1.1\r\n%b\r\n" % HEAD)
        await client.read_head()
        await client.reader.readuntil(b"0\n\n\r\n")
        assert await client.is_closed(), "the answer stopped, so the connection is cut"


@in_loop
async def test_slow_clients_get_408() -> None:
    settings = RouterSettings(head_timeout_s=0.2, body_timeout_s=0.2, keep_alive_s=0.4, drain_s=5.0)
    async with replicas("a") as (a,), running_router(route("chat", a, models=("m",)), settings=settings) as (_, port):
        for sent in (
            b"GET /chat/ HTT",
            b"POST /chat/ HTTP/1.1\r\n%bContent-Length: 9\r\n\r\nab" % HEAD,
            b'POST /v1/completions HTTP/1.1\r\n%bContent-Length: 9\r\n\r\n{"a"' % HEAD,
        ):
            client = await Client.connect(port)
            client.send(sent)
            assert (await client.read()).status == 408
            assert await client.is_closed()
        idle = await Client.connect(port)
        assert await idle.is_closed()


@in_loop
async def test_limits_of_head_body_and_connections() -> None:
    settings = RouterSettings(max_head_bytes=2000, max_body_bytes=1000, max_connections=3, drain_s=5.0)
    async with replicas("a") as (a,), running_router(route("chat", a), settings=settings) as (router, port):
        for sent, status in (
            (b"GET /chat/%b HTTP/1.1\r\n%b\r\n" % (b"x" * 3000, HEAD), 431),
            (b"GET /chat/ HTTP/1.1\r\n%bX: %b\r\n\r\n" % (HEAD, b"x" * 3000), 431),
            (b"GET /chat/ HTTP/1.1\r\n%b%b\r\n" % (HEAD, b"X: y\r\n" * 500), 431),
            (b"POST /chat/ HTTP/1.1\r\n%bContent-Length: 1001\r\n\r\n" % HEAD, 413),
            (b"POST /chat/ HTTP/1.1\r\n%bTransfer-Encoding: chunked\r\n\r\n3e9\r\n%b" % (HEAD, b"x" * 1001), 413),
            (b"POST /chat/ HTTP/1.1\r\n%bTransfer-Encoding: chunked\r\n\r\n1;%b" % (HEAD, b"x" * 300_000), 431),
            (
                b"POST /chat/ HTTP/1.1\r\n%bTransfer-Encoding: chunked\r\n\r\n0\r\n%b\r\n" % (HEAD, b"T: y\r\n" * 500),
                431,
            ),
        ):
            client = await Client.connect(port)
            client.send(sent)
            assert (await client.read()).status == status, sent[:60]
            assert await client.is_closed()
            client.close()
            await until(lambda: not router.clients)
        kept = [await Client.connect(port) for _ in range(3)]
        await until(lambda: len(router.clients) == 3)
        over = await Client.connect(port)
        assert (await over.read()).json()["error"]["code"] == "too_many_connections"
        kept[0].close()
        await until(lambda: len(router.clients) == 2)
        assert (await ask(port, "GET", "/chat/")).status == 200


@in_loop
async def test_a_refused_client_that_still_sends_gets_its_answer() -> None:
    settings = RouterSettings(max_body_bytes=1000, drain_s=5.0)
    async with replicas("a") as (a,), running_router(route("chat", a), settings=settings) as (_, port):
        client = await Client.connect(port)
        client.send(b"POST /chat/ HTTP/1.1\r\n%bContent-Length: 900000\r\n\r\n%b" % (HEAD, b"x" * 500_000))
        assert (await client.read()).status == 413


@in_loop
async def test_one_service_does_not_fill_the_queue_of_another() -> None:
    async with replicas("a") as (a,):
        services = (route("full", max_queue=50), route("chat", a))
        async with running_router(*services) as (router, port):
            flood = [asyncio.create_task(ask(port, "GET", "/full/")) for _ in range(200)]
            await until(lambda: len(router.services["full"].dispatcher.queue) == 50)
            assert (await ask(port, "GET", "/chat/")).status == 200
            for each in flood:
                each.cancel()
            await asyncio.gather(*flood, return_exceptions=True)
            await until(lambda: not router.services["full"].dispatcher.queue)


@in_loop
async def test_openai_requests_are_routed_by_model() -> None:
    async with replicas("a", "b") as (a, b):
        services = (route("one", a, models=("tiny",)), route("two", b, models=("big/model",)))
        async with running_router(*services) as (_, port):
            for path in (
                "/v1/chat/completions",
                "/v1/responses",
                "/v1/rerank",
                "/v1/audio/speech",
                "/v1/messages?beta=1",
            ):
                for model, name in (("tiny", "a"), ("big/model", "b")):
                    body = json.dumps({"messages": [{"model": "no"}], "model": model}).encode()
                    answer = (await ask(port, "POST", path, body)).json()
                    assert (answer["replica"], answer["target"], answer["body"]) == (name, path, body.decode())
            listed = (await ask(port, "GET", "/v1/models")).json()
            assert [each["id"] for each in listed["data"]] == ["tiny", "big/model"]
            assert (await ask(port, "GET", "/v1/models/big/model")).json()["owned_by"] == "two"
            long = json.dumps({"messages": "x" * 2_000_000, "model": "tiny"}).encode()
            assert (await ask(port, "POST", "/v1/completions", long)).json()["replica"] == "a"
            for body, status in ((b'{"model": "none"}', 404), (b"{}", 400), (b"not json", 400), (b'{"model": 1}', 400)):
                assert (await ask(port, "POST", "/v1/completions", body)).status == status
                if status == 400:
                    assert "/SERVICE/v1/completions" in (await ask(port, "POST", "/v1/completions", body)).body.decode()
            missing = await ask(port, "GET", "/v1/files/7?x")
            assert (missing.status, "use /SERVICE/v1/files/7" in missing.json()["error"]["message"]) == (404, True)


@in_loop
async def test_a_form_is_routed_by_its_field_model() -> None:
    form = (
        b'--b1\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n' + b"\0" * 100_000
        + b'\r\n--b1\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper\r\n--b1--\r\n'
    )  # fmt: skip
    async with replicas("a") as (a,), running_router(route("one", a, models=("whisper",))) as (_, port):
        header = "Content-Type: multipart/form-data; boundary=b1\r\n"
        answer = await ask(port, "POST", "/v1/audio/transcriptions", form, header)
        assert (answer.status, len(a.seen[0].body)) == (200, len(form))
        answer = await ask(port, "POST", "/v1/audio/transcriptions", form.replace(b"whisper", b"x"), header)
        assert answer.json()["error"]["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://chat.example:80/x?y", "localhost", 200), ("HTTP://chat.example?y", "localhost", 200),
        ("http://other.example/x", "chat.example", 421), ("http://u@chat.example/x", "chat.example", 400),
        ("http:///x", "chat.example", 400),
    ],
)  # fmt: skip
@in_loop
async def test_the_host_of_an_address_wins_over_the_header(target: str, host: str, status: int) -> None:
    settings = RouterSettings(allowed_hosts=frozenset((b"localhost",)))
    async with (
        replicas("a") as (a,),
        running_router(route("chat", a, hosts=("chat.example",)), settings=settings) as (_, port),
    ):
        client = await Client.connect(port)
        client.send(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        answer = await client.read()
        assert answer.status == status
        if status == 200:
            assert answer.json()["target"] in ("/x?y", "/?y")
            assert a.seen[0].header("host") == target.partition("//")[2].partition("/")[0].partition("?")[0]


@in_loop
async def test_a_host_name_selects_a_service_with_all_its_paths() -> None:
    async with replicas("a") as (a,), running_router(route("chat", a, hosts=("chat.example",))) as (_, port):
        client = await Client.connect(port)
        client.send(b"GET /v1/models?x HTTP/1.1\r\nHost: Chat.Example:8080\r\n\r\n")
        assert (await client.read()).json()["target"] == "/v1/models?x"


@in_loop
async def test_a_router_that_stops_ends_its_requests_first() -> None:
    async with replicas("a") as (a,), running_router(route("chat", a)) as (router, port):
        client, idle = await Client.connect(port), await Client.connect(port)
        client.send(b"GET /chat/wait HTTP/1.1\r\n%b\r\n" % HEAD)
        await until(lambda: a.open == 1)
        closing = asyncio.create_task(router.close())
        assert await idle.is_closed()
        with pytest.raises(ConnectionRefusedError):
            await Client.connect(port)
        a.gate.set()
        answer = await client.read()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        await closing


@in_loop
async def test_a_service_whose_replicas_do_not_start_refuses_waiting_and_new_requests() -> None:
    async with replicas("a") as (a,), running_router(route("chat")) as (router, port):
        waiting = asyncio.create_task(ask(port, "GET", "/chat/"))
        await until(lambda: len(router.services["chat"].dispatcher.queue) == 1)
        router.apply(RouteTable((route("chat", failed="exited with code 3, 5 times"),)))
        for answer in (await waiting, await ask(port, "POST", "/chat/", b"x")):
            assert (answer.status, answer.json()["error"]["code"]) == (503, "service_failed")
            assert "exited with code 3, 5 times" in answer.json()["error"]["message"]
        router.apply(RouteTable((route("chat", a, failed="exited with code 3, 5 times"),)))
        assert (await ask(port, "GET", "/chat/")).status == 200, "a replica that is ready answers"
