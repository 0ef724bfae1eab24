"""The last forecast: when it is given as it is, when a new one is made behind it, and when a question waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from support.builders import grid
from weft.access.server.settings import Settings
from weft.history.journal import open_journal
from weft.model import Job, NodeJoined, Start, Submitted
from weft.server.forecasts.keeper import FRESH_S, MAX_FRESH_S, USABLE_S, ForecastKeeper, ForecastTable
from weft.server.forecasts.outcomes import FILE, Outcomes

NOW = 1000.0


class Kept:
    """A keeper on a real journal with a run and a waiting job, and a clock that a test sets."""

    def __init__(self, folder: Path) -> None:
        self.now, self.url = NOW, f"jsonl://{folder / 'journal.jsonl'}"
        (only,) = grid(1, 1)
        with open_journal(self.url) as journal:
            journal.append(NodeJoined(NOW, only), Submitted(NOW, Job("1", 1, declared_s=60.0)))
            journal.append(Start(NOW, "1", 1, ((only.id, (0,)),)))
            journal.append(Submitted(NOW, Job("2", 1, declared_s=60.0)))
        self.keeper = ForecastKeeper(self.url, Settings, lambda: self.now, Outcomes(folder))

    async def at(self, needed: dict[str, float] | None = None) -> float:
        table = await self.keeper.table(needed)
        assert table is not None, self.keeper.failure
        return table.at


def keep(folder: Path, play: Callable[[Kept], Awaitable[None]]) -> None:
    async def run() -> None:
        kept = Kept(folder)
        try:
            await play(kept)
        finally:
            await kept.keeper.close()

    asyncio.run(run())


async def first(kept: Kept) -> None:
    """Wait for the first forecast, whatever the machine does meanwhile."""
    while await kept.keeper.table() is None:
        assert not kept.keeper.failure


def test_a_forecast_of_a_minute_is_given_at_once_and_renewed_behind(tmp_path: Path) -> None:
    async def play(kept: Kept) -> None:
        await first(kept)
        kept.now = NOW + FRESH_S
        assert await kept.at() == NOW
        assert not kept.keeper.is_refreshing
        kept.now = NOW + USABLE_S
        assert await kept.at() == NOW
        assert kept.keeper.is_refreshing
        while kept.keeper.is_refreshing:
            await asyncio.sleep(0.01)
        assert await kept.at() == NOW + USABLE_S

    keep(tmp_path, play)


def test_a_question_waits_for_a_forecast_that_has_its_job(tmp_path: Path) -> None:
    async def play(kept: Kept) -> None:
        await first(kept)
        kept.now = NOW + FRESH_S + 1
        await kept.at()
        assert kept.keeper.is_refreshing, "one is being made that does not have the job"
        kept.now += 1
        with open_journal(kept.url) as journal:
            journal.append(Submitted(kept.now, Job("3", 1, declared_s=60.0)))
        while "3" not in (await kept.keeper.table({"3": kept.now}) or ForecastTable(0, 0, 0, {})).jobs:
            assert not kept.keeper.failure
        assert await kept.at() == kept.now

    keep(tmp_path, play)


def test_a_question_about_a_job_that_waits_again_gets_a_new_forecast(tmp_path: Path) -> None:
    async def play(kept: Kept) -> None:
        await first(kept)
        kept.now = NOW + 1
        assert await kept.at() == NOW
        table = await kept.keeper.table({"2": kept.now})
        assert table is not None
        assert table.at == kept.now

    keep(tmp_path, play)


@pytest.mark.parametrize(("cpu_s", "fresh_s"), [(0.1, FRESH_S), (2.0, 40.0), (3.0, 60.0), (100.0, MAX_FRESH_S)])
def test_a_costly_forecast_is_fresh_for_longer(cpu_s: float, fresh_s: float) -> None:
    table = ForecastTable(NOW, 30, 0, {}, cpu_s)
    assert table.fresh_s == pytest.approx(fresh_s)
    assert table.usable_s == pytest.approx(max(USABLE_S, 2 * fresh_s))


def test_the_next_server_knows_what_was_expected(tmp_path: Path) -> None:
    async def play(kept: Kept) -> None:
        await first(kept)
        while kept.keeper.is_refreshing:
            await asyncio.sleep(0.01)

    keep(tmp_path, play)
    assert list(Outcomes(tmp_path).record["pending"]) == ["2"]


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"pending": 7}',
        '{"outcomes": ["a"]}',
        '{"outcomes": [[1]]}',
        '{"pending": {"2": [0, 0]}}',
        '{"outcomes": [NaN]}',
    ],
)
def test_outcomes_that_make_no_sense_are_left_out(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    keep(tmp_path, first)
    assert Outcomes(tmp_path).record["outcomes"] == []
