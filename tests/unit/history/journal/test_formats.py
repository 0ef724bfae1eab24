"""Journals that were written before still load, add up to the same state, and are continued.

The fixtures hold what the code of the format wrote. SQLite's is kept as SQL text: a reviewer can read and compare it,
and it does not depend on the version of the library that wrote the file.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from weft.history.journal import open_journal
from weft.history.journal.codec import FORMAT, decode_line, encode_line, seal
from weft.history.journal.jsonl import HEADER
from weft.model import (
    FACTS,
    Allocation,
    AllocationEnded,
    AllocationGranted,
    AllocationReleased,
    AllocationRequested,
    BatchLimited,
    Continued,
    Cordoned,
    Deployed,
    DrainReplica,
    Evicted,
    Exited,
    Fact,
    Gpu,
    GroupLimited,
    Health,
    Held,
    Job,
    JobReport,
    JobSnapshot,
    Move,
    Node,
    NodeEndChanged,
    NodeJoined,
    PerRank,
    Pool,
    PoolAdded,
    PoolChanged,
    PoolPaused,
    PoolRemoved,
    PoolResumed,
    PoolSnapshot,
    Profile,
    Profiled,
    Ready,
    Replica,
    ReplicaDrained,
    Reported,
    Resized,
    Revision,
    Rewoven,
    RolledBack,
    Rollout,
    RoutingRule,
    ScaleRule,
    Service,
    ServiceSnapshot,
    Share,
    StateSnapshot,
    Stop,
    Submitted,
    Suspended,
    Task,
    Team,
    TeamRemoved,
    TeamSet,
    Timeouts,
    Undeployed,
    Unready,
    Unwoven,
    UpdateRule,
    Usage,
    Use,
    Used,
    Where,
)
from weft.scheduling.core.state.state import State

FIXTURES = Path(__file__).parent / "fixtures"
JOURNALS = ("journal-v1.jsonl", "journal-v1.sql")
JOB = Job(
    "1", gpus=2, name="full", user="ada", memory_mb=PerRank(8000, 9000), cpus=4, ram_mb=1024, share=Share(0.5, 0.75),
    where=Where("V100", (("zone", "a"),), (("n0", (0, 1)),)), priority=3, opportunistic=True, retries=2,
    declared_s=3600.0, iterations=100, profile=Profile("vgg16", 0.3, 0.125, 0.1, 0.075, 12.5),
    command=("python", "train.py", "--name", "café"), params=(("model", "vgg16"),),
    task=Task(
        "/data/ada", (("LANG", "C"),), 7200.0, 20.0, (85, 99), 1, 3, "first try", "vision", True, "5f0c2b",
        key="ada-17",
    ),
)  # fmt: skip

CHAT = Service(
    "chat", Job("chat", share=Share(0.3, 0.6)), ScaleRule("lazy:window=40", 0, 8, 30.0, 48.0),
    Health("/ready", 60.0, 2.0, 5, "/predict", "{}", 3), Timeouts(1.0, 2.0, 3.0, 4.0), 2, 8, 0.25, ("tiny",),
    UpdateRule(0.5, 2, False), RoutingRule("unanswered", 50),
)  # fmt: skip
REPORT = JobReport(1, 30, 100, (("loss", 0.25), ("accuracy", None)), (0.5, 0.25))
ROLLOUT = Rollout((1, 2), 3.0, 1, "it never got ready", 1.0, "ada", rolled_back=True)

A100 = Pool(
    "a100", "slurm", 8, 16, 28800.0, "A100", 81920, 64, 512000, (("rack", "3"),), 1, 3, 600.0, 30.0, ("-p", "gpu"),
    (("folder", "/shared/a100"),),
)  # fmt: skip

ADDED: tuple[Fact, ...] = (
    PoolAdded(0.0, A100),
    NodeJoined(0.0, Node("a100-0", (Gpu(),), until=28780.0)),
    NodeEndChanged(1.0, "a100-0", 32380.0),
    PoolChanged(1.0, A100),
    AllocationRequested(1.0, "a100", "a100-0-k1", "a100-0"),
    AllocationGranted(1.0, "a100", "a100-0-k1", "17"),
    AllocationReleased(2.0, "a100", "a100-0-k1", "idle for 300 s"),
    AllocationEnded(3.0, "a100", "a100-0-k1", "CANCELLED", failed=True, detail="slurmstepd: error"),
    PoolPaused(4.0, "a100", "CrashLoop", "3 allocations in a row failed"),
    PoolResumed(5.0, "a100"),
    PoolRemoved(6.0, "a100", now=True),
    PoolSnapshot(
        7.0, A100, "Paused", "by ada", 2, 3.0, "drain",
        (Allocation("a100-1-k2", "a100-1", 1.0, "18", joined_at=2.0, release="the pool is removed"),), "FAILED",
    ),
    Deployed(0.0, CHAT),
    Deployed(0.0, CHAT, "ada", rollback=True, start=True),
    Submitted(0.0, Job("chat.0", replica=Replica("chat", 0, 2))),
    Ready(1.0, "chat.0", 1, "127.0.0.1:8000"),
    Resized(2.0, "chat", 3, "deficit", (("rate", 90.0),)),
    RolledBack(3.0, CHAT, "it never got ready"),
    Move(3.0, "chat.0", 1, (("n1", (0,)),)),
    DrainReplica(4.0, "chat.0", 1, "moved"),
    ReplicaDrained(5.0, "chat.0", 1),
    Unready(5.0, "chat.1", 1, "3 probes failed"),
    Undeployed(6.0, "chat"),
    ServiceSnapshot(7.0, CHAT, 3, undeployed=True, next_index=4, moved_at=(1.0, 3.0), rollout=ROLLOUT,
        revisions=(Revision(CHAT, ROLLOUT),)),
    JobSnapshot(
        7.0, Job("chat.0", replica=Replica("chat", 0)), "running", 1, 0.0, 0.0, 1, ready_at=1.0, draining_since=4.0,
        drained=True, leaving=True, address="127.0.0.1:8000",
    ),
    Submitted(0.0, Job("2", begin_at=60.0, after_any=("1",), after_failed=("0",), task=Task(signal="USR2@120"))),
    Submitted(0.0, Job("4", task=Task(compat="slurm", stages="auto", cpu_limit=2, array_first=1, array_last=9))),
    Submitted(0.0, Job("6", task=Task(image="train:1", mounts=("/data:/data:ro",), runtime="podman"))),
    Submitted(0.0, Job("5", task=Task(stdin="5f0c2b", terminal="vt100", output="out-%j.log", error="err-%j.log"))),
    JobSnapshot(7.0, Job("5"), "waiting", 1, 0.0, 0.0, 1, predicted_s=90.0, worked_s=30.0, service_s=31.0),
    Suspended(5.0, "2", 1),
    Continued(6.0, "2", 1),
    JobSnapshot(7.0, Job("2"), "running", 1, 0.0, 0.0, 1, suspended=True),
    JobSnapshot(7.0, Job("2"), "running", 1, 0.0, 0.0, 1, weave=("2", "3"), woven_at=6.5),
    JobSnapshot(9.0, Job("2"), "running", 1, 0.0, 0.0, 1, usage=Usage(1.0, 2.0, 3.0, 4.0, 5.0, 1.5, 6.0, 7.0)),
    StateSnapshot(9.0, ("2",), (), (), 1, 0, 1, gpus=((0.0, 4), (5.0, 2))),
    GroupLimited(0.0, "vision", 4, paused=True),
    TeamSet(0.0, Team("vision/detection", 8, 24, 2.0, ("ann", "bob"))),
    TeamRemoved(1.0, "vision/detection"),
    Submitted(0.0, Job("8", task=Task(team="vision"))),
    Stop(1.0, "8", 1, "reclaimed"),
    JobSnapshot(2.0, Job("8"), "waiting", 1, 0.0, 0.0, 1, reclaimed_at=1.0, reports_left=True),
    BatchLimited(0.0, "7", 2),
    JobSnapshot(0.0, Job("3"), "blocked", 1, 0.0, 0.0, 1, over_group_limit=True),
    Exited(1.0, "2", 1, "failed", why="start-failed", detail="there is no folder /data", late_s=0.5),
    JobSnapshot(2.0, Job("2"), "failed", 1, 0.0, 0.0, 1, why="start-failed", detail="there is no folder /data"),
    Evicted(1.0, "1", 1),
    Exited(2.0, "1", 1, "failed", code=3, rank=1, node="n2"),
    JobSnapshot(2.0, Job("3"), "failed", 1, 0.0, 0.0, 1, failed_rank=1, failed_node="n2"),
    Submitted(3.0, Job("6", profile=Profile("bert", 0.3, 0.1, 0.1, 0.1, memory_mb=9000), profile_key="bert")),
    Profiled(4.0, "bert", 2, "V100", Profile("bert", 0.3, 0.1, 0.1, 0.1, memory_mb=9000), "run", "ann"),
    Rewoven(5.0, "6", 1, ("6", "7")),
    Unwoven(6.0, "6", 1, "hangs"),
    JobSnapshot(7.0, Job("6"), "running", 1, 0.0, 0.0, 1, woven_at=5.0, unwoven="hangs"),
    Submitted(0.0, Job("8", task=Task(sweep="lr-1", early_stop="asha loss min 10 3"))),
    Reported(1.0, "8", REPORT),
    Held(2.0, "8", "StoppedEarly"),
    JobSnapshot(3.0, Job("8"), "held", 1, 0.0, 0.0, 1, held=True, held_why="StoppedEarly", reported=REPORT),
    Submitted(8.0, Job("7", deadline_at=99.0, task=Task(notify="done@team", requeue=True, min_run_s=5.0))),
    GroupLimited(8.0, "vision", notify="failed"),
    Exited(9.0, "7", 1, "done", cpu_s=3.5, rss_mb=90),
    Used(9.0, "7", 1, Use(10.0, 5.0, 900, 10.0, 2500.0, 1.5, 80)),
    JobSnapshot(9.0, Job("7"), "done", 1, 0.0, 0.0, 1, use=Use(cpu_s=3.5)),
)  # fmt: skip
"""Facts and fields that the present format gained since its fixtures were recorded: each has its default in them. Add
yours here, with a value that is not the default."""


@pytest.fixture(params=JOURNALS)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a whole journal, of each format and store."""
    return copied(request.param, tmp_path)


