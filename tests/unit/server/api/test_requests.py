"""Large requests are taken up in slices: other calls are answered meanwhile, and a batch is accepted as a whole."""

from __future__ import annotations

import asyncio
import copy
import gc
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from weft.access.auth.identity import Caller
from weft.access.endpoints.paths import Paths
from weft.access.server.settings import Settings
from weft.access.wire.messages import ChangeRequest, JobSpec, SubmitReply, SubmitRequest, Variable
from weft.errors import InputError, NotPermitted, Refused
from weft.model import GroupLimited, Job, Submitted, Task
from weft.server.backends.base import AnyJob, BackendPorts
from weft.server.controller import Controller
from weft.server.jobs.batch import Batch, JobTemplate, OpenBatch, decode_batch
from weft.server.jobs.quotas import Quotas
from weft.server.process.slices import at_once
from weft.server.replay import create_scheduler, replay

ANN = Caller("ann", "user")
TASKS = 3000


class Idle:
    """A backend that starts nothing."""

    async def open(self, known: object) -> None: ...

    def execute(self, order: object) -> None: ...

    async def close(self) -> None: ...


class Rules(AnyJob):
    """Accepts every job, within the quotas of its user."""

    def __init__(self, root: Path, max_queued: int) -> None:
        self.quotas = Quotas(Settings(max_queued_per_user=max_queued), root)


Test = Callable[[Controller], Awaitable[None]]


def served(root: Path, test: Test, max_queued: int = 0) -> None:
    async def serve() -> None:
        paths = Paths(root / "s", root / "r")
        paths.make()
        ports = BackendPorts(Idle(), admission=Rules(root, max_queued))
        controller = Controller(paths, Settings(policy="fifo"), lambda _: ports)
        await controller.open()
        try:
            await test(controller)
        finally:
            await controller.close()

    asyncio.run(serve())


def array(key: str = "k", last: int = TASKS - 1, **fields: Any) -> SubmitRequest:
    return SubmitRequest(jobs=[JobSpec(command=["true"], array=f"0-{last}", chdir="/", **fields)], key=key)


def many(*broken: int, count: int = TASKS) -> SubmitRequest:
    jobs = [JobSpec(command=[] if at in broken else ["true"], chdir="/") for at in range(count)]
    return SubmitRequest(jobs=jobs, key="k")


async def answers_during(controller: Controller, work: Awaitable[Any]) -> tuple[Any, int]:
    """Return the result of a request, and how many other requests were answered before it."""
    task = asyncio.ensure_future(work)
    answered = 0
    while not task.done():
        await controller.loop.call(lambda _now: ([], None))
        answered += 1
    return task.result(), answered


@pytest.mark.parametrize("request_of", [array, many])
def test_other_calls_are_answered_while_a_large_request_is_taken_up(tmp_path: Path, request_of: Any) -> None:
    async def test(controller: Controller) -> None:
        reply, answered = await answers_during(controller, controller.requests.submit(request_of(), ANN))
        assert len(reply.ids) == len(set(reply.ids)) == TASKS
        assert answered >= 8
        state = controller.scheduler.state
        assert list(state.jobs) == list(reply.ids)
        assert not list(controller.paths.batches.iterdir())
        changed, answered = await answers_during(
            controller, controller.requests.change(ChangeRequest(verb="cancel", jobs=[*reply.ids]), ANN)
        )
        assert list(changed.ids) == list(reply.ids)
        assert answered >= 8
        assert len(state.ended) == TASKS

    served(tmp_path, test)


