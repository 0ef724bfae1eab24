"""Every field of a job survives submit, edit, start and show; flags, files, Python and messages agree on the fields."""

from __future__ import annotations

import argparse
from dataclasses import fields, replace
from typing import Any

import pytest

from support.builders import Rig
from weft.access.auth.identity import Caller
from weft.access.jobspec.description import describe
from weft.access.jobspec.fields import ALIASES, BY_KEY, CARRIED, FIELDS, READABLE, SETTABLE, Field, Keys, spec_of
from weft.access.jobspec.python import as_text
from weft.access.jobspec.readers import Given
from weft.access.jobspec.taskfile import KEYS
from weft.access.wire.messages import ChangeRequest, JobSpec, NodeSpec, StartRun, SubmitRequest, Variable
from weft.cli.submit import task_flags
from weft.model import Edited, Gpu, Held, Job, Node, Submitted, Task, Team, TeamSet
from weft.model.node import CONTAINERS
from weft.node.agent.launch import to_launch_spec
from weft.node.engine.environment import gang_or_alone, run_environment
from weft.node.engine.gpu.discovery import DeclaredGpus, discover
from weft.node.engine.gpu.nvml import NoDriver
from weft.node.engine.launch_spec import LaunchSpec
from weft.node.engine.shim_arguments import shim_arguments
from weft.server.backends.local import launch_spec
from weft.server.jobs.admission import ClusterRules
from weft.server.jobs.commands import JobCommands
from weft.server.nodes.registered_node import RegisteredNode
from weft.server.nodes.run_messages import start_run
from weft.views.from_state.gpu_numbers import GpuNumbers

ANN = Caller("ann", "user")
NODES = [
    Node(name, (Gpu("A100", 1000), Gpu("A100", 1000)), cpus=8, labels=(CONTAINERS,)) for name in ("n1", "n2")
]  # fmt: skip
MACHINE = discover("n1", NoDriver("none"), DeclaredGpus((0, 1)))
NEEDS: dict[str, dict[str, Given]] = {"gpu_ids": {"node": "n1"}, "gpu_choice": {"node": "n1"}}
NEEDS |= {"mount": {"image": "x"}, "runtime": {"image": "x"}, "group": {"compat": "batch"}}
"""The other keys that a field needs."""
PER_RUN = {
    "epoch", "job", "run", "user", "gpus", "gang", "rank", "array_index", "array_size", "array_first",
    "array_last", "checkpoint", "cpu_limit",
    "weave", "gpu_share", "gpu_request", "health", "record",
}  # fmt: skip
"""Parts of a launch message that describe the run, or the job's place in an array, not the job."""
IDS = [field.key for field in FIELDS]


class Server:
    """The commands of a scheduler with two nodes, and jobs `first` and `second` to depend on."""

    def __init__(self) -> None:
        self.rig = Rig("fifo", NODES)
        numbers = GpuNumbers()
        for node in NODES:
            numbers.set_numbers(node.id, [0, 1])
        self.numbers = numbers
        self.commands = JobCommands(self.rig.scheduler, ClusterRules(self.rig.state, numbers))
        self.rig.tell(TeamSet(self.rig.now, Team("one")), TeamSet(self.rig.now, Team("two")))
        for name in ("first", "second"):
            self.submit(JobSpec(name=name, command=["true"], hold=True))

    def submit(self, spec: JobSpec) -> list[Job]:
        events, _ = self.commands.submit(SubmitRequest(jobs=[spec], chdir="/"), self.rig.now, ANN)
        self.rig.tell(*events)
        self.held = any(isinstance(event, Held) for event in events)
        return [event.job for event in events if isinstance(event, Submitted)]

    def made(self, field: Field, example: int) -> list[Job]:
        """Submit a job with an example of a field."""
        return self.submit(spec_with(field, example))

    def set(self, job: Job, key: str, value: str) -> Job:
        settings = [Variable(name=key, value=value)]
        events, reply = self.commands.change(
            ChangeRequest(verb="set", jobs=[job.id], settings=settings), self.rig.now, ANN
        )
        assert list(reply.ids) == [job.id], reply.refused
        (edited,) = events
        assert isinstance(edited, Edited)
        return edited.job


