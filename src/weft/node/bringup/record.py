"""The record of what `weft cluster` started, so that `weft cluster down` ends exactly that."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from weft.access.endpoints.addresses import Address, parse_address
from weft.access.endpoints.paths import make_private, user_paths
from weft.access.endpoints.private_files import read_private, write_private
from weft.errors import WeftError
from weft.inputs import locks
from weft.node.engine.shim.process_id import Identity

FOLDER: Final = "clusters"


@dataclass(frozen=True)
class Process:
    """The scheduler, or a worker on this machine."""

    name: str
    who: Identity
    """The identity of the process: a pid alone may be reused."""
    folder: str
    is_server: bool = False


@dataclass(frozen=True)
class Remote:
    """A worker on a machine reached over ssh."""

    name: str
    ssh: tuple[str, ...]
    """The ssh command line, up to the remote command."""
    weft: str
    """The weft program there."""
    process: str
    """BOOT:PID:START on that machine."""


@dataclass(frozen=True)
class Record:
    """The processes that `weft cluster` started for one scheduler, and that have not ended."""

    scheduler: str
    processes: tuple[Process, ...] = ()
    remotes: tuple[Remote, ...] = ()

    @property
    def server(self) -> Process | None:
        return next((each for each in self.processes if each.is_server), None)

    @property
    def workers(self) -> list[Process]:
        return [each for each in self.processes if not each.is_server]

    def with_process(self, process: Process) -> Record:
        return replace(self, processes=(*self.processes, process))

    def with_remote(self, remote: Remote) -> Record:
        """Return the record with this remote; it replaces one of the same name."""
        return replace(self, remotes=(*(each for each in self.remotes if each.name != remote.name), remote))


def load(where: Address, env: Mapping[str, str] = os.environ) -> Record | None:
    """Return the record of the scheduler at an address; None if there is none."""
    path = _path(where, env)
    try:
        return _decode(json.loads(read_private(path)))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError):
        raise WeftError(f"{path} is malformed\n  end the processes that it names by hand, then remove it") from None


def save(record: Record, env: Mapping[str, str] = os.environ) -> None:
    """Write a record; remove its file if nothing is left to end."""
    path = _path(parse_address(record.scheduler), env)
    if not record.processes and not record.remotes:
        path.unlink(missing_ok=True)
        return
    make_private(path.parent)
    write_private(path, json.dumps(asdict(record), indent=2).encode())


def load_all(env: Mapping[str, str] = os.environ) -> list[Record]:
    """Return the records of all schedulers."""
    found = [load(_address(path), env) for path in sorted(_folder(env).glob("*_*.json"))]
    return [record for record in found if record is not None]


@contextmanager
def locked(where: Address, env: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Let one `weft cluster` at a time change a scheduler's record; raise Refused if another holds the lock."""
    make_private(_folder(env))
    what = f"another weft cluster command is changing {where}"
    with locks.locked(_path(where, env).with_suffix(".lock"), what, "wait for it, or interrupt it"):
        yield


def _folder(env: Mapping[str, str]) -> Path:
    return user_paths(env).state / FOLDER


def _path(where: Address, env: Mapping[str, str]) -> Path:
    return _folder(env) / f"{where.host.lower()}_{where.port}.json"


def _address(path: Path) -> Address:
    host, _, port = path.stem.rpartition("_")
    return Address(host, int(port))


def _decode(data: Mapping[str, Any]) -> Record:
    processes = (Process(**{**each, "who": Identity(*each["who"])}) for each in data["processes"])
    remotes = (Remote(**{**each, "ssh": tuple(each["ssh"])}) for each in data["remotes"])
    return Record(data["scheduler"], tuple(processes), tuple(remotes))