def test_the_limit_of_a_group_comes_with_its_jobs(tmp_path: Path) -> None:
    async def test(controller: Controller) -> None:
        groups = controller.scheduler.state.eligibility.groups
        for name, last in (("small", 3), ("large", TASKS - 1)):
            request = array(key=name, last=last, group=name)
            request.group_jobs = 2
            await controller.requests.submit(request, ANN)
            assert groups.settings_of(name).jobs == 2
            facts = list(controller.journal.read())
            limited = next(at for at, fact in enumerate(facts) if isinstance(fact, GroupLimited) and fact.group == name)
            assert isinstance(facts[limited + 1], Submitted), "no job comes before the limit"
            request.key, request.group_jobs = f"{name} of bob", 1
            with pytest.raises(NotPermitted, match="has jobs of others"):
                await controller.requests.submit(request, Caller("bob", "user"))
            assert groups.settings_of(name).jobs == 2
        assert not controller.requests.open_batches

    served(tmp_path, test)


def test_jobs_of_one_batch_have_contiguous_numbers(tmp_path: Path) -> None:
    async def test(controller: Controller) -> None:
        small = SubmitRequest(jobs=[JobSpec(command=["true"], chdir="/")])
        large = asyncio.ensure_future(controller.requests.submit(many(), ANN))
        await asyncio.sleep(0)
        between = [int((await controller.requests.submit(small, ANN)).ids[0]) for _ in range(5)]
        ids = [int(job) for job in (await large).ids]
        assert ids == list(range(ids[0], ids[0] + TASKS))
        assert not set(between) & set(ids)

    served(tmp_path, test)


def test_a_batch_with_a_wrong_job_leaves_nothing(tmp_path: Path) -> None:
    async def test(controller: Controller) -> None:
        with pytest.raises(InputError, match="no command") as error:
            await controller.requests.submit(many(TASKS - 1), ANN)
        assert error.value.index == TASKS - 1
        assert not controller.scheduler.state.jobs
        assert not list(controller.paths.batches.iterdir())
        reply = await controller.requests.submit(SubmitRequest(jobs=[JobSpec(command=["true"], chdir="/")]), ANN)
        assert list(reply.ids) == ["1"]

    served(tmp_path, test)


def test_a_request_that_is_sent_twice_at_once_is_taken_once(tmp_path: Path) -> None:
    async def test(controller: Controller) -> None:
        first, second = await asyncio.gather(*(controller.requests.submit(array(), ANN) for _ in range(2)))
        assert list(first.ids) == list(second.ids) == list(controller.scheduler.state.jobs)

    served(tmp_path, test)


def test_a_caller_that_leaves_does_not_end_its_batch(tmp_path: Path) -> None:
    async def test(controller: Controller) -> None:
        call = asyncio.ensure_future(controller.requests.submit(array(), ANN))
        while not controller.scheduler.state.jobs:
            await asyncio.sleep(0)
        call.cancel()
        reply = await controller.requests.submit(array(), ANN)
        assert list(reply.ids) == [f"1_{at}" for at in range(TASKS)] == list(controller.scheduler.state.jobs)

    served(tmp_path, test)


def test_quotas_count_the_jobs_that_are_still_to_come(tmp_path: Path) -> None:
    async def test(controller: Controller) -> None:
        found = await asyncio.gather(
            *(controller.requests.submit(array(key), ANN) for key in "ab"), return_exceptions=True
        )
        assert {type(each) for each in found} == {SubmitReply, Refused}
        await controller.requests.submit(array("c", last=TASKS - 1000), Caller("bob", "user"))
        with pytest.raises(Refused, match="quota: ann has 3000 jobs"):
            await controller.requests.submit(array("d", last=1000), ANN)

    served(tmp_path, test, max_queued=TASKS + 500)


def test_a_job_does_not_depend_on_an_array_that_is_not_complete(tmp_path: Path) -> None:
    async def test(controller: Controller) -> None:
        large = asyncio.ensure_future(controller.requests.submit(array(), ANN))
        while not controller.scheduler.state.jobs:
            await asyncio.sleep(0)
        after = SubmitRequest(jobs=[JobSpec(command=["true"], chdir="/", after=["1"])])
        with pytest.raises(Refused, match="still being submitted"):
            await controller.requests.submit(after, ANN)
        await large
        (job,) = (await controller.requests.submit(after, ANN)).ids
        assert controller.scheduler.state.jobs[job].job.after == ("1",)

    served(tmp_path, test)


