"""Requests of users become events: once for each request, however often it is sent."""

from __future__ import annotations

import os
from typing import Any

import pytest

from support.builders import Rig
from weft.access.auth.identity import Caller
from weft.access.wire.messages import ChangeRequest, JobSpec, SubmitRequest, Variable
from weft.errors import InputError, NotPermitted
from weft.model import Event, Gpu, Node, Purged, Submitted
from weft.server.jobs.admission import ClusterRules, SingleNodeRules
from weft.server.jobs.builder import MAX_JOB_BYTES
from weft.server.jobs.commands import JobCommands
from weft.views.from_state.gpu_numbers import GpuNumbers

ANN, BOB, ROOT = Caller("ann", "user"), Caller("bob", "user"), Caller("root", "admin")
NODE = Node("here", (Gpu(), Gpu()), cpus=4)


def a_commands() -> tuple[Rig, JobCommands]:
    rig = Rig("fifo", [NODE])
    numbers = GpuNumbers()
    numbers.set_numbers(NODE.id, [0, 1])
    return rig, JobCommands(rig.scheduler, SingleNodeRules(NODE, numbers, rig.scheduler.placement))


def request(key: str) -> SubmitRequest:
    path = Variable(name="PATH", value=os.environ["PATH"])
    return SubmitRequest(jobs=[JobSpec(command=["true"])], env=[path], key=key)


def submit(rig: Rig, commands: JobCommands, key: str, who: Caller = ANN) -> tuple[list[Event], list[str]]:
    events, reply = commands.submit(request(key), rig.now, who)
    rig.tell(*events)
    return events, list(reply.ids)


def test_a_request_that_is_sent_twice_is_taken_once() -> None:
    rig, commands = a_commands()
    first, ids = submit(rig, commands, "k")
    assert (len(first), ids) == (1, ["1"])
    assert submit(rig, commands, "k") == ([], ["1"])


def test_a_key_that_another_job_has_is_refused_by_name() -> None:
    rig, commands = a_commands()
    submit(rig, commands, "k")
    other = request("k")
    other.jobs[0].command[:] = ["false"]
    with pytest.raises(InputError, match="job 1 was submitted with the key 'k', and it is not this job"):
        commands.submit(other, 0.0, ANN)
    changed(rig, commands, ANN, "cancel", "1")
    assert submit(rig, commands, "k")[1] == ["1"], "the same job, also once it has ended"


@pytest.mark.parametrize("name", ["7", "007", "@", "@~1", "3-7", "7_3"])
def test_a_name_that_reads_as_a_reference_is_refused(name: str) -> None:
    rig, commands = a_commands()
    asked = request("")
    asked.jobs[0].name = name
    with pytest.raises(InputError, match="cannot be a name: commands would read it as a reference") as refused:
        commands.submit(asked, 0.0, ANN)
    assert refused.value.key == "name"
    held = request("")
    held.jobs[0].hold = True
    rig.tell(*commands.submit(held, 0.0, ANN)[0])
    with pytest.raises(InputError, match="cannot be a name"):
        commands.change(
            ChangeRequest(verb="set", jobs=["1"], settings=[Variable(name="name", value=name)]), rig.now, ANN
        )


@pytest.mark.parametrize("name", ["7a", "run-7", "3-7-x", "v1_2", "@home"])
def test_a_name_with_digits_is_a_name(name: str) -> None:
    rig, commands = a_commands()
    asked = request("")
    asked.jobs[0].name = name
    rig.tell(*commands.submit(asked, 0.0, ANN)[0])
    assert rig.job("1").job.name == name


def test_a_task_of_a_workspace_may_be_a_number() -> None:
    rig, commands = a_commands()
    asked = request("")
    asked.jobs[0].name, asked.jobs[0].group = "7", "workspace:/data/A/scheduler_config.yml"
    rig.tell(*commands.submit(asked, 0.0, ANN)[0])
    assert changed(rig, commands, ANN, "cancel", "A/7") == ["1"]


def test_requests_are_remembered_as_long_as_their_jobs() -> None:
    rig, commands = a_commands()
    for key in ("old", "new"):
        submit(rig, commands, key)
    rig.exit("1")
    commands.prune()
    assert submit(rig, commands, "old") == ([], ["1"])
    rig.tell(Purged(rig.now, ("1",)))
    commands.prune()
    assert submit(rig, commands, "old")[1] == ["3"]
    assert submit(rig, commands, "new") == ([], ["2"])


