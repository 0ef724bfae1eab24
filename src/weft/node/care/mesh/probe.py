"""The job of a check on one node: `python -m weft.node.care.mesh.probe`. It prints what it found as one line of JSON.

The variable `VARIABLE` holds the members of the check and its key, as `weft.node.care.mesh.cluster` makes them."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from weft.node.care import checks
from weft.node.care.mesh.link import LinkError, Listener, Measurement, Member, measure
from weft.views.answers.base import plain

VARIABLE: Final = "WEFT_MESH_CHECK"
MARK: Final = "weft-mesh-check "
"""The line of output that holds the result begins with this."""
RETRY_S: Final = 0.2
NO_TIME: Final = "the time was over before its turn: give --timeout S"


def main() -> int:
    plan = json.loads(os.environ[VARIABLE])
    members = [Member(*each) for each in plan["members"]]
    found = run(members, plan["node"], bytes.fromhex(plan["key"]), float(plan["timeout_s"]))
    sys.stdout.write(f"{MARK}{json.dumps(found)}\n")
    sys.stdout.flush()
    return 0


def run(members: Sequence[Member], node: str, key: bytes, timeout_s: float) -> dict[str, Any]:
    """Check this machine, listen for the other members, and measure the links to them."""
    until = time.monotonic() + timeout_s
    at = next(place for place, member in enumerate(members) if member.node == node)
    steps = [plain(step) for step in checks.check() if step.name != "clock"]
    # each node begins with the one after it, so that in each round every node sends to one and receives from one
    peers = [*members[at + 1 :], *members[:at]]
    try:
        listener = Listener(members[at], key)
    except OSError as error:
        problem = f"cannot listen at {members[at].address}: {error.strerror or error}"
        return {"node": node, "steps": steps, "listening": problem, "links": []}
    try:
        links = _measure_all(peers, key, node, until)
        listener.wait_for({peer.node for peer in peers}, until - time.monotonic())
    finally:
        listener.close()
    return {"node": node, "steps": steps, "listening": "", "links": links}


def _measure_all(peers: Sequence[Member], key: bytes, node: str, until: float) -> list[dict[str, Any]]:
    """Measure every link, the ones that do not work again until the time is over."""
    waiting, found, problems = deque(peers), dict[str, Measurement](), dict[str, str]()
    failures = 0
    while waiting and time.monotonic() < until:
        peer = waiting.popleft()
        try:
            found[peer.node] = measure(peer, key, node)
            failures = 0
        except LinkError as error:
            problems[peer.node] = str(error)
            waiting.append(peer)
            failures += 1
        if failures >= max(len(waiting), 1):
            failures = 0
            time.sleep(RETRY_S)
    return [_describe(peer.node, found.get(peer.node), problems.get(peer.node, NO_TIME)) for peer in peers]


def _describe(node: str, measured: Measurement | None, problem: str) -> dict[str, Any]:
    if measured is None:
        return {"target": node, "problem": problem}
    return {
        "target": node, "problem": "", "mb_per_s": round(measured.mb_per_s, 1),
        "latency_ms": round(measured.latency_s * 1e3, 3), "clock_s": round(measured.clock_s, 6),
        "uncertainty_s": round(measured.uncertainty_s, 6),
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
