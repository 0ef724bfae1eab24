"""Conversion of a start message to a launch spec, with this node's GPUs, environment and gang."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Final

from weft.access.endpoints.blob_folder import is_blob_name
from weft.access.jobspec.environment import belongs_to_machine, capture
from weft.access.wire.convert import get, pairs
from weft.access.wire.messages import GangMember, StartRun, Weave
from weft.errors import InputError
from weft.model import Health
from weft.node.engine import interfaces, rendezvous
from weft.node.engine.environment import LOOPBACK
from weft.node.engine.gpu.discovery import Machine
from weft.node.engine.launch_spec import GRACE_S, PREEMPT_GRACE_S, LaunchSpec
from weft.node.engine.rendezvous import Gang, rendezvous_port
from weft.node.engine.users.accounts import Account
from weft.node.engine.weave_spec import ORDERS, WeaveSpec

DERIVED: Final = frozenset({"run", "env", "chdir", "gpus", "grace_s", "gang", "stdin", "weave", "health"})
"""Fields of a launch spec that the node derives from the message."""
SHARED_NAMES: Final = frozenset({
    "PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "CUDA_HOME", "CUDA_PATH", "CUDNN_PATH", "SSL_CERT_FILE",
    "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY",
    "HTTPS_PROXY", "NO_PROXY", "MODULEPATH",
})  # fmt: skip
"""Variables of a worker that runs of other users get."""
COPIED: Final = tuple(
    field.name for field in fields(LaunchSpec) if field.name in set(StartRun.DESCRIPTOR.fields_by_name) - DERIVED
)
"""Fields of a launch spec that are copied from the message."""


def to_launch_spec(
    launch: StartRun,
    machine: Machine,
    *,
    env: Mapping[str, str],
    tree: str,
    socket: str,
    lease: str,
    blobs: str = "",
    account: Account | None = None,
) -> LaunchSpec:
    """Return the launch spec of a run. `env` is the worker's environment, `tree` the source tree of the job, if any.

    `blobs` is the folder that holds the standard input of the run. The run uses `account`; None: the worker's.
    """
    if any(gpu >= len(machine.devices) for gpu in launch.gpus):
        raise InputError(f"no GPU {max(launch.gpus)} on {machine.node.id}, which has {len(machine.devices)} GPUs")
    if launch.stdin and not is_blob_name(launch.stdin):
        raise InputError(f"{launch.stdin[:80]!r} is not the name of a blob", hint="64 digits, 0-9 and a-f", key="stdin")
    grace_s = get(launch, "grace_s")
    gang = gang_of_launch(launch, launch.gang)
    node_env = env if account is None else {**shared_variables(env), **account.variables()}
    merged = merge_environment(dict(pairs(launch.env)), {} if launch.image else node_env)
    if gang is not None:
        merged |= interfaces.gang_variables(gang, merged)
    return LaunchSpec(
        run=launch.run,
        argv=tuple(launch.command),
        env=tuple(merged.items()),
        chdir=working_directory(launch.chdir, tree),
        gpus=machine.indices(launch.gpus),
        gpu_uuids=machine.uuids(launch.gpus),
        restarts=launch.run - 1,
        grace_s=GRACE_S if grace_s is None else grace_s,
        preempt_grace_s=PREEMPT_GRACE_S if grace_s is None else grace_s,
        stdin=os.path.join(blobs, launch.stdin) if launch.stdin else "",
        socket=socket,
        lease=lease,
        gang=gang,
        weave=weave_spec(launch.weave),
        health=health_of(launch),
        account=account,
        host=host_of(launch),
        **{name: get(launch, name) for name in COPIED},
    )


def gang_of_launch(launch: StartRun, members: Sequence[GangMember]) -> Gang | None:
    """Return the gang of a run, or None if the run uses this node alone."""
    if len(members) < 2:
        return None
    if launch.rank >= len(members):
        raise InputError(f"rank {launch.rank} is out of range for a gang of {len(members)} nodes")
    port = rendezvous_port(launch.job, launch.run, members[0].port)
    return Gang(tuple(rendezvous.GangMember(each.node, each.address, each.gpus) for each in members), launch.rank, port)


def health_of(launch: StartRun) -> Health | None:
    """Return the probes of a replica, or None if the run is no replica."""
    if not launch.HasField("health"):
        return None
    found = launch.health
    for path in filter(None, (found.path or "-", found.warmup_path)):
        if not path.startswith("/") or not path.isprintable() or not path.isascii() or " " in path:
            raise InputError(f"invalid path of probes {path[:80]!r}", hint="such as /health")
    return Health(
        found.path, found.start_within_s, max(found.every_s, 0.1), max(found.fails, 1), found.warmup_path,
        found.warmup_body, max(found.warmup_requests, 1),
    )  # fmt: skip


def host_of(launch: StartRun) -> str:
    """Return the address at which a replica listens: that of its node; empty if the run is no replica."""
    if not launch.HasField("health"):
        return ""
    return launch.gang[launch.rank].address if launch.rank < len(launch.gang) else LOOPBACK


def weave_spec(weave: Weave) -> WeaveSpec | None:
    """Return the weave of a run, or None if the run is not woven. Raise InputError for one that no scheduler sends."""
    if not weave.size:
        return None
    order = next((each for each in ORDERS if each == weave.order), None)
    if order is None:
        raise InputError(f"unknown order {weave.order[:40]!r} of a weave", hint=f"use {', '.join(ORDERS)}")
    spec = WeaveSpec(weave.id, weave.place, weave.size, order, weave.limit_s)
    spec.check()
    return spec


def merge_environment(submitted: Mapping[str, str], node_env: Mapping[str, str]) -> dict[str, str]:
    """Return the submitter's variables, plus the worker's variables that describe a machine and are missing there."""
    missing = {name: value for name, value in pairs(capture(node_env)) if belongs_to_machine(name)}
    return {**missing, **submitted}


def shared_variables(node_env: Mapping[str, str]) -> dict[str, str]:
    """Return the worker's variables that are right for all users: not those that name the worker's own folders."""
    return {name: value for name, value in node_env.items() if name in SHARED_NAMES}


def working_directory(chdir: str, tree: str) -> str:
    """Return the working directory, inside the source tree if there is one."""
    if not tree:
        return chdir
    inside = os.path.normpath(os.path.join("/", chdir)).lstrip("/")
    return os.path.join(tree, inside) if inside else tree
