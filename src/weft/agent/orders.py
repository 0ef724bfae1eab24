"""From what the scheduler orders to what the process engine is given: this node's GPUs, its environment, the gang."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Final

from weft.engines.process import rendezvous
from weft.engines.process.gpu.discovery import Machine
from weft.engines.process.launch_spec import GRACE_S, PREEMPT_GRACE_S, LaunchSpec
from weft.engines.process.rendezvous import Gang, rendezvous_port
from weft.errors import InputError
from weft.jobspec.environment import belongs_to_machine, captured
from weft.wire.convert import get, pairs
from weft.wire.messages import GangMember, StartRun

DERIVED: Final = frozenset({"run", "env", "chdir", "gpus", "grace_s", "gang"})
"""Fields of a launch that the node makes of what it is sent."""
SAME: Final = tuple(
    field.name for field in fields(LaunchSpec) if field.name in set(StartRun.DESCRIPTOR.fields_by_name) - DERIVED
)
"""Fields of a launch that are what the message has under the same name."""


def run_order(
    order: StartRun, machine: Machine, *, env: Mapping[str, str], tree: str, socket: str, lease: str
) -> LaunchSpec:
    """`env`: the worker's own; `tree`: where the snapshot is, if it has one."""
    if any(gpu >= len(machine.devices) for gpu in order.gpus):
        raise InputError(f"it is given GPU {max(order.gpus)} of {machine.node.id}, which has {len(machine.devices)}")
    grace_s = get(order, "grace_s")
    return LaunchSpec(
        run=order.run,
        argv=tuple(order.command),
        env=tuple(filled(dict(pairs(order.env)), env).items()),
        chdir=directory(order.chdir, tree),
        gpus=machine.indices(order.gpus),
        gpu_uuids=machine.uuids(order.gpus),
        restarts=order.run - 1,
        grace_s=GRACE_S if grace_s is None else grace_s,
        preempt_grace_s=PREEMPT_GRACE_S if grace_s is None else grace_s,
        socket=socket,
        lease=lease,
        gang=gang_of(order, order.gang),
        **{name: get(order, name) for name in SAME},
    )


def gang_of(order: StartRun, members: Sequence[GangMember]) -> Gang | None:
    """None: this node alone."""
    if len(members) < 2:
        return None
    if order.rank >= len(members):
        raise InputError(f"rank {order.rank} of a gang of {len(members)} nodes")
    port = rendezvous_port(order.job, order.run, members[0].port)
    return Gang(tuple(rendezvous.GangMember(each.node, each.address, each.gpus) for each in members), order.rank, port)


def filled(given: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The submitter's variables, and of what belongs to a machine the worker's."""
    missing = {name: value for name, value in pairs(captured(own)) if belongs_to_machine(name)}
    return {**missing, **given}


def directory(chdir: str, tree: str) -> str:
    """Where it works: within its snapshot if it has one."""
    if not tree:
        return chdir
    inside = os.path.normpath(os.path.join("/", chdir)).lstrip("/")
    return os.path.join(tree, inside) if inside else tree
