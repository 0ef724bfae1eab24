"""Faults of real replica processes under a steady load: nothing is lost that no replica has begun."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time

import pytest

from support.programs.replica_process import replica_processes, start_process
from support.router_client import in_loop, running_router, until
from weft.access.endpoints.addresses import Address
from weft.lab.load.figures import Sent
from weft.lab.load.sender import LoadPlan, Sender
from weft.model.service import Timeouts
from weft.router.table import ReplicaRoute, RouteTable, ServiceRoute

RPS = 40
SECONDS = 2.0
PATIENT = Timeouts(queue_s=30.0, answer_s=30.0, idle_s=30.0)


def service(*ports: int, draining: tuple[int, ...] = (), **options: object) -> ServiceRoute:
    replicas = tuple(
        ReplicaRoute(str(port), Address("127.0.0.1", port), 8, draining=port in draining) for port in ports
    )
    return ServiceRoute("chat", replicas, **{"timeouts": PATIENT, **options})  # type: ignore[arg-type]


def load(port: int, method: str = "GET") -> asyncio.Task[list[Sent]]:
    """Send 40 requests a second, in the background."""
    request = f"{method} /chat/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nhi".encode()
    times_s = [at / RPS for at in range(int(RPS * SECONDS))]
    return asyncio.create_task(Sender(LoadPlan("127.0.0.1", port, request, times_s)).run())


def statuses(sent: list[Sent]) -> set[int]:
    assert len(sent) == RPS * SECONDS
    return {each.status for each in sent}


@pytest.mark.parametrize(("method", "retry"), [("PUT", "safe"), ("POST", "unanswered")])
@in_loop
async def test_a_killed_replica_under_load_loses_no_request(method: str, retry: str) -> None:
    async with (
        replica_processes("a", "b") as ((a, first), (_, second)),
        running_router(service(first, second, retry=retry)) as (router, port),
    ):
        sending = load(port, method)
        await until(lambda: router.services["chat"].load().answered > 20)
        a.kill()
        assert statuses(await sending) == {200}
        assert router.services["chat"].connect_errors + router.services["chat"].retries > 0


@in_loop
async def test_scale_in_and_a_rolling_update_under_load_lose_no_request() -> None:
    async with (
        replica_processes("a", "b") as ((a, first), (_, second)),
        running_router(service(first, second)) as (router, port),
    ):
        sending = load(port, "POST")
        await until(lambda: router.services["chat"].load().answered > 15)
        third, added = await start_process("c")
        try:
            router.apply(RouteTable((service(first, second, added, draining=(first,)),)))
            draining = router.services["chat"].dispatcher.replicas[str(first)]
            await until(draining.is_drained)
            router.apply(RouteTable((service(second, added),)))
            a.terminate()
            assert statuses(await sending) == {200}
        finally:
            third.kill()
            await third.wait()


@in_loop
async def test_a_stopped_replica_costs_only_the_requests_it_has() -> None:
    async with replica_processes("a", "b") as ((a, first), (_, second)):
        quick = Timeouts(queue_s=30.0, answer_s=1.0, idle_s=30.0)
        async with running_router(service(first, second, timeouts=quick)) as (_, port):
            assert a.pid is not None
            os.kill(a.pid, signal.SIGSTOP)
            found = await load(port, "POST")
            assert statuses(found) == {200, 504}
            late = [each for each in found if each.status == 504]
            assert len(late) <= 8, "at most the requests that its concurrency let through, once"
            os.kill(a.pid, signal.SIGCONT)


@in_loop
async def test_requests_that_wait_for_the_first_replica_are_answered_soon_after_its_start() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        where = probe.getsockname()[1]
    async with running_router(service()) as (router, port):
        request = b"POST /chat/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nhi"
        sending = asyncio.create_task(Sender(LoadPlan("127.0.0.1", port, request, [0.0] * 20)).run())
        await until(lambda: len(router.services["chat"].dispatcher.queue) == 20)
        process, _ = await start_process("a", where)
        try:
            ready_s = time.monotonic()
            router.apply(RouteTable((service(where),)))
            assert {each.status for each in await sending} == {200}
            assert time.monotonic() - ready_s < 5.0, "0.02 s on a quiet machine; the goal is 0.5 s"
        finally:
            process.kill()
            await process.wait()
