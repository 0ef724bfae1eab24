"""The most that a request may hold: counted before its messages are made."""

from __future__ import annotations

import pytest

from weft.access.jobspec.fields import FIELDS
from weft.access.wire import limits
from weft.access.wire import messages as m
from weft.errors import InputError


def refusal(message: m.SubmitRequest | m.Heartbeat | m.WhatIfRequest, *, is_large: bool) -> str:
    """Return why a message is refused, as it is checked when it is small or when it is large; empty: it is not."""
    try:
        for _ in limits.check(message.DESCRIPTOR, message.SerializeToString() if is_large else message):
            pass
    except InputError as error:
        return error.text
    return ""


@pytest.mark.parametrize("is_large", [False, True])
def test_items_and_numbers_are_checked_in_nested_messages_too(is_large: bool) -> None:
    job = m.JobSpec(command=["true"], env=[m.Variable(name="A", value="x")] * 4096, labels=[m.Variable()] * 1000)
    assert refusal(m.SubmitRequest(jobs=[job]), is_large=is_large) == ""
    job.env.add()
    assert "env: 4,097 items in one JobSpec; at most 4,096" in refusal(m.SubmitRequest(jobs=[job]), is_large=is_large)
    job = m.JobSpec(labels=[m.Variable()] * 1001)
    assert "labels: 1,001 items" in refusal(m.SubmitRequest(jobs=[job]), is_large=is_large)
    job = m.JobSpec(profile=m.StageProfile(gpu_s=float("nan")))
    assert "gpu_s: nan" in refusal(m.SubmitRequest(jobs=[m.JobSpec(), job]), is_large=is_large)
    job = m.JobSpec(deadline_at=float("inf"))
    assert "deadline_at: inf" in refusal(m.SubmitRequest(jobs=[job]), is_large=is_large)
    run = m.RunNews(job="1", run=1, end=m.RunEnd(ran_s=-1e300))
    assert "ran_s: -1e+300" in refusal(m.Heartbeat(runs=[run]), is_large=is_large)
    assert "cancel: 10,001 items" in refusal(m.WhatIfRequest(cancel=["1"] * 10_001), is_large=is_large)


def test_many_parts_of_many_messages_are_counted_together() -> None:
    job = m.JobSpec(env=[m.Variable()] * 4000)
    assert "more than 500,000 parts" in refusal(m.SubmitRequest(jobs=[job] * 126), is_large=True)


def test_the_table_names_fields_that_exist() -> None:
    for name in limits.ITEMS:
        kind, _, field = name.partition(".")
        assert getattr(m, kind).DESCRIPTOR.fields_by_name[field].is_repeated, name


def test_every_number_of_a_job_has_bounds() -> None:
    numbers = {
        field.key
        for field in FIELDS
        if m.JobSpec.DESCRIPTOR.fields_by_name[field.message].cpp_type
        not in (m.JobSpec.DESCRIPTOR.fields_by_name[other].cpp_type for other in ("name", "hold", "profile"))
    }
    assert numbers == {field.key for field in FIELDS if field.bounds is not None}
