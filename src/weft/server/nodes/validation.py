"""Whether what an agent says makes sense at all: a message that does not ends its stream."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from weft.engines.process.launch_spec import is_valid_job_id
from weft.wire.messages import AgentMessage, GpuBlock, GpuNews, GpuReading, Heartbeat, Hello, NodeSpec, RunEnd, RunNews

MOST_GPUS: Final = 1024
MOST_RUNS: Final = 20_000
MOST_LABELS: Final = 100
MOST_MB: Final = 1 << 40
MOST_CPUS: Final = 1 << 20
MOST_RUN: Final = 1 << 31
MOST_S: Final = 1e12
LONGEST_NAME: Final = 200
LONGEST_WHY: Final = 500
LONGEST_DETAIL: Final = 10_000
_NODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def problem(message: AgentMessage) -> str:
    """What is wrong, and what to do about it; empty: nothing."""
    match message.WhichOneof("is"):
        case "hello":
            return _hello(message.hello)
        case "heartbeat":
            return _heartbeat(message.heartbeat)
        case "news":
            return _run(message.news)
        case "gpus":
            return _gpus(message.gpus)
        case None:
            return "a message of a kind that is not known here: bring agent and scheduler to the same version"
    return ""


def _hello(hello: Hello) -> str:
    for what, text in (("instance", hello.instance), ("disk_id", hello.disk_id)):
        if not text or len(text) > LONGEST_NAME:
            return f"{what} has {len(text)} characters: give from 1 to {LONGEST_NAME}"
    if max(len(hello.version), len(hello.cluster)) > LONGEST_NAME:
        return f"version or cluster has more than {LONGEST_NAME} characters"
    if not abs(hello.at) < MOST_S:
        return f"its clock says {hello.at}"
    return _node(hello.node) or _runs(hello.runs) or _blocks(hello.blocks, len(hello.node.gpus))


def _node(spec: NodeSpec) -> str:
    if not _NODE.fullmatch(spec.id):
        return (
            f"the node is called {spec.id[:80]!r}: give it a name of up to 63 letters, digits and . _ -, "
            "beginning with a letter or digit (--id NAME)"
        )
    if len(spec.gpus) > MOST_GPUS:
        return f"{len(spec.gpus)} GPUs on one node: at most {MOST_GPUS} are taken"
    for at, gpu in enumerate(spec.gpus):
        if gpu.memory_mb > MOST_MB or max(len(gpu.model), len(gpu.uuid)) > LONGEST_NAME:
            return f"GPU {at} has {gpu.memory_mb} MB, or a model or uuid of more than {LONGEST_NAME} characters"
    if len({gpu.index for gpu in spec.gpus}) < len(spec.gpus):
        return "two of its GPUs have the same index: name each once (--gpus)"
    if spec.cpus > MOST_CPUS or spec.ram_mb > MOST_MB:
        return f"{spec.cpus} CPUs and {spec.ram_mb} MB of RAM make no sense"
    if spec.port > 65535:
        return f"port {spec.port}: give one from 0 to 65535 (--addr HOST:PORT)"
    if max(len(spec.address), len(spec.switch)) > LONGEST_NAME:
        return f"address or switch has more than {LONGEST_NAME} characters"
    if len(spec.labels) > MOST_LABELS:
        return f"{len(spec.labels)} labels: at most {MOST_LABELS} are taken"
    if any(not label.name or max(len(label.name), len(label.value)) > LONGEST_NAME for label in spec.labels):
        return f"a label needs a name, and neither it nor its value may be longer than {LONGEST_NAME} characters"
    return ""


def _heartbeat(heartbeat: Heartbeat) -> str:
    if not abs(heartbeat.at) < MOST_S:
        return f"its clock says {heartbeat.at}"
    if not 0 <= heartbeat.load < MOST_S or heartbeat.ram_used_mb > MOST_MB:
        return f"a load of {heartbeat.load} and {heartbeat.ram_used_mb} MB of RAM in use make no sense"
    return _runs(heartbeat.runs) or _blocks(heartbeat.blocks, MOST_GPUS) or _readings(heartbeat.readings)


def _readings(readings: Iterable[GpuReading]) -> str:
    for reading in readings:
        # a fraction, or percent where the driver counts so
        if reading.gpu >= MOST_GPUS or reading.used_mb > MOST_MB or not 0 <= reading.utilisation <= 100:
            return f"GPU {reading.gpu} is said to have {reading.used_mb} MB and {reading.utilisation} of it in use"
    return ""


def _runs(runs: Iterable[RunNews]) -> str:
    for count, run in enumerate(runs, 1):
        if count > MOST_RUNS:
            return f"more than {MOST_RUNS:,} runs on one node"
        if wrong := _run(run):
            return wrong
    return ""


def _run(run: RunNews) -> str:
    if not is_valid_job_id(run.job) or not 0 < run.run < MOST_RUN:
        return f"run {run.run} of job {run.job[:80]!r}: no scheduler gives such numbers"
    return _end(run.end) if run.HasField("end") else ""


def _end(end: RunEnd) -> str:
    if len(end.why) > LONGEST_WHY or len(end.detail) > LONGEST_DETAIL:
        return f"why a run ended is said in more than {LONGEST_WHY} characters, or explained in {LONGEST_DETAIL:,}"
    if not all(0 <= seconds < MOST_S for seconds in (end.started_at, end.ran_s, end.cpu_s)) or end.max_rss_mb > MOST_MB:
        return f"a run that ran for {end.ran_s} s from {end.started_at} on with {end.cpu_s} s of CPU makes no sense"
    if end.HasField("signal") and not 0 < end.signal < 128:
        return f"a run was ended by signal {end.signal}"
    return ""


def _gpus(said: GpuNews) -> str:
    for need in said.measured:
        if not is_valid_job_id(need.job) or not 0 < need.run < MOST_RUN or need.memory_mb > MOST_MB:
            return f"run {need.run} of job {need.job[:80]!r} is said to need {need.memory_mb} MB"
    return _blocks(said.blocks, MOST_GPUS)


def _blocks(blocks: Iterable[GpuBlock], gpus: int) -> str:
    for count, block in enumerate(blocks, 1):
        if count > 10 * MOST_GPUS or block.gpu >= gpus:
            return f"GPU {block.gpu} is said to be blocked, and the node has {gpus}"
        if not block.why or len(block.why) > LONGEST_WHY or len(block.detail) > LONGEST_DETAIL:
            return f"why GPU {block.gpu} is blocked is not said, or in too many words"
        if block.memory_mb > MOST_MB:
            return f"{block.memory_mb} MB of GPU {block.gpu} are said to be taken"
    return ""