def copied(name: str, folder: Path) -> Path:
    if name.endswith(".sql"):
        path = (folder / name).with_suffix(".db")
        with sqlite3.connect(path) as db:
            db.executescript((FIXTURES / name).read_text())
        db.close()
        return path
    return Path(shutil.copy(FIXTURES / name, folder / name))


def facts_of(path: Path) -> list[Fact]:
    with open_journal(path, readonly=True) as journal:
        return list(journal.read())


def state_of(path: Path) -> State:
    state = State()
    assert [fact for fact in facts_of(path) if not state.apply(fact)] == [], "every fact counts"
    return state


def fields_set(values: Iterable[Any]) -> Iterator[str]:
    """`Class.field` of all that differs from its default, nested values included."""
    for value in values:
        for field in fields(value):
            found = getattr(value, field.name)
            if found != field.default:
                yield f"{type(value).__name__}.{field.name}"
            inner = found if isinstance(found, tuple) else (found,)
            yield from fields_set(each for each in inner if is_dataclass(each))


def test_the_fixtures_set_every_field_of_every_fact() -> None:
    facts = [*facts_of(FIXTURES / "journal-v1.jsonl"), *facts_of(FIXTURES / "snapshot-v1.jsonl")]
    assert {type(fact) for fact in (*facts, *ADDED)} == set(FACTS)
    nested = {Node, Gpu, Job, Profile, Share, Where, Task, *(type(value) for fact in facts for value in inside(fact))}
    declared = {f"{cls.__name__}.{field.name}" for cls in (*FACTS, *nested) for field in fields(cls)}
    assert declared - set(fields_set([*facts, *ADDED])) == set()