def test_a_server_that_ends_in_the_middle_completes_the_batch_when_it_is_back(tmp_path: Path) -> None:
    known = 0

    async def interrupted(controller: Controller) -> None:
        nonlocal known
        task = asyncio.ensure_future(controller.requests.submit(array(hold=True), ANN))
        while len(controller.scheduler.state.jobs) < 400:
            await asyncio.sleep(0)
        await controller.requests.close()
        assert task.done() is False or task.cancelled()
        known = len(controller.scheduler.state.jobs)

    async def resumed(controller: Controller) -> None:
        small = SubmitRequest(jobs=[JobSpec(command=["true"], chdir="/")])
        assert list((await controller.requests.submit(small, ANN)).ids) == ["2"], "its numbers are taken"
        reply = await controller.requests.submit(array(), ANN)
        assert list(reply.ids) == [f"1_{at}" for at in range(TASKS)]
        jobs = controller.scheduler.state.jobs
        assert len(jobs) == TASKS + 1
        assert all(job.held for job in jobs.values() if job.id != "2")
        assert not list(controller.paths.batches.iterdir())

    served(tmp_path, interrupted)
    assert 400 <= known < TASKS
    served(tmp_path, resumed)


@pytest.mark.parametrize("policy", ["sjf", "qssf", "muri-s", "balanced"])
def test_a_policy_is_changed_while_other_calls_are_answered(tmp_path: Path, policy: str) -> None:
    async def test(controller: Controller) -> None:
        await controller.requests.submit(array(), ANN)
        change = asyncio.ensure_future(controller.apply_settings(policy=policy))
        old, meanwhile = controller.scheduler, list[str]()
        while not change.done():
            spec = JobSpec(command=["true"], chdir="/", declared_s=100.0 - len(meanwhile))
            meanwhile += (await controller.requests.submit(SubmitRequest(jobs=[spec]), ANN)).ids
        assert len(meanwhile) >= 2, "they did not wait for the new policy"
        assert controller.scheduler is not old
        await change
        assert controller.policy == policy
        assert controller.settings.policy == policy
        expected = create_scheduler(controller.settings, policy)
        replay(expected, controller.journal)
        assert [job.id for job in controller.scheduler.in_order()] == [job.id for job in expected.in_order()]
        assert set(meanwhile) <= set(controller.scheduler.state.jobs)
        again = await controller.requests.submit(array(), ANN)
        assert len(again.ids) == TASKS, "the keys of requests are still known"
        last = await controller.requests.submit(SubmitRequest(jobs=[JobSpec(command=["true"], chdir="/")]), ANN)
        assert int(last.ids[0]) == int(meanwhile[-1]) + 1
        while vars(old):  # its memory is freed in slices
            await asyncio.sleep(0)

    served(tmp_path, test)


def test_a_policy_that_fails_changes_nothing(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "from dataclasses import dataclass\nfrom weft.scheduling.core.ports import Policy\n\n\n"
        "@dataclass(frozen=True)\n"
        "class Wrong(Policy):\n    def key(self, job, now):\n        raise ValueError('no key')\n"
    )

    async def test(controller: Controller) -> None:
        await controller.requests.submit(many(count=5), ANN)
        old = controller.scheduler
        with pytest.raises(Refused, match="no key"):
            await controller.apply_settings(policy=f"{wrong}:Wrong")
        assert controller.scheduler is old
        assert controller.settings.policy == "fifo"

    served(tmp_path, test)


