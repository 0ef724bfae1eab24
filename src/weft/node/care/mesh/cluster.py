"""A check of the nodes of a cluster and of the network between them, with a short job without GPUs on each node."""

from __future__ import annotations

import json
import random
import secrets
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from weft.access.client import Client
from weft.access.jobspec.fields import spec_of
from weft.access.wire.messages import SubmitRequest
from weft.errors import InputError, UnknownName, WeftError
from weft.node.care.checks import check_clock
from weft.node.care.mesh.link import Member
from weft.node.care.mesh.probe import MARK, VARIABLE
from weft.node.engine.rendezvous import DEFAULT_PORTS, PORTS_PER_NODE
from weft.views.answers.base import Answer, View, view_of
from weft.views.answers.nodes import NodeView
from weft.views.answers.steps import FAILED, OK, SKIPPED, WARNING, StepView

ALL: Final = "all"
MAX_NODES: Final = 64
"""Nodes in one check: it measures the link of every pair, in both directions."""
TIMEOUT_S: Final = 60.0
START_TIMEOUT_S: Final = 60.0
"""The time beyond the timeout of the check that its jobs have to start and end."""
POLL_S: Final = 0.2
PORTS_TRIED: Final = 3
SLOW_LINK: Final = 0.25
"""A link with less than this part of the median bandwidth is reported."""
JOB_NAME: Final = "node-check"
COMMAND: Final = ["/bin/sh", "-c", 'exec "$WEFT_PYTHON" -m weft.node.care.mesh.probe']


class LinkView(View):
    """A link from one node to another. Without figures: it does not work, and `problem` says why."""

    OPTIONAL: ClassVar[Mapping[str, str]] = {
        "mb_per_s": "mb_per_s", "latency_ms": "mb_per_s", "clock_s": "mb_per_s", "uncertainty_s": "mb_per_s"
    }  # fmt: skip

    source: str = ""
    target: str = ""
    problem: str = ""
    mb_per_s: float | None = None
    latency_ms: float | None = None
    clock_s: float | None = None
    """The lead of the clock of the target."""
    uncertainty_s: float | None = None


class NodeStepsView(View):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"steps": StepView}

    node: str = ""
    steps: Sequence[StepView] = ()


class ClusterCheckView(Answer):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"nodes": NodeStepsView, "links": LinkView}

    nodes: Sequence[NodeStepsView] = ()
    links: Sequence[LinkView] = ()


def check_cluster(client: Client, names: str, timeout_s: float = TIMEOUT_S) -> ClusterCheckView:
    """Check these nodes, `all` or a list with commas, and the links between them."""
    nodes = _choose(client.nodes().nodes, names)
    unusable = {node.node: reason for node in nodes if (reason := _unusable_reason(node))}
    members = _members([node for node in nodes if node.node not in unusable])
    results = _run_jobs(client, members, timeout_s) if members else {}
    links = [
        view_of(LinkView, {"source": node, **link})
        for node, found in results.items()
        for link in found.get("links", ())
    ]
    rows = []
    for node in nodes:
        if (reason := unusable.get(node.node)) is not None:
            rows.append(NodeStepsView(node.node, [reason]))
            continue
        found = results[node.node]
        steps = [view_of(StepView, step) for step in found.get("steps", ())]
        rows.append(NodeStepsView(node.node, [*steps, *judge_links(node.node, found, links)]))
    return ClusterCheckView(nodes=rows, links=links)


# ---- choice of nodes