@pytest.mark.parametrize("fact", ADDED, ids=lambda fact: type(fact).__name__)
def test_what_was_added_since_is_written_and_read(fact: Fact) -> None:
    assert decode_line(encode_line(fact)) == fact


def test_the_present_format_has_fixtures_of_its_exact_bytes() -> None:
    for name in (f"journal-v{FORMAT}.jsonl", f"snapshot-v{FORMAT}.jsonl"):
        lines = (FIXTURES / name).read_text().splitlines()
        assert lines[1:] == [seal(fact, position) for position, fact in enumerate(facts_of(FIXTURES / name), start=1)]
        assert lines[0] == HEADER.decode().strip()


def inside(fact: Fact) -> list[Any]:
    return [value for field in fields(fact) if is_dataclass(value := getattr(fact, field.name))]


def test_a_journal_adds_up_to_the_same_state(journal: Path) -> None:
    state = state_of(journal)
    assert {job.id: (job.status, job.run, job.slots) for job in state.jobs.values()} == {
        "1": ("running", 2, (("n0", (1, 0)),)),
        "2_0": ("failed", 1, ()),
        "3": ("blocked", 0, ()),
        "4": ("held", 0, ()),
        "5": ("waiting", 0, ()),
        "6": ("blocked", 1, ()),
        "7": ("stopping", 1, (("n0", (0, 1)),)),
        "8": ("cancelled", 0, ()),
    }
    first, held, delayed = state.jobs["1"], state.jobs["4"], state.jobs["6"]
    assert first.job == JOB
    assert (first.remaining_s, first.preemptions, first.key, first.code, first.why, first.measured_mb) == (
        3000.125, 1, 2.0, 143, "lease", 12000,
    )  # fmt: skip
    assert (held.job.name, held.job.priority) == ("edited", 7)
    assert (delayed.requeues, delayed.delays, delayed.begin_at) == (1, 1, 180.0)
    assert state.jobs["5"].reserved == (("n1", (0, 1)),)
    assert state.paused == {"DiskFloor": "less than 16 MB are left"}
    assert (state.planned_at, state.pending, state.highest_id) == (101.0, (("5", "6"), ("4",)), 8)
    assert [(key, found.memory_mb, found.detail) for key, found in state.occupants.items()] == [
        (("n1", 1, "ForeignProcess"), 2048, "pid 77 of eve")
    ]
    assert [(key, found.detail) for key, found in state.closed.items()] == [(("n1", "Drained"), "by root: fans")]
    assert [room.node.id for room in state.resources.nodes if room.alive] == ["n0", "n1"]