def test_a_file_holds_a_whole_batch() -> None:
    env, more = (("A", "1"),), (("A", "1"), ("B", "\u00e9"))
    jobs = [Job(str(at), command=("x",), task=Task(env=env, key="k"), user="ann") for at in range(1, 4)]
    jobs[2] = Job("3", command=("x",), after=("1",), task=Task(env=more, key="k"), user="ann")
    batch = Batch(
        "ann", "k", [JobTemplate(jobs[0]), JobTemplate(jobs[1], "0-9%2", True, 10), JobTemplate(jobs[2])], [0, 2, 1]
    )
    found = decode_batch(at_once(batch.encode()))
    assert found == batch
    assert list(found.jobs()) == list(batch.jobs())
    assert found.ids() == ["1", *(f"2_{at}" for at in range(10)), "3"]
    opened = OpenBatch(found, Path("none"))
    opened.skip({"1", "3", "2_0", "2_3"})
    assert opened.left == 6
    assert [job.id for job, _ in opened.next_slice()] == [f"2_{at}" for at in range(4, 10)]


def test_few_large_jobs_are_journalled_at_a_time(tmp_path: Path) -> None:
    """Each task of an array is journalled with its whole environment."""
    large = [Variable(name=f"v{number}", value="x" * 1000) for number in range(1000)]

    async def test(controller: Controller) -> None:
        counts: list[int] = []
        controller.loop.on_facts.append(lambda events, _: counts.append(len(events)))
        await controller.requests.submit(array(last=19, env=large), ANN)
        change = ChangeRequest(verb="set", jobs=["1"], settings=[Variable(name="priority", value="2")])
        assert len((await controller.requests.change(change, ANN)).ids) == 20
        assert sum(counts) == 40
        assert max(counts) <= 4
        with pytest.raises(InputError, match="the jobs come to 965 MB in all"):
            await controller.requests.submit(array("other", last=999, env=large), ANN)
        change.settings.append(Variable(name="comment", value="x" * 30_000_000))
        with pytest.raises(InputError, match="the jobs come to 572 MB in all"):
            await controller.requests.change(change, ANN)

    served(tmp_path, test)


def test_a_text_of_a_job_is_limited(tmp_path: Path) -> None:
    async def test(controller: Controller) -> None:
        for field in ("group", "gpu_model", "comment", "output", "signal"):
            texts: dict[str, Any] = {field: "x" * 4097}
            with pytest.raises(InputError, match="more than 4,096 characters") as error:
                await controller.requests.submit(array(**texts), ANN)
            assert error.value.key == field
        await controller.requests.submit(SubmitRequest(jobs=[JobSpec(command=["true"], chdir="/", hold=True)]), ANN)
        spec = JobSpec(command=["true"], chdir="/", group="x" * 4097)
        with pytest.raises(InputError, match="more than 4,096 characters"):
            await controller.requests.change(ChangeRequest(verb="edit", jobs=["1"], spec=spec), ANN)

    served(tmp_path, test)


@pytest.mark.parametrize("rule", ["asha loss min 1e-300 2", "asha", "asha loss min 10 " + "9" * 400])
def test_a_rule_that_cannot_be_read_is_refused(tmp_path: Path, rule: str) -> None:
    """When a trial reports its progress, it would be too late."""

    async def test(controller: Controller) -> None:
        with pytest.raises(InputError) as error:
            await controller.requests.submit(array(sweep="s", early_stop=rule), ANN)
        assert error.value.key == "early_stop"

    served(tmp_path, test)


def test_a_setting_of_a_large_array_is_changed_in_slices(tmp_path: Path) -> None:
    async def test(controller: Controller) -> None:
        await controller.requests.submit(array(), ANN)
        await controller.requests.submit(SubmitRequest(jobs=[JobSpec(command=["true"], chdir="/")]), ANN)
        request = ChangeRequest(verb="set", jobs=["1"], settings=[Variable(name="after", value="2")])
        changed, answered = await answers_during(controller, controller.requests.change(request, ANN))
        assert (len(changed.ids), len(changed.refused)) == (TASKS, 0)
        assert answered >= 8

    served(tmp_path, test)


