"""Operations on pools: add, change, pause, resume, remove and try them."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from weft.errors import InputError, Refused, UnknownName
from weft.inputs.quantities import parse_duration, parse_megabytes, parse_time_limit, parse_whole
from weft.model import (
    AllocationReleased,
    AllocationRequested,
    Cordoned,
    Event,
    PoolAdded,
    PoolChanged,
    PoolPaused,
    PoolRemoved,
    PoolResumed,
    Seconds,
)
from weft.model.pool import Pool
from weft.model.status import Reason
from weft.scheduling.core.state.pools import PoolState
from weft.server.controller import Controller
from weft.server.pools.keeper import PoolKeeper, new_key
from weft.server.pools.providers import SETTINGS, TITLES

MAX_NODES: Final = 10_000
MAX_GPUS: Final = 1024
MIN_TIME_S: Final = 60.0
MIN_USABLE_S: Final = 20.0
_NAME: Final = re.compile(r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?")
_LABEL: Final = re.compile(r"[^=,\s]{1,100}=[^,\s]{0,100}")


def _whole(low: int, high: int) -> Callable[[str], int]:
    return lambda text: parse_whole(text, low, high)


def _seconds(text: str) -> float:
    return 0.0 if text in ("0", "0s") else parse_duration(text)


def _labels(text: str) -> tuple[tuple[str, str], ...]:
    words = [word for word in text.split(",") if word]
    for word in words:
        if not _LABEL.fullmatch(word):
            raise InputError(f"{word[:80]!r} is not NAME=VALUE", hint="for example rack=3,room=east")
    return tuple((word.partition("=")[0], word.partition("=")[2]) for word in words)


def _options(text: str) -> tuple[str, ...]:
    """Parse a list of words: as JSON, or as a shell would split them."""
    try:
        words = json.loads(text) if text.startswith("[") else shlex.split(text)
    except ValueError as error:
        raise InputError(f"{text[:80]!r} is not a list of words: {error}") from None
    return tuple(map(str, words))


FIELDS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "gpus-per-node": ("gpus", _whole(0, MAX_GPUS)), "max-nodes": ("max_nodes", _whole(1, MAX_NODES)),
    "min-nodes": ("min_nodes", _whole(0, MAX_NODES)), "time": ("time_s", parse_time_limit), "model": ("model", str),
    "memory": ("memory_mb", parse_megabytes), "cpus": ("cpus", _whole(0, 1 << 20)), "mem": ("ram_mb", parse_megabytes),
    "labels": ("labels", _labels), "backlog": ("backlog", _whole(1, MAX_NODES)), "idle": ("idle_s", _seconds),
    "leave-grace": ("leave_grace_s", _seconds), "options": ("options", _options),
}  # fmt: skip
"""The keys of a pool: its field and the reader of its value."""
NEEDED: Final = ("gpus-per-node", "max-nodes", "time")


def pool_of(name: str, provider: str, options: Mapping[str, str]) -> Pool:
    """Return a new pool. Raise InputError for a key that is missing or wrong."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"invalid pool name {name[:80]!r}",
            hint="up to 30 lower-case letters, digits and -, beginning with a letter: nodes are called NAME-0, NAME-1",
        )
    if provider not in TITLES:
        raise UnknownName("provider", provider, TITLES)
    for key in NEEDED:
        if key not in options:
            raise InputError(f"--{key} is missing", hint="the site's queue depends on it" if key == "time" else "")
    return _with(Pool(name, provider, 0, 1, MIN_TIME_S), options)


def _with(pool: Pool, options: Mapping[str, str]) -> Pool:
    """Return the pool with these keys changed."""
    values: dict[str, Any] = {}
    settings = dict(pool.settings)
    for key, text in options.items():
        if key in FIELDS:
            field, read = FIELDS[key]
            try:
                values[field] = read(text)
            except InputError as error:
                raise InputError(f"{key}: {error.what}", hint=error.hint) from None
        elif key in SETTINGS[pool.provider]:
            settings[key] = text
        else:
            raise UnknownName("key", key, [*FIELDS, *SETTINGS[pool.provider]])
    made = replace(pool, **values, settings=tuple((key, text) for key, text in settings.items() if text))
    if made.min_nodes > made.max_nodes:
        raise InputError(f"min-nodes is {made.min_nodes}, more than max-nodes, {made.max_nodes}")
    if made.time_s < MIN_TIME_S or made.usable_s < MIN_USABLE_S:
        raise InputError(
            f"time: {made.time_s:.0f} s is too short", hint="at least a minute, and longer than leave-grace"
        )
    for key in NEEDED_SETTINGS.get(pool.provider, ()):
        if key not in dict(made.settings):
            raise InputError(f"--{key} is missing", hint=f"a pool of {TITLES[pool.provider]} needs it")
    return made