def test_a_snapshot_adds_up_to_the_same_state() -> None:
    state = state_of(FIXTURES / "snapshot-v1.jsonl")
    assert {job.id: (job.status, job.run, job.slots) for job in state.jobs.values()} == {
        "9": ("stopping", 3, (("n1", (0,)),)),
        "10": ("blocked", 0, ()),
        "11": ("running", 1, (("n1", (1,)),)),
        "12": ("done", 1, ()),
        "13": ("waiting", 0, ()),
        "16": ("waiting", 0, ()),
    }
    stopping, running = state.jobs["9"], state.jobs["11"]
    assert (stopping.share, stopping.preemptions, stopping.failures, stopping.moves, stopping.requeues) == (
        Share(0.25, 0.5), 2, 1, 4, 3,
    )  # fmt: skip
    assert (stopping.stop_why, stopping.code, stopping.why) == ("moved", 137, "oom")
    assert running.remaining(136.0) == 40.0 - 0.5 * 34.0
    assert (list(state.active), list(state.ended)) == (["9", "11"], ["12"])
    assert state.paused == {"Paused": "", "DiskFloor": "full"}
    assert (state.pending, state.highest_id) == ((("13",), ("10", "9")), 16)


def test_a_journal_is_continued_in_the_present_format(journal: Path) -> None:
    before = facts_of(journal)
    late = (Submitted(200.0, Job("99", where=Where(choice=(("n1", (0,)),)))), Cordoned(200.0, "n0", "Drained"))
    with open_journal(journal) as writer:
        length = len(writer)
        writer.append(*late)
        assert list(writer.read(length)) == list(late)
    assert facts_of(journal) == [*before, *late]
    assert state_of(journal).jobs["99"].status == "waiting"
    assert format_of(journal) == FORMAT


def format_of(path: Path) -> int:
    if path.suffix == ".jsonl":
        return int(json.loads(path.read_text().partition("\n")[0])["format"])
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()[0])