def spec_with(field: Field, example: int) -> JobSpec:
    keys: dict[str, Given] = {"command": ["true"], "priority": "1", **NEEDS.get(field.key, {})}
    if field.read is not None:
        keys[field.key] = field.examples[example]
    spec = spec_of(keys)
    if field.read is None:
        setattr(spec, field.message, field.examples[example])
    if field.key != "hold":
        spec.hold = True  # a job that runs cannot be edited
    return spec


def launched(job: Job) -> tuple[StartRun, LaunchSpec, LaunchSpec]:
    """Return what a node is sent for a job that starts on its first GPU, what it makes of it, and what one machine
    without a cluster makes of the job."""
    rig = Rig("fifo", NODES)
    rig.tell(
        Submitted(rig.now, replace(job, after=(), begin_at=None, where=Job("").where, share=Job("").share, gpus=1))
    )
    member = RegisteredNode(NODES[0], 0.0, spec=NodeSpec(id="n1", address="n1"))
    message = start_run(rig.job(job.id), member, {"n1": member, "n2": replace(member, node=NODES[1])})
    assert message is not None
    start = message.start
    start.ClearField("record")  # holds every field
    here = launch_spec(rig.job(job.id), 1, MACHINE, (0,), start.memory_mb, "")
    return start, to_launch_spec(start, MACHINE, env={}, tree=f"/{start.snapshot[:4]}", socket="", lease=""), here


def started(spec: LaunchSpec) -> dict[str, Any]:
    """Return what the shim of a run gets: its arguments and environment, without the fields that nothing uses."""
    gang = gang_or_alone(spec, "n1")
    return shim_arguments(spec, run_environment(spec, "n1", "/jobs", token="", now=0.0), gang, "/jobs", "/run")


def same(job: Job, other: Job) -> bool:
    return replace(job, id="") == replace(other, id="")


@pytest.mark.parametrize("field", FIELDS, ids=IDS)
def test_a_field_survives_submit(field: Field) -> None:
    one, other = Server(), Server()
    jobs, others = one.made(field, 0), other.made(field, 1)
    if field.model:
        assert not same(jobs[0], others[0]), f"a job does not keep its {field.key}"
        if field.key not in ("labels", "node"):
            assert field.of(jobs[0]) != field.of(others[0])
    else:
        assert (len(jobs), one.held) != (len(others), other.held)


@pytest.mark.parametrize("field", FIELDS, ids=IDS)
def test_a_field_survives_an_edit_of_another(field: Field) -> None:
    server = Server()
    if field.key == "hold":
        return
    (job, *_) = server.made(field, 0)
    assert job.task is not None
    if field.key == "comment":
        assert server.set(job, "group", "x") == replace(job, task=replace(job.task, group="x"))
    else:
        assert server.set(job, "comment", "x") == replace(job, task=replace(job.task, comment="x"))


@pytest.mark.parametrize("key", SETTABLE)
def test_a_field_that_can_be_set_becomes_what_submitting_it_gives(key: str) -> None:
    server, field = Server(), BY_KEY[key]
    (job,), (wanted,) = server.made(field, 0), server.made(field, 1)
    assert same(server.set(job, key, field.examples[1]), wanted)


