"""The table of jobs behind the web page: filters, sorting, paging, hostile text."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.views.answers.jobs import JobView
from weft.web.live.job_table import MAX_PER_PAGE, SORT_COLUMNS, STATES, JobSearch, JobTable, number_of

NAMES = ("train", "TRAIN-2", "100%", "a_b", "'; drop table jobs; --", "<script>", "", "x!y")
STATUSES = ("waiting", "running", "done", "failed", "held")


def job(id: str, name: str = "", user: str = "", status: str = "waiting", gpus: int = 1, group: str = "") -> JobView:
    return JobView(
        id=id, name=name, user=user, status=status, gpus=gpus, group=group, submitted=f"2030-01-01T{id:>09}Z"
    )


@pytest.fixture
def table() -> Iterator[JobTable]:
    made = JobTable()
    yield made
    made.close()


def ids(table: JobTable, **wanted: object) -> list[str]:
    return [json.loads(row)["id"] for row in table.search(JobSearch(**wanted)).rows]  # type: ignore[arg-type]


def test_rows_are_filtered_sorted_and_paged(table: JobTable) -> None:
    table.put([job(f"{at}", f"j{at % 3}", f"u{at % 2}", STATUSES[at % 5], at) for at in range(1, 121)], 5.0)
    assert ids(table, per_page=3) == ["120", "119", "118"]
    assert ids(table, per_page=3, page=2, descending=False) == ["4", "5", "6"]
    assert ids(table, states=("running",), user="u1", per_page=2) == ["111", "101"]
    assert ids(table, text="J1", sort="gpus", descending=False, per_page=2) == ["1", "4"]
    assert table.search(JobSearch(states=("ended",))).total == 48
    assert ids(table, page=10**6) == []
    assert json.loads(table.search(JobSearch()).rows[0])["at"] == 5.0


def test_a_row_is_replaced_unless_it_is_older(table: JobTable) -> None:
    table.put([job("7", "old")], 1.0)
    table.put([job("7", "older")], 0.5, newer=False)
    assert ids(table, text="old") == ["7"]
    table.put([job("7", "new", status="done")], 2.0)
    assert (ids(table, text="old"), ids(table, text="new")) == ([], ["7"])
    table.remove(["7", "8"])
    assert ids(table) == []
    table.put([job("1")], 1.0)
    table.clear()
    assert table.search(JobSearch()).total == 0


def test_tasks_of_an_array_are_found_by_its_number_and_sorted(table: JobTable) -> None:
    table.put([job(id) for id in ("7_10", "7_2", "70", "7")], 0.0)
    assert ids(table, descending=False) == ["7", "7_2", "7_10", "70"]
    assert sorted(ids(table, text="7")) == ["7", "7_10", "7_2"], "70 is another job"
    assert [number_of(id) for id in ("x", "9" * 400, "7_x")] == [0.0, 0.0, 7.0]


def test_users_are_counted(table: JobTable) -> None:
    table.put(
        [job("1", user="ann", status="running", gpus=4), job("2", user="ann"), job("3", user="bo", status="done")], 0
    )
    assert sorted(table.by_user()) == [("ann", "running", 1, 4), ("ann", "waiting", 1, 1)]
    assert table.users_and_groups() == (["ann", "bo"], [])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(("ann", "bo")), st.sampled_from(STATUSES)), max_size=15),
    st.sampled_from((*NAMES, "%", "_", "!", "\\", '"')), st.sampled_from(("", "ann", "' or 1=1")),
    st.sampled_from(((), *((word,) for word in STATES))), st.sampled_from(tuple(SORT_COLUMNS)), st.booleans(),
)  # fmt: skip
def test_a_search_finds_what_a_loop_finds(
    rows: list[tuple[str, str, str]], text: str, user: str, states: tuple[str, ...], sort: str, descending: bool
) -> None:
    table = JobTable()
    jobs = [job(str(at + 1), *row) for at, row in enumerate(rows)]
    table.put(jobs, 0.0)
    wanted = JobSearch(states, user, "", text, sort, descending, 1, MAX_PER_PAGE)
    statuses = [status for word in states for status in STATES[word]]
    expected = {
        each.id for each in jobs
        if (not statuses or each.status in statuses) and (not user or each.user == user)
        and (not text or text.lower() in each.name.lower() or text == each.id)
    }  # fmt: skip
    found = table.search(wanted)
    assert ({json.loads(row)["id"] for row in found.rows}, found.total) == (expected, len(expected))
    assert table.search(JobSearch()).total == len(jobs), "nothing was changed"
    table.close()
