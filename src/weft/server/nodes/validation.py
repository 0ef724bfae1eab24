"""Validation of messages from agents. An invalid message ends its stream."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from weft.access.wire.messages import (
    AgentMessage,
    GpuBlock,
    GpuNews,
    GpuReading,
    GpuShare,
    Heartbeat,
    Hello,
    NodeSpec,
    NodeStatus,
    RunEnd,
    RunNews,
)
from weft.node.engine.launch_spec import is_valid_job_id

MAX_GPUS: Final = 1024
MAX_RUNS: Final = 20_000
MAX_LABELS: Final = 100
MAX_MB: Final = 1 << 40
MAX_CPUS: Final = 1 << 20
MAX_RUN_NUMBER: Final = 1 << 31
MAX_SECONDS: Final = 1e12
MAX_STAGES: Final = 8
MAX_SHARES: Final = 8192
MAX_SHARE_TEXTS: Final = 10
MAX_GRANTS: Final = 1 << 53
MAX_NAME_CHARS: Final = 200
MAX_REASON_CHARS: Final = 500
MAX_DETAIL_CHARS: Final = 10_000
_NODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def find_problem(message: AgentMessage) -> str:
    """Return what is wrong with a message and what to do; empty if it is valid."""
    match message.WhichOneof("is"):
        case "hello":
            return _check_hello(message.hello)
        case "heartbeat":
            return _check_heartbeat(message.heartbeat)
        case "news":
            return _check_run(message.news)
        case "goodbye":
            return _check_why(message.goodbye.why)
        case "gpus":
            return _check_gpus(message.gpus)
        case "record" if not is_valid_job_id(message.record.job):
            return f"the record of a run of job {message.record.job[:80]!r}: no scheduler assigns such ids"
        case None:
            return "unknown kind of message: bring agent and scheduler to the same version"
    return ""


def _check_hello(hello: Hello) -> str:
    for what, text in (("instance", hello.instance), ("disk_id", hello.disk_id)):
        if not text or len(text) > MAX_NAME_CHARS:
            return f"{what} has {len(text)} characters: give from 1 to {MAX_NAME_CHARS}"
    if max(len(hello.version), len(hello.cluster)) > MAX_NAME_CHARS:
        return f"version or cluster has more than {MAX_NAME_CHARS} characters"
    if not abs(hello.at) < MAX_SECONDS:
        return f"the clock of the node is at {hello.at}: set it"
    return (
        _check_why(hello.leaving)
        or _check_node(hello.node)
        or _check_runs(hello.runs)
        or _check_blocks(hello.blocks, len(hello.node.gpus))
    )


def _check_why(why: str) -> str:
    """Check why an agent leaves."""
    if len(why) > MAX_REASON_CHARS:
        return f"the reason to leave has {len(why)} characters: give at most {MAX_REASON_CHARS}"
    return ""


def _check_node(spec: NodeSpec) -> str:
    if not _NODE.fullmatch(spec.id):
        return (
            f"invalid node name {spec.id[:80]!r}: use up to 63 letters, digits and . _ -, "
            "beginning with a letter or digit (--id NAME)"
        )
    if len(spec.gpus) > MAX_GPUS:
        return f"{len(spec.gpus)} GPUs on one node: at most {MAX_GPUS} are supported"
    for at, gpu in enumerate(spec.gpus):
        if gpu.memory_mb > MAX_MB or max(len(gpu.model), len(gpu.uuid)) > MAX_NAME_CHARS:
            return f"GPU {at} has {gpu.memory_mb} MB, or a model or uuid of more than {MAX_NAME_CHARS} characters"
    if len({gpu.index for gpu in spec.gpus}) < len(spec.gpus):
        return "two GPUs have the same index: name each once (--gpus)"
    if spec.cpus > MAX_CPUS or spec.ram_mb > MAX_MB:
        return f"{spec.cpus} CPUs or {spec.ram_mb} MB of RAM is out of range"
    if spec.port > 65535:
        return f"port {spec.port}: give one from 0 to 65535 (--addr HOST:PORT)"
    if max(len(spec.address), len(spec.switch)) > MAX_NAME_CHARS:
        return f"address or switch has more than {MAX_NAME_CHARS} characters"
    if spec.HasField("ends_in_s") and not abs(spec.ends_in_s) < MAX_SECONDS:
        return f"the node leaves in {spec.ends_in_s} s: give a number of seconds (--ends-at)"
    if len(spec.labels) > MAX_LABELS:
        return f"{len(spec.labels)} labels: at most {MAX_LABELS} are supported"
    if any(not label.name or max(len(label.name), len(label.value)) > MAX_NAME_CHARS for label in spec.labels):
        return f"a label needs a name, and neither it nor its value may be longer than {MAX_NAME_CHARS} characters"
    return ""


def _check_heartbeat(heartbeat: Heartbeat) -> str:
    if not abs(heartbeat.at) < MAX_SECONDS:
        return f"the clock of the node is at {heartbeat.at}: set it"
    return _check_runs(heartbeat.runs) or _check_blocks(heartbeat.blocks, MAX_GPUS) or _check_status(heartbeat.status)


def _check_status(status: NodeStatus) -> str:
    """Check every figure of the status, those of later versions included."""
    for field, value in status.ListFields():
        if isinstance(value, int | float) and not 0 <= value <= MAX_MB:
            return f"{field.name} {value} is out of range"
    return _check_readings(status.readings) or _check_shares(status.shares)


def _check_readings(readings: Iterable[GpuReading]) -> str:
    for reading in readings:
        # a fraction, or percent, as the driver reports it
        if len(reading.error) > MAX_REASON_CHARS:
            return f"GPU {reading.gpu}: its error has more than {MAX_REASON_CHARS} characters"
        if reading.gpu >= MAX_GPUS or reading.used_mb > MAX_MB or not 0 <= reading.utilisation <= 100:
            return (
                f"GPU {reading.gpu}: {reading.used_mb} MB in use or utilisation {reading.utilisation} is out of range"
            )
    return ""


def _check_shares(shares: Iterable[GpuShare]) -> str:
    for count, share in enumerate(shares, 1):
        if count > MAX_SHARES:
            return f"more than {MAX_SHARES:,} shares of GPUs on one node"
        if not is_valid_job_id(share.job):
            return f"a share of job {share.job[:80]!r}: no scheduler assigns such ids"
        texts = (share.kind, *share.enforced, *share.advisory)
        if len(texts) > MAX_SHARE_TEXTS or any(len(text) > MAX_REASON_CHARS for text in texts):
            return (
                f"the share of job {share.job} has more than {MAX_SHARE_TEXTS} texts, "
                f"or one with more than {MAX_REASON_CHARS} characters"
            )
    return ""


def _check_runs(runs: Iterable[RunNews]) -> str:
    for count, run in enumerate(runs, 1):
        if count > MAX_RUNS:
            return f"more than {MAX_RUNS:,} runs on one node"
        if wrong := _check_run(run):
            return wrong
    return ""


def _check_run(run: RunNews) -> str:
    if not is_valid_job_id(run.job) or not 0 < run.run < MAX_RUN_NUMBER:
        return f"run {run.run} of job {run.job[:80]!r}: no scheduler assigns such ids"
    return _check_weave(run) or (_check_end(run.end) if run.HasField("end") else "")


def _check_weave(run: RunNews) -> str:
    if len(run.weave_id) > MAX_NAME_CHARS or len(run.stages) > MAX_STAGES:
        return f"the weave of job {run.job} has more than {MAX_NAME_CHARS} characters or {MAX_STAGES} stages"
    for stage in run.stages:
        if not stage.stage or len(stage.stage) > MAX_NAME_CHARS:
            return f"a stage of job {run.job} needs a name of at most {MAX_NAME_CHARS} characters"
        if not all(0 <= seconds < MAX_SECONDS for seconds in (stage.served_s, stage.waited_s)):
            return f"stage {stage.stage!r} of job {run.job}: {stage.served_s} s served, {stage.waited_s} s waited"
        if stage.grants > MAX_GRANTS:
            return f"stage {stage.stage!r} of job {run.job}: {stage.grants} grants is out of range"
    return ""


def _check_end(end: RunEnd) -> str:
    if len(end.why) > MAX_REASON_CHARS or len(end.detail) > MAX_DETAIL_CHARS:
        return (
            f"the reason for the end of a run exceeds {MAX_REASON_CHARS} characters, or its detail {MAX_DETAIL_CHARS:,}"
        )
    if (
        not all(0 <= seconds < MAX_SECONDS for seconds in (end.started_at, end.ran_s, end.cpu_s))
        or end.max_rss_mb > MAX_MB
    ):
        return f"a run of {end.ran_s} s from {end.started_at} on with {end.cpu_s} s of CPU is out of range"
    if end.HasField("signal") and not 0 < end.signal < 128:
        return f"a run cannot end by signal {end.signal}"
    return ""


def _check_gpus(news: GpuNews) -> str:
    for need in news.measured:
        if not is_valid_job_id(need.job) or not 0 < need.run < MAX_RUN_NUMBER or need.memory_mb > MAX_MB:
            return f"run {need.run} of job {need.job[:80]!r}: {need.memory_mb} MB of GPU memory is out of range"
    return _check_blocks(news.blocks, MAX_GPUS)


def _check_blocks(blocks: Iterable[GpuBlock], gpus: int) -> str:
    for count, block in enumerate(blocks, 1):
        if count > 10 * MAX_GPUS or block.gpu >= gpus:
            return f"GPU {block.gpu} is reported as blocked, but the node has {gpus} GPUs"
        if not block.why or len(block.why) > MAX_REASON_CHARS or len(block.detail) > MAX_DETAIL_CHARS:
            return f"GPU {block.gpu}: block reason is missing or longer than {MAX_REASON_CHARS} characters"
        if block.memory_mb > MAX_MB:
            return f"GPU {block.gpu}: {block.memory_mb} MB blocked is out of range"
    return ""