@pytest.mark.parametrize("field", ["command", "env", "params"])
def test_what_no_program_can_be_started_with_is_refused(field: str) -> None:
    _, commands = a_commands()
    large = "\u00e9" * (MAX_JOB_BYTES // 2)  # two bytes each
    values = [large] if field == "command" else [Variable(name="large", value=large)]
    spec = JobSpec(command=["true"])
    getattr(spec, field).extend(values)
    asked = request("")
    asked.jobs[0].CopyFrom(spec)
    with pytest.raises(InputError, match="come to 6 MB"):
        commands.submit(asked, 0.0, ANN)


def test_the_environment_of_the_request_counts_for_each_of_its_jobs() -> None:
    _, commands = a_commands()
    asked = request("")
    asked.env.extend(Variable(name=f"large{at}", value="x" * 100_000) for at in range(MAX_JOB_BYTES // 100_000))
    asked.jobs[0].command.append("y" * 100_000)
    with pytest.raises(InputError, match="come to 6 MB"):
        commands.submit(asked, 0.0, ANN)


# ---- whose jobs


def changed(
    rig: Rig, commands: JobCommands, who: Caller, verb: str, *jobs: str, statuses: tuple[str, ...] = ()
) -> list[str]:
    events, reply = commands.change(ChangeRequest(verb=verb, jobs=jobs, statuses=statuses), rig.now, who)
    rig.tell(*events)
    return list(reply.ids)


def test_a_job_is_that_of_the_caller_and_the_same_key_of_another_is_another() -> None:
    rig, commands = a_commands()
    assert submit(rig, commands, "k", ANN)[1] == ["1"]
    assert submit(rig, commands, "k", BOB)[1] == ["2"]
    assert [rig.scheduler.state.jobs[job].job.user for job in ("1", "2")] == ["ann", "bob"]


@pytest.mark.parametrize("verb", ["cancel", "hold", "release", "set", "edit", "restart", "restart-in-place", "forget"])
def test_nobody_changes_the_jobs_of_others(verb: str) -> None:
    rig, commands = a_commands()
    submit(rig, commands, "", ANN)
    submit(rig, commands, "", BOB)
    for named in (["1"], ["1", "2"], ["1-2"]):
        with pytest.raises(NotPermitted, match="job 1 belongs to ann, and you are bob"):
            commands.change(ChangeRequest(verb=verb, jobs=named), rig.now, BOB)


def test_an_admin_changes_any() -> None:
    rig, commands = a_commands()
    submit(rig, commands, "", ANN)
    assert changed(rig, commands, ROOT, "hold", "1") == ["1"]
    assert rig.scheduler.state.jobs["1"].job.user == "ann"


def test_all_means_all_of_ones_own() -> None:
    rig, commands = a_commands()
    for who in (ANN, BOB, ANN):
        submit(rig, commands, "", who)
    statuses = ("waiting", "starting", "running")
    assert changed(rig, commands, BOB, "cancel", statuses=statuses) == ["2"]
    assert changed(rig, commands, ROOT, "cancel", statuses=statuses) == ["1", "3"]


def test_the_last_job_and_a_name_are_ones_own_first() -> None:
    rig, commands = a_commands()
    for who in (BOB, ANN):
        submit(rig, commands, "", who)
    assert changed(rig, commands, BOB, "hold", "@") == ["1"]
    assert changed(rig, commands, ANN, "hold", "true") == ["2"]


def test_what_is_set_anew_stays_its_owners() -> None:
    rig, commands = a_commands()
    held = request("")
    held.jobs[0].hold = True
    rig.tell(*commands.submit(held, rig.now, ANN)[0])
    setting = ChangeRequest(verb="set", jobs=["1"], settings=[Variable(name="priority", value="3")])
    events, _ = commands.change(setting, rig.now, ROOT)
    rig.tell(*events)
    job = rig.scheduler.state.jobs["1"].job
    assert (job.user, job.priority) == ("ann", 3)


def cluster_commands(*nodes: Node) -> JobCommands:
    rig = Rig("balanced", nodes, placement="balanced")
    return JobCommands(rig.scheduler, ClusterRules(rig.state, GpuNumbers()))


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"gpus": 9}, "no node could hold the job now: it needs 9 GPUs; the cluster has 4"),
        ({"gpus": 1, "memory_mb": [90_000]}, "needs a GPU with 90000 MB; the largest GPU has 40000 MB"),
        ({"gpus": 1, "gpu_model": "H100"}, "it needs 1 GPU of model H100; the cluster has 0"),
        ({"gpus": 1, "node": "n7"}, "no node has node=n7"),
        ({"gpus": 0, "cpus": 64}, "it needs 64 CPUs; the largest node has 8"),
    ],
)
def test_a_job_that_no_node_could_hold_is_queued_with_a_note(fields: dict[str, Any], note: str) -> None:
    node = Node("n0", (Gpu("A100", 40_000),) * 4, cpus=8, labels=(("node", "n0"),))
    for dry_run in (True, False):
        asked = SubmitRequest(jobs=[JobSpec(command=["true"], **fields)], dry_run=dry_run)
        events, reply = cluster_commands(node).submit(asked, 0.0, ANN)
        assert len(events) == (not dry_run)
        assert note in reply.notes[0]
        assert reply.notes[0].endswith("; it waits for a node that can hold it")


def test_notes_are_given_once_and_jobs_that_fit_have_none() -> None:
    commands = cluster_commands(Node("n0", (Gpu(),) * 4))
    jobs = [
        JobSpec(command=["true"], gpus=9),
        JobSpec(command=["true"], gpus=9, array="0-2"),
        JobSpec(command=["true"]),
    ]
    (note,) = commands.submit(SubmitRequest(jobs=jobs), 0.0, ANN)[1].notes
    assert note.startswith("4 jobs: no node could hold the job now: it needs 9 GPUs; the cluster has 4; ")


def test_where_no_gpu_is_known_a_job_asks_for_none_and_says_so() -> None:
    (event,), reply = cluster_commands(Node("n0", (), cpus=4)).submit(request(""), 0.0, ANN)
    assert isinstance(event, Submitted)
    assert event.job.gpus == 0
    assert list(reply.notes) == ["no GPU is known here, so the job asks for none; --gpus N asks for N"]
    asked = SubmitRequest(jobs=[JobSpec(command=["true"], gpu_model="A100")])
    (event,), reply = cluster_commands(Node("n0", (), cpus=4)).submit(asked, 0.0, ANN)
    assert isinstance(event, Submitted)
    assert event.job.gpus == 1, "a job that names a model wants a GPU"
    (event,), reply = cluster_commands().submit(request(""), 0.0, ANN)
    assert isinstance(event, Submitted)
    assert event.job.gpus == 1, "nodes with GPUs may join"
    assert list(reply.notes) == ["no node has joined yet; it waits for a node that can hold it"]
