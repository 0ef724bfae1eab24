"""Replicas that fail leave the rotation of a router, and return when they are well."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from support.programs.http_replica import Replica, replicas
from support.router_client import Client, ask, in_loop, route, running_router, until
from weft.model.service import Timeouts
from weft.router.app import Router
from weft.router.rules.outliers import ERRORS_IN_ROW, Health
from weft.router.table import RouteTable

FAIL = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"


def health(router: Router, replica: Replica) -> Health:
    return router.services["chat"].dispatcher.replicas[replica.name].health


@in_loop
async def test_a_replica_that_answers_nothing_but_errors_is_left_alone_for_a_time() -> None:
    async with replicas("bad", "good") as (bad, good), running_router(route("chat", bad)) as (router, port):
        for _ in range(ERRORS_IN_ROW - 1):
            assert (await ask(port, "POST", "/chat/raw", FAIL)).status == 500
        router.apply(RouteTable((route("chat", bad, good),)))
        while not health(router, bad).is_out():
            await ask(port, "POST", "/chat/raw", FAIL)
            health(router, good).in_row = 0
        seen = len(bad.seen)
        assert {(await ask(port, "GET", "/chat/")).json()["replica"] for _ in range(20)} == {"good"}
        assert len(bad.seen) == seen
        page = (await ask(port, "GET", "/-/services")).json()["services"][0]
        assert [(each["name"], each["ejected"]) for each in page["replicas"]] == [("bad", True), ("good", False)]
        assert page["ready"] == 1
        metrics = (await ask(port, "GET", "/-/metrics")).body.decode()
        assert 'weft_router_ejected_replicas{service="chat"} 1.0' in metrics


@in_loop
async def test_a_hung_replica_costs_one_request_its_time_limit_and_returns_when_it_answers_a_probe() -> None:
    async with replicas("a", "b") as (a, b):
        quick = Timeouts(queue_s=30.0, answer_s=1.0, idle_s=30.0)
        async with running_router(route("chat", a, timeouts=quick, health="/wait")) as (router, port):
            assert (await ask(port, "GET", "/chat/wait")).status == 504
            router.apply(RouteTable((route("chat", a, b, timeouts=quick, health="/wait"),)))
            answers = await asyncio.gather(*(ask(port, "GET", "/chat/") for _ in range(20)))
            assert {answer.json()["replica"] for answer in answers} == {"b"}
            assert health(router, a).last_error == "the replica did not answer in time"
            a.gate.set()
            await until(lambda: not health(router, a).is_out())
            await until(lambda: not a.open)
            while (await ask(port, "GET", "/chat/")).json()["replica"] != "a":
                pass


@in_loop
async def test_a_replica_whose_clients_leave_without_an_answer_has_to_answer_a_probe() -> None:
    async with replicas("a", "b") as (a, b), running_router(route("chat", a, health="/wait")) as (router, port):
        client = await Client.connect(port)
        client.send(b"GET /chat/wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await until(lambda: a.open == 1)
        exchange = next(iter(router.clients)).current
        assert exchange is not None
        exchange.deadline_s -= 10.0  # ten seconds ago
        client.close()
        await until(lambda: health(router, a).is_out())
        assert health(router, a).failures == 0, "the client may have been in a hurry"
        router.apply(RouteTable((route("chat", a, b, health="/wait"),)))
        assert {(await ask(port, "GET", "/chat/")).json()["replica"] for _ in range(8)} == {"b"}


@in_loop
async def test_a_request_that_is_sent_again_waits_for_another_replica_than_the_one_that_failed() -> None:
    async with replicas("a", "b") as (a, b), running_router(route("chat", b, concurrency=1)) as (router, port):
        held = asyncio.create_task(ask(port, "GET", "/chat/wait"))
        await until(lambda: b.open == 1)
        router.apply(RouteTable((route("chat", a, b, concurrency=1),)))
        killed = asyncio.create_task(ask(port, "GET", "/chat/die"))
        await until(lambda: health(router, a).failures == 1 and not health(router, a).is_out())
        assert (await ask(port, "GET", "/chat/")).json()["replica"] == "a", "others overtake it"
        assert len(router.services["chat"].dispatcher.queue) == 1
        b.gate.set()
        assert (await held).status == 200
        assert (await killed).status == 502
        assert [each.target for each in b.seen].count("/die") == 1


@in_loop
async def test_requests_count_for_the_version_of_their_replica_also_after_it_has_left() -> None:
    async with replicas("a", "b") as (a, b), running_router(route("chat", a)) as (router, port):
        assert (await ask(port, "GET", "/chat/")).status == 200
        assert (await ask(port, "POST", "/chat/raw", FAIL)).status == 500
        assert (await ask(port, "POST", "/chat/die", b"x")).status == 502
        second = route("chat", b)
        router.apply(RouteTable((replace(second, replicas=(replace(second.replicas[0], version=2),)),)))
        assert (await ask(port, "GET", "/chat/")).status == 200
        assert dict(router.services["chat"].load().versions) == {1: (3, 2), 2: (1, 0)}


@in_loop
async def test_replicas_of_a_silent_node_are_probed_before_a_request_finds_out_that_they_hang() -> None:
    async with replicas("a", "b") as (a, b), running_router(route("chat", a, b, health="/wait")) as (router, port):
        b.gate.set()
        both = route("chat", a, b, health="/wait")
        silent = tuple(replace(each, silent=True) for each in both.replicas)
        router.apply(RouteTable((replace(both, replicas=silent),)))
        await until(lambda: health(router, a).is_out())
        assert not health(router, b).is_out(), "it answers its probe"
        assert {(await ask(port, "GET", "/chat/")).json()["replica"] for _ in range(8)} == {"b"}
        a.gate.set()
        await until(lambda: not health(router, a).is_out())


@in_loop
async def test_requests_wait_while_no_replica_answers_a_probe() -> None:
    async with replicas("a") as (a,):
        await a.stop()
        quick = Timeouts(queue_s=0.3)
        async with running_router(route("chat", a, timeouts=quick)) as (router, port):
            answer = await ask(port, "POST", "/chat/", b"x")
            assert (answer.status, answer.json()["error"]["code"]) == (503, "queue_timeout")
            assert "no replica answers a probe: Connection refused" in answer.json()["error"]["message"]
            assert health(router, a).failures == 1, "it is not sent again and again"


@in_loop
async def test_a_replica_that_has_left_the_table_is_not_probed() -> None:
    async with replicas("a") as (a,), running_router(route("chat", a)) as (router, port):
        asked = asyncio.create_task(ask(port, "POST", "/chat/wait"))
        await until(lambda: a.open == 1)
        router.apply(RouteTable((route("chat"),)))
        await a.stop()
        assert (await asked).status == 502
        assert not router.services["chat"].probes
