"""Batches over the limit of a request: split, checked as a whole, linked across parts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from weft.access import client
from weft.access.client import batches
from weft.access.endpoints.addresses import Address
from weft.access.wire.messages import JobSpec, SubmitReply, SubmitRequest, Variable
from weft.access.wire.service import MAX_REQUEST_BYTES
from weft.errors import InputError, Refused, Unreachable

LARGE = "x" * (1 << 20)


class Recorder:
    """A transport that notes how long a call may take."""

    timeout_s = 0.0

    def open(self) -> None: ...

    def call(self, name: str, request: SubmitRequest, timeout_s: float) -> SubmitReply:
        self.timeout_s = timeout_s
        return SubmitReply(ids=["1"])


@pytest.mark.parametrize(
    ("array", "at_least_s", "at_most_s"), [("", 60, 61), ("0-99999", 300, 600), ("no array", 60, 61)]
)
def test_a_large_array_may_take_its_time(
    monkeypatch: pytest.MonkeyPatch, array: str, at_least_s: float, at_most_s: float
) -> None:
    recorder = Recorder()
    monkeypatch.setattr(client, "_transport", lambda *_, **__: recorder)
    here = client.Client(Address("localhost", 1))
    assert here.submit(SubmitRequest(jobs=[JobSpec(command=["true"], array=array)])) == ["1"]
    assert at_least_s <= recorder.timeout_s <= at_most_s


class Server:
    """Answers requests with ids as a scheduler does, and remembers them."""

    def __init__(self) -> None:
        self.seen: list[SubmitRequest] = []
        self.cancelled: list[str] = []
        self.next = 1
        self.fail: dict[int, Exception] = {}
        """Errors by the number of the request that gets them."""

    def send(self, request: SubmitRequest) -> list[str]:
        assert request.ByteSize() <= MAX_REQUEST_BYTES
        self.seen.append(request)
        if error := self.fail.get(len(self.seen)):
            raise error
        if request.dry_run:
            return []
        first, self.next = self.next, self.next + len(request.jobs)
        return [
            f"{first + at}_{index}" if job.array else str(first + at)
            for at, job in enumerate(request.jobs)
            for index in (range(3) if job.array else range(1))
        ]

    def cancel(self, jobs: Sequence[str]) -> None:
        self.cancelled += jobs

    def submit(self, *jobs: JobSpec, **rest: object) -> list[str]:
        return batches.submit(SubmitRequest(jobs=jobs, key="k", **rest), self.send, self.cancel)  # type: ignore[arg-type]

    @property
    def real(self) -> list[SubmitRequest]:
        return [request for request in self.seen if not request.dry_run]


def job(name: str, *after: str, array: str = "") -> JobSpec:
    return JobSpec(name=name, command=[LARGE], after=after, array=array)


def test_a_small_batch_is_one_request() -> None:
    server = Server()
    assert server.submit(JobSpec(name="a"), JobSpec(name="b", after=["#0"])) == ["1", "2"]
    (only,) = server.seen
    assert (only.key, list(only.jobs[1].after), only.other_jobs) == ("k", ["#0"], 0)


def test_every_part_is_checked_before_the_first_is_submitted() -> None:
    server = Server()
    ids = server.submit(*(job(str(at)) for at in range(5)), env=[Variable(name="A", value="1")], chdir="/x")
    assert ids == ["1", "2", "3", "4", "5"]
    assert [request.dry_run for request in server.seen] == [True, True, True, False, False, False]
    assert [len(request.jobs) for request in server.real] == [2, 2, 1]
    assert [request.key for request in server.real] == ["k/0", "k/1", "k/2"]
    assert [request.other_jobs for request in server.seen] == [3, 3, 4, 3, 1, 0]
    assert {(request.env[0].value, request.chdir) for request in server.seen} == {("1", "/x")}


def test_dependencies_lead_from_one_part_to_another() -> None:
    server = Server()
    server.submit(job("a"), job("b", array="0-2"), job("c", "#0", "7"), job("d", "#1", "#2"))
    assert [[list(each.after) for each in request.jobs] for request in server.seen] == [
        [[], []], [["7"], ["#0"]], [[], []], [["1", "7"], ["2", "#0"]],
    ]  # fmt: skip


def test_a_job_may_depend_on_a_later_one_of_another_part() -> None:
    server = Server()
    ids = server.submit(job("a", "#3"), job("b"), job("c"), job("d"))
    of_name = {each.name: at for at, each in enumerate((each for r in server.real for each in r.jobs), start=1)}
    assert ids == [str(of_name[name]) for name in "abcd"]
    (a,) = [each for request in server.real for each in request.jobs if each.name == "a"]
    assert of_name["d"] < of_name["a"]
    assert list(a.after) in (["#0"], ["#1"], [str(of_name["d"])])


def test_a_circle_over_several_parts_is_named() -> None:
    with pytest.raises(
        InputError, match=r"^job #\d \([ad]\): after: cyclic dependencies: (a after d after a|d after a)"
    ):
        Server().submit(job("a", "#3"), job("b"), job("c"), job("d", "#0"))


def test_a_reference_to_no_job_of_the_batch_is_refused() -> None:
    with pytest.raises(InputError, match=r"'#9' is not one of this request\n  #0 to #3"):
        Server().submit(job("a", "#9"), job("b"), job("c"), job("d"))


def test_a_dry_run_checks_all_parts_and_submits_none() -> None:
    server = Server()
    assert server.submit(*(job(str(at)) for at in range(5)), dry_run=True) == []
    assert not server.real
    assert len(server.seen) == 3


def test_an_error_names_the_job_by_its_number_in_the_whole_batch() -> None:
    server = Server()
    server.fail[2] = InputError("no command", index=1)
    with pytest.raises(InputError, match=r"^job #3 \(3\): no command") as caught:
        server.submit(*(job(str(at)) for at in range(5)))
    assert caught.value.index == 3
    assert not server.real


def test_what_was_submitted_is_cancelled_when_a_later_part_is_refused() -> None:
    server = Server()
    server.fail[5] = Refused("quota")
    with pytest.raises(Refused):
        server.submit(*(job(str(at)) for at in range(5)))
    assert server.cancelled == ["1", "2"]


def test_a_scheduler_that_goes_away_leaves_what_it_has() -> None:
    server = Server()
    server.fail[5] = Unreachable("gone")
    with pytest.raises(Unreachable, match=r"2 of 5 jobs are submitted; --key k continues"):
        server.submit(*(job(str(at)) for at in range(5)))
    assert server.cancelled == []


def test_a_job_or_an_environment_too_large_is_refused_here() -> None:
    with pytest.raises(InputError, match=r"^job #1 \(b\): the job has 6.3 MB"):
        Server().submit(JobSpec(name="a"), JobSpec(name="b", command=[LARGE * 6]))
    with pytest.raises(InputError, match=r"the environment has 4.2 MB"):
        Server().submit(JobSpec(), env=[Variable(name="A", value=LARGE * 4)])


def test_the_environment_does_not_change_where_a_batch_is_split() -> None:
    jobs = [job(str(at)) for at in range(5)]
    some = SubmitRequest(jobs=jobs, env=[Variable(name="A", value="x")])
    more = SubmitRequest(jobs=jobs, env=[Variable(name="A", value="x" * 500_000)])
    assert batches.split(some) == batches.split(more)