@pytest.mark.parametrize("field", FIELDS, ids=IDS)
def test_a_field_reaches_the_run_if_it_says_so(field: Field) -> None:
    one, other = launched(Server().made(field, 0)[0]), launched(Server().made(field, 1)[0])
    if field.launch:
        assert getattr(one[0], field.launch) != getattr(other[0], field.launch), f"StartRun.{field.launch}"
        assert started(one[1]) != started(other[1]), f"LaunchSpec has no {field.key}, or the run does not use it"
        is_the_same_here = started(one[2]) == started(other[2])
        assert not is_the_same_here or field.key == "snapshot", f"on one machine, a run does not have {field.key}"
    elif field.key != "array":
        assert one == other


@pytest.mark.parametrize("field", FIELDS, ids=IDS)
def test_a_field_is_shown_if_it_says_so(field: Field) -> None:
    shown = []
    for example in (0, 1):
        server = Server()
        job = server.made(field, example)[-1]
        if field.key == "name":
            job = replace(job, command=())
        shown.append(describe(job, server.numbers.number).get(field.key))
    assert (shown[0] != shown[1]) == field.shown


@pytest.mark.parametrize("field", [field for field in FIELDS if field.read is not None], ids=lambda field: field.key)
def test_what_is_shown_can_be_submitted_again(field: Field) -> None:
    server = Server()
    job = server.made(field, 0)[0]
    again = spec_of(as_text(describe(job, server.numbers.number)))
    again.hold = True
    (made,) = server.submit(again)
    task = made.task
    assert task is not None
    place = {name: getattr(task, name) for name in ("array_size", "array_first", "array_last")}
    wanted = replace(job, batch=made.batch, task=replace(job.task or task, **place, env=()))
    assert replace(made, id="") == replace(wanted, id="")


def test_the_table_has_every_field_of_the_messages() -> None:
    assert {field.message for field in FIELDS} == set(JobSpec.DESCRIPTOR.fields_by_name)
    assert {field.launch for field in CARRIED} == set(StartRun.DESCRIPTOR.fields_by_name) - PER_RUN


def test_the_table_has_every_field_of_the_model() -> None:
    paths = {field.model for field in FIELDS}
    task = {f"task.{each.name}" for each in fields(Task)}
    assert task - paths == {
        f"task.{name}" for name in ("array_index", "array_size", "array_first", "array_last", "key", "cpu_limit")
    }
    where = {f"where.{each.name}" for each in fields(Job("").where)}
    assert where <= paths
    own = {"id", "user", "where", "opportunistic", "iterations", "batch", "batch_limit", "task", "replica"}
    conditions = {"after_any", "after_failed"}  # with `after`, the field of that key
    assert {each.name for each in fields(Job)} - paths == own | conditions


def test_every_key_is_one_of_files_and_python() -> None:
    assert set(READABLE) | set(ALIASES) <= set(KEYS)
    assert set(Keys.__annotations__) - set(ALIASES) == set(READABLE) - {"command"}


def test_every_flag_of_submit_is_in_the_table() -> None:
    parser = argparse.ArgumentParser()
    task_flags.add_arguments(parser)
    others = {key for key, _ in task_flags.EXTRA_FLAGS.values()}
    flags: dict[str, Any] = vars(parser.parse_args([]))
    assert set(flags) - others == {field.key for field in FIELDS if field.flag is not None}


@pytest.mark.parametrize("field", [field for field in FIELDS if field.flag is not None], ids=lambda field: field.key)
def test_a_flag_says_what_the_key_says(field: Field) -> None:
    parser = argparse.ArgumentParser()
    task_flags.add_arguments(parser)
    assert field.flag is not None
    for name in field.flag.names:
        words = [name, field.examples[0]] if field.flag.metavar else [name]
        said = task_flags.given_flags(parser.parse_args(words))
        assert spec_of(said) == spec_of({field.key: field.examples[0]}), name


@pytest.mark.parametrize(("alias", "key"), ALIASES.items())
def test_an_old_name_of_a_key_means_the_same(alias: str, key: str) -> None:
    value = BY_KEY[key].examples[0]
    assert spec_of({alias: value}) == spec_of({alias.replace("_", "-"): value}) == spec_of({key: value})