def test_a_large_dry_run_is_checked_linked_and_noted_in_slices(tmp_path: Path) -> None:
    async def test(controller: Controller) -> None:
        request = many()
        request.dry_run = True
        steps = controller.commands.prepare(request, ANN)
        assert sum(1 for _ in steps) >= 2 * TASKS, "one step for each job, and one for its dependencies"
        batch = at_once(controller.commands.prepare(request, ANN))
        assert sum(1 for _ in controller.commands.notes(request, batch, 0.0)) >= TASKS
        reply, answered = await answers_during(controller, controller.requests.submit(request, ANN))
        assert not reply.ids
        assert answered >= 4
        assert not controller.scheduler.state.jobs

    served(tmp_path, test)


def test_a_user_has_one_large_request_in_memory_at_a_time(tmp_path: Path) -> None:
    async def test(controller: Controller) -> None:
        at_once_of: dict[str, int] = {}
        most_of: dict[str, int] = {}
        prepare = controller.commands.prepare

        def counted(request: SubmitRequest, who: Caller) -> Any:
            at_once_of[who.user] = at_once_of.get(who.user, 0) + 1
            most_of[who.user] = max(most_of.get(who.user, 0), at_once_of[who.user])
            try:
                return (yield from prepare(request, who))
            finally:
                at_once_of[who.user] -= 1

        controller.commands.prepare = counted  # type: ignore[method-assign]
        request = many()
        request.dry_run = True
        callers = [ANN, ANN, ANN, Caller("bob", "user")]
        await asyncio.gather(*(controller.requests.submit(request, who) for who in callers))
        assert most_of == {"ann": 1, "bob": 1}

    served(tmp_path, test)


def test_a_refused_request_is_freed_at_once(tmp_path: Path) -> None:
    async def refuse(controller: Controller, kept: Rules) -> None:
        def make(_now: float) -> Any:
            raise InputError(f"{kept} is wrong")

        await controller.loop.call(make)

    async def test(controller: Controller) -> None:
        kept = Rules(tmp_path, 0)  # stands for a large request
        gone = weakref.ref(kept)
        with suppress(InputError):  # pytest.raises would keep the error
            await refuse(controller, kept)
        del kept
        await asyncio.sleep(0)  # this turn of asyncio still has the future with the error
        assert gone() is None, "the error does not refer to itself through the frames that it came through"

    gc.collect()
    gc.disable()
    try:
        served(tmp_path, test)
    finally:
        gc.enable()


def test_large_requests_outlive_the_scheduler_that_they_began_with(tmp_path: Path) -> None:
    async def replace_policy(controller: Controller, name: str) -> None:
        old = controller.scheduler
        await controller.apply_settings(policy=name)
        while vars(old):
            await asyncio.sleep(0)

    async def test(controller: Controller) -> None:
        batch = at_once(controller.commands.prepare(many(), ANN))
        notes = controller.commands.notes(many(), batch, 0.0)
        next(notes)
        await replace_policy(controller, "sjf")
        assert at_once(notes)[0].startswith("3,000 jobs: no node has joined"), "they ask the scheduler of the moment"
        reply = await controller.requests.submit(many(), ANN)
        chosen = controller.commands.select(ChangeRequest(verb="cancel", jobs=list(reply.ids)), ANN)
        next(chosen)
        await replace_policy(controller, "fifo")
        assert at_once(chosen) == list(reply.ids)

    served(tmp_path, test)


def test_a_batch_whose_numbers_may_be_given_out_again_is_refused(tmp_path: Path) -> None:
    async def test(controller: Controller) -> None:
        work = asyncio.ensure_future(controller.requests.submit(many(), ANN))
        await asyncio.sleep(0.02)  # it is being checked
        controller.commands = copy.copy(controller.commands)  # as a rebuild does
        with pytest.raises(Refused, match="rebuilt meanwhile"):
            await work
        assert not controller.requests.open_batches
        assert not controller.scheduler.state.jobs

    served(tmp_path, test)