NEEDED_SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {"ray": ("url",), "kubernetes": ("image", "volume")}


def open_keeper(controller: Controller) -> PoolKeeper:
    if not controller.pools.is_open:
        raise Refused(
            "pools are for a cluster\n  start its scheduler with weft server, then give --scheduler HOST:PORT"
        )
    return controller.pools


def find(keeper: PoolKeeper, name: str) -> PoolState:
    found = keeper.state.pools.by_name.get(name)
    if found is None:
        raise UnknownName("pool", name, list(keeper.state.pools.by_name))
    return found


async def check(keeper: PoolKeeper, pool: Pool) -> None:
    """Raise if the provider would refuse a request."""
    await keeper.off_loop(keeper.prepare, pool)
    await asyncio.to_thread(keeper.provider(pool).check, keeper.example(pool))


def add(keeper: PoolKeeper, pool: Pool, now: Seconds) -> list[Event]:
    if pool.name in keeper.state.pools.by_name:
        raise Refused(f"there is a pool {pool.name}\n  weft pool set changes it, weft pool remove removes it")
    _check_folder(keeper, pool)
    return [PoolAdded(now, pool)]


def _check_folder(keeper: PoolKeeper, pool: Pool) -> None:
    if keeper.site is not None and keeper.site.is_shared and not pool.setting("folder"):
        raise InputError(
            "--folder is missing: another server that takes over must find the token and the logs of the workers",
            hint="name a folder that all servers and the nodes of the pool share",
        )


def change(keeper: PoolKeeper, name: str, options: Mapping[str, str], now: Seconds) -> list[Event]:
    state = find(keeper, name)
    if state.removing:
        raise Refused(f"pool {name} is being removed\n  add it again once it is gone")
    changed = _with(state.pool, options)
    _check_folder(keeper, changed)
    return [PoolChanged(now, changed)]


def pause(keeper: PoolKeeper, name: str, who: str, now: Seconds) -> list[Event]:
    return [PoolPaused(now, find(keeper, name).pool.name, "Paused", f"by {who}")]


def resume(keeper: PoolKeeper, name: str, now: Seconds) -> list[Event]:
    return [PoolResumed(now, find(keeper, name).pool.name)]


def remove(keeper: PoolKeeper, name: str, now: Seconds, *, at_once: bool) -> list[Event]:
    """Start nothing more on the nodes of a pool, so that they go when their jobs have ended, or at once."""
    pool, resources = find(keeper, name), keeper.state.resources
    cordoned = [
        Cordoned(now, each.slot, Reason.ALLOCATION_ENDING, "its pool is removed")
        for each in pool.allocations.values()
        if (host := resources.by_id.get(each.slot)) is not None and host.alive
    ]
    return [*cordoned, PoolRemoved(now, name, at_once)]


def try_out(keeper: PoolKeeper, name: str, done: str, now: Seconds) -> tuple[list[Event], str]:
    """Request one allocation, whether or not a job needs it; `done` is the key of one to give back."""
    pool = find(keeper, name)
    if done:
        each = pool.allocations.get(done)
        host = None if each is None else keeper.state.resources.by_id.get(each.slot)
        if each is None or (host is not None and host.runs()):
            return [], done
        return [AllocationReleased(now, name, done, "the try is over")], done
    if len(pool.allocations) >= pool.pool.max_nodes:
        raise Refused(
            f"all {pool.pool.max_nodes} nodes of pool {name} are in use\n  {len(pool.allocations)} allocations"
        )
    taken = {each.slot for each in pool.allocations.values()}
    taken |= {host.node.id for host in keeper.state.resources.nodes if host.alive}
    slot = next(slot for number in range(2 * MAX_NODES) if (slot := f"{name}-{number}") not in taken)
    key = new_key(slot, now)
    keeper.memory(name).calling.add(key)
    return [AllocationRequested(now, name, key, slot)], key