def _choose(nodes: Sequence[NodeView], names: str) -> list[NodeView]:
    if not nodes or all(node.state is None for node in nodes):
        raise InputError(
            "--nodes needs the scheduler of a cluster", hint="without it, weft node check checks this machine"
        )
    by_name = {node.node: node for node in nodes}
    wanted = list(by_name) if names == ALL else [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in by_name:
            raise UnknownName("node", name, list(by_name))
    if len(wanted) > MAX_NODES:
        raise InputError(
            f"{len(wanted)} nodes are too many for one check", hint=f"name up to {MAX_NODES}: --nodes n1,n2"
        )
    return [by_name[name] for name in dict.fromkeys(wanted)]


def _unusable_reason(node: NodeView) -> StepView | None:
    """Return why no job can start on a node; None: one can."""
    if node.state != "connected":
        return StepView("network", FAILED, f"the node is {node.state}", "see worker.log on the node")
    if node.closed:
        advice = "weft undrain the node, or run weft node check there"
        return StepView("network", SKIPPED, f"no job starts on the node: {', '.join(node.closed)}", advice)
    return None


def _members(nodes: Sequence[NodeView]) -> list[Member]:
    """Return the nodes with ports for their listeners, from the range that gangs use. Nodes may share a machine."""
    taken: set[int] = set()
    members = []
    for node in nodes:
        first = node.port or 0
        ports = range(first, min(first + PORTS_PER_NODE, 65536)) if first else DEFAULT_PORTS
        free = [port for port in ports if port not in taken]
        chosen = random.sample(free, min(PORTS_TRIED, len(free)))
        taken.update(chosen)
        members.append(Member(node.node, node.address or "localhost", chosen))
    return members


# ---- jobs


def _run_jobs(client: Client, members: Sequence[Member], timeout_s: float) -> dict[str, dict[str, Any]]:
    """Run a job on each node, and return what each found. `problem` is in the result of a job that found nothing."""
    plan = {"key": secrets.token_hex(32), "timeout_s": timeout_s, "members": members}
    specs = []
    for member in members:
        text = json.dumps({**plan, "node": member.node})
        limit = f"{int(timeout_s + START_TIMEOUT_S)}s"
        specs.append(
            spec_of({
                "command": COMMAND, "name": JOB_NAME, "gpus": "0", "cpus": "0", "node": member.node, "time": limit,
                "env": {VARIABLE: text},
            })
        )  # fmt: skip
    ids = client.submit(SubmitRequest(jobs=specs, chdir="/"))
    try:
        _await_end(client, ids, timeout_s + START_TIMEOUT_S)
    except BaseException:
        client.change("cancel", ids)
        raise
    results = {member.node: _read_result(client, job) for member, job in zip(members, ids, strict=True)}
    if not any("problem" in found for found in results.values()):
        client.change("forget", ids)  # they have done their work: keep the history free of them
    return results


def _await_end(client: Client, ids: Sequence[str], timeout_s: float) -> None:
    """Return when all jobs have ended. Cancel those that have not when the time is over."""
    until = time.monotonic() + timeout_s
    while not all(job.ended for job in client.jobs(ids).jobs):
        if time.monotonic() > until:
            client.change("cancel", ids)
            client.wait_for(ids)
            return
        time.sleep(POLL_S)


def _read_result(client: Client, job: str) -> dict[str, Any]:
    try:
        lines = b"".join(client.logs(job)).decode(errors="replace").splitlines()
    except WeftError as error:
        return {"problem": f"no output of job {job}: {str(error).partition(chr(10))[0]}"}
    for line in reversed(lines):
        if line.startswith(MARK):
            found: dict[str, Any] = json.loads(line.removeprefix(MARK))
            return found
    last = lines[-1][:200] if lines else client.job(job).status
    return {"problem": f"job {job} found nothing: {last}"}


# ---- verdict


def judge_links(node: str, found: Mapping[str, Any], links: Sequence[LinkView]) -> list[StepView]:
    """Return the steps `network` and `clock` of a node. Links are judged against all others of the check."""
    if problem := found.get("problem") or found.get("listening"):
        return [StepView("network", FAILED, problem, f"weft show, weft logs: the job is called {JOB_NAME}")]
    own = [link for link in links if link.source == node]
    if not own:
        return [StepView("network", SKIPPED, "no other node to measure")]
    return [_judge_network(own, links), _judge_clock(own)]


def _judge_network(own: Sequence[LinkView], links: Sequence[LinkView]) -> StepView:
    broken = [link for link in own if link.problem]
    if broken:
        words = "; ".join(f"does not reach {link.target}: {link.problem}" for link in broken[:3])
        more = f" and {len(broken) - 3} more" if len(broken) > 3 else ""
        advice = "open the ports for gangs (weft worker --addr) between the nodes"
        return StepView("network", FAILED, f"{words}{more}", advice)
    usual = statistics.median(link.mb_per_s or 0.0 for link in links if not link.problem)
    slowest = min(own, key=lambda link: link.mb_per_s or 0.0)
    latency_ms = max(link.latency_ms or 0.0 for link in own)
    detail = f"reaches {len(own)} of {len(own)} nodes, {slowest.mb_per_s:,.0f} MB/s or more, within {latency_ms:.2g} ms"
    if (slowest.mb_per_s or 0.0) >= SLOW_LINK * usual:
        return StepView("network", OK, detail)
    slow = f"{slowest.mb_per_s:,.0f} MB/s to {slowest.target}, where {usual:,.0f} are usual"
    return StepView("network", WARNING, slow, "check cables, switch ports and other traffic of both nodes")


def _judge_clock(own: Sequence[LinkView]) -> StepView:
    measured = [link for link in own if not link.problem]
    if not measured:
        return StepView("clock", SKIPPED, "no other node to compare with")
    ahead_s = -statistics.median(link.clock_s or 0.0 for link in measured)
    return check_clock(ahead_s, max(link.uncertainty_s or 0.0 for link in measured), "the other nodes'")
