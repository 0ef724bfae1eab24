"""Delivery next to the loop: order, retries, targets that fail, limits, and files that outlive a server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from weft.access.notify.delivery import MAX_AGE_S
from weft.access.notify.outbox import Entry, Outbox, Position
from weft.server.notifications import dispatcher
from weft.server.notifications.dispatcher import Dispatcher
from weft.server.notifications.sender import Result, Sender

LATER = Result(False, "busy")
NEVER = Result(False, "gone", permanent=True)


class Wire:
    """Senders that do as planned: results by target, in order; then success."""

    def __init__(self, **results: list[Result]) -> None:
        self.results, self.sent, self.removed = results, list[tuple[str, int]](), list[int]()

    def sender(self) -> Sender:
        wire = self

        class Fake(Sender):
            async def send(self, target: str, message: Mapping[str, Any]) -> Result:
                await asyncio.sleep(0)
                wire.sent.append((target, int(message["n"])))
                waiting = wire.results.get(target)
                return waiting.pop(0) if waiting else Result(True)

        return Fake()

    def run(self, *entries: Entry, until: Callable[[Dispatcher], bool] = lambda d: d.pending == 0) -> Dispatcher:
        async def drive() -> Dispatcher:
            made = Dispatcher(lambda entry: self.removed.append(entry.number), lambda *_: 0.001, self.sender)
            made.add(entries)
            async with asyncio.timeout(5.0):
                while not until(made):
                    await asyncio.sleep(0.001)
            await made.close()
            return made

        return asyncio.run(drive())


def entry(number: int, target: str = "a", age_s: float = 0.0) -> Entry:
    return Entry(number, target, time.time() - age_s, {"id": str(number), "n": number})


def test_messages_arrive_in_order_and_are_tried_again() -> None:
    wire = Wire(a=[LATER, LATER, Result(True), NEVER])
    made = wire.run(entry(1), entry(2), entry(3))
    assert wire.sent == [("a", 1), ("a", 1), ("a", 1), ("a", 2), ("a", 3)]
    assert wire.removed == [1, 2, 3]
    assert (made.queues["a"].sent, made.queues["a"].dropped, made.queues["a"].error) == (2, 1, "")


def test_a_target_that_fails_delays_no_other() -> None:
    wire = Wire(a=[LATER] * 1000)
    made = wire.run(entry(1, "a"), entry(2, "b"), entry(3, "b"), until=lambda d: d.pending == 1)
    assert [number for target, number in wire.sent if target == "b"] == [2, 3]
    assert made.queues["a"].error == "busy"
    assert wire.removed == [2, 3]


def test_a_message_that_is_too_old_is_dropped() -> None:
    wire = Wire(a=[LATER])
    assert wire.run(entry(1, age_s=MAX_AGE_S + 1), entry(2)).queues["a"].dropped == 1
    assert wire.removed == [1, 2]


def test_the_queue_of_a_target_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "MAX_PENDING", 2)

    async def drive() -> None:
        made = Dispatcher(lambda _: None, lambda *_: 60.0, Wire(a=[LATER] * 9).sender)
        made.add([entry(1), entry(2)])
        assert made.is_full("a")
        assert not made.is_full("b")
        made.drop("a")
        assert made.queues["a"].dropped == 1
        await made.close()

    asyncio.run(drive())


def test_a_receiver_that_hangs_is_given_up_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "hang"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    program.chmod(0o700)
    (tmp_path / "notify.yaml").write_text(f"targets: {{x: {{command: [{program}]}}}}\n")
    (tmp_path / "notify.yaml").chmod(0o600)
    monkeypatch.setenv("WEFT_NOTIFY_FILE", str(tmp_path / "notify.yaml"))

    async def drive() -> Result:
        sender = Sender(timeout_s=30.0)
        sending = asyncio.create_task(sender.send("x", {"id": "1", "event": "test", "message": "m"}))
        async with asyncio.timeout(30.0):
            while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
                await asyncio.sleep(0.01)
        sender._timeout_s = 0.1
        await sender.close()
        return await sending

    result = asyncio.run(drive())
    assert not result.ok
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 5.0
    while Path(f"/proc/{pid}").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_messages_on_disk_are_read_back_and_damaged_files_are_skipped(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "notify")
    assert outbox.load() == (None, [])
    entries, position = [entry(2), entry(11)], Position(5.0, {"g": 4.0})
    outbox.store(entries, position)
    (tmp_path / "notify" / "000000000003.json").write_text("{torn")
    (tmp_path / "notify" / "000000000004.json").write_text('{"target": "a"}')
    assert outbox.load() == (position, entries)
    outbox.remove(entries[0])
    outbox.remove(entries[0])
    assert outbox.load()[1] == [entries[1]]
    (tmp_path / "notify" / "position.json").write_text("[]")
    assert outbox.load() == (None, [entries[1]])
