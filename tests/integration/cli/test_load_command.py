"""`weft load` against a real server and a real router."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from support.programs.http_replica import Replica, replicas
from support.router_client import in_loop, route, running_router
from weft.cli.main import main
from weft.lab.load.figures import FAILED, NOT_SENT, TIMED_OUT
from weft.lab.load.sender import LoadPlan, Sender


def plan(replica: Replica, target: str, times_s: list[float], **options: object) -> LoadPlan:
    request = f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    return LoadPlan("127.0.0.1", replica.port, request, times_s, **options)  # type: ignore[arg-type]


@in_loop
async def test_requests_go_out_when_they_are_due_whether_or_not_answers_come() -> None:
    async with replicas("a") as (a,):
        sender = Sender(plan(a, "/wait", [at / 100 for at in range(20)], connections=50))
        sending = asyncio.create_task(sender.run())
        while a.open < 20:
            await asyncio.sleep(0.005)
        a.gate.set()
        sent = await sending
        assert [each.status for each in sent] == [200] * 20
        assert all(each.seconds > 0 for each in sent)


@in_loop
async def test_waiting_for_a_connection_counts_as_latency() -> None:
    async with replicas("a") as (a,):
        sender = Sender(plan(a, "/wait", [0.0] * 30, connections=3))
        sending = asyncio.create_task(sender.run())
        while a.open < 3:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.2)
        a.gate.set()
        sent = await sending
        assert len(sent) == 30
        assert min(each.seconds for each in sent) >= 0.2
        assert a.most_open == 3


@in_loop
async def test_answers_of_all_kinds_are_read_to_their_end() -> None:
    async with replicas("a") as (a,):
        for target, first_is_early in (
            ("/chunks?n=4&gap=0.02", True),
            ("/until-close", False),
            ("/early", False),
            ("/no-content", False),
        ):
            sent = await Sender(plan(a, target, [0.0, 0.01])).run()
            assert all(200 <= each.status < 300 for each in sent), target
            assert not first_is_early or all(each.first_s < each.seconds - 0.03 for each in sent)


@in_loop
async def test_failures_and_time_outs_are_counted_and_end() -> None:
    async with replicas("a") as (a,):
        sent = await Sender(plan(a, "/die?after=5", [0.0] * 10, connections=2)).run()
        assert [each.status for each in sent] == [FAILED] * 10
        sent = await Sender(plan(a, "/wait", [0.0] * 10, connections=2, timeout_s=0.3)).run()
        assert [each.status for each in sent] == [TIMED_OUT] * 10
        await a.stop()
        sent = await Sender(plan(a, "/", [0.0] * 20, connections=2)).run()
        assert [each.status for each in sent] == [FAILED] * 20


@in_loop
async def test_a_sender_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.lab.load.sender.MAX_WAITING", 5)
    async with replicas("a") as (a,):
        sender = Sender(plan(a, "/wait", [0.0] * 30, connections=3))
        sending = asyncio.create_task(sender.run())
        while a.open < 3:
            await asyncio.sleep(0.005)
        a.gate.set()
        statuses = [each.status for each in await sending]
        assert statuses.count(NOT_SENT) > 0
        assert statuses.count(200) + statuses.count(NOT_SENT) == 30


def test_a_service_is_loaded_through_the_router(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"

    async def drive() -> None:
        async with replicas("a") as (a,), running_router(route("chat", a)) as (_, port):
            words = ["chat", "--rps", "bursty:60", "--duration", "2s", "--gamma", "2", "-d", '{"x": 1}', "--json"]
            where = ["--router", f"127.0.0.1:{port}", "--path", "/v2", "--out", str(out), "--slo", "5s"]
            code = await asyncio.to_thread(main, ["load", *words, *where])
            assert code == 0
            assert {(seen.method, seen.target, seen.body) for seen in a.seen} == {("POST", "/v2", b'{"x": 1}')}

    asyncio.run(drive())
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] == found["requests"] > 0
    assert found["codes"] == {"200": found["ok"]}
    assert found["latency_s"]["p50"] <= found["latency_s"]["p99"]
    assert {path.name for path in out.iterdir()} >= {"load.png", "load.svg", "load.csv", "summary.json"}
    assert len((out / "load.csv").read_text().splitlines()) == found["requests"] + 1


def test_rates_can_be_printed_and_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["load", "--rps", "periodic:10", "--duration", "90s", "--print-rps"]) == 0
    text = capsys.readouterr().out
    assert len(text.split()) == 90
    file = tmp_path / "rps.txt"
    file.write_text(text)
    assert main(["load", "--rps", str(file), "--times", "2", "--print-rps"]) == 0
    again = capsys.readouterr().out.split()
    assert float(again[30]) == pytest.approx(2 * float(text.split()[30]), rel=1e-4)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["chat", "--rps", "fast"], "no such file"),
        (["chat", "--rps", "bursty:none"], "--rps"),
        (["chat", "--rps", "-1"], "--rps"),
        (["--rps", "1"], "an address or a service"),
        (["ftp://x/", "--rps", "1"], "is not an address"),
        (["http://x:0/", "--rps", "1"], "is not an address"),
        (["chat", "--rps", "1", "-H", "bad header"], "--header"),
        (["chat", "--rps", "1e6", "--duration", "1h"], "requests"),
        (["chat", "--rps", "1", "--duration", "2d"], "--duration"),
    ],
)
def test_bad_words_are_one_clear_error(words: list[str], wanted: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["load", *words]) == 2
    assert wanted in capsys.readouterr().err
