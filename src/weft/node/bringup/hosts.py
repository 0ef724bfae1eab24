"""The hosts file of `weft cluster ssh`: one machine per line, with settings for ssh and for its worker.

gpu07                     gpus=0,1 models=RTX3090,RTX3090 memories=24576,24576 labels=rack=3
gpu08.example.org         user=ada port=2222 id=gpu08 weft=venv/bin/weft
"""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from weft.access.endpoints.addresses import is_loopback
from weft.errors import InputError, UnknownName
from weft.inputs.files import read_text
from weft.inputs.quantities import parse_whole_or_none

MAX_FILE_BYTES: Final = 1 << 20
MAX_HOSTS: Final = 1000
WORKER_KEYS: Final = (
    "gpus", "models", "memories", "labels", "addr", "switch", "cpus", "mem", "foreign", "run-as", "min-uid",
)  # fmt: skip
"""Keys passed to the worker as flags of the same names."""
SSH_KEYS: Final = ("user", "port", "id", "weft")
"""Keys that say how to reach the machine and start the worker."""
KEYS: Final = (*SSH_KEYS, *WORKER_KEYS)
LINE_FORM: Final = f"HOST key=value ..., with keys of {', '.join(KEYS)}"
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._:-]*[A-Za-z0-9])?")
_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,63}\$?")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True)
class Host:
    """A machine that ssh reaches."""

    host: str
    id: str
    """The id of its worker."""
    user: str = ""
    port: int = 0
    """0: the port that ssh uses by default."""
    weft: str = "weft"
    """The weft program there; a path is relative to the home directory."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Flags of its worker, without the dashes."""


def read_hosts(path: str) -> list[Host]:
    """Return the machines of a hosts file, in order. Every error names its line."""
    found: dict[str, Host] = {}
    for where, words in _split_lines(read_text(path, max_bytes=MAX_FILE_BYTES), path):
        host = _parse_host(words, where)
        if host.id in found:
            raise InputError(f"two workers called {host.id!r}", where=where, hint="give one of them another id=NAME")
        found[host.id] = host
        if len(found) > MAX_HOSTS:
            raise InputError(f"more than {MAX_HOSTS:,} machines", where=where, hint="split the file")
    if not found:
        raise InputError("no machines", where=path, hint=f"write one per line: {LINE_FORM}")
    return list(found.values())


def _split_lines(text: str, path: str) -> Iterator[tuple[str, list[str]]]:
    """Yield FILE:LINE and the words of each line that is not empty."""
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{path}:{number}"
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise InputError(str(error).lower(), where=where, hint="close the quotes") from None
        if words:
            yield where, words


def _parse_host(words: list[str], where: str) -> Host:
    host, given = words[0], dict[str, str]()
    for word in words[1:]:
        key, equals, value = word.partition("=")
        if not equals or not value.isprintable():
            raise InputError(f"{word[:80]!r} is not key=value", where=where, hint=LINE_FORM)
        if key not in KEYS:
            raise UnknownName("key", key, KEYS, where=where)
        if key in given:
            raise InputError(f"{key} is given twice", where=where)
        given[key] = value
    ssh = {key: given.pop(key, "") for key in SSH_KEYS}
    user, _, host = host.rpartition("@")
    if user and ssh["user"]:
        raise InputError("the line has both USER@HOST and user=", where=where, hint="keep one of them")
    parsed = Host(
        host, ssh["id"] or _default_id(host), ssh["user"] or user, _parse_port(ssh["port"], where),
        ssh["weft"].removeprefix("~/") or "weft", given,
    )  # fmt: skip
    _check_parts(parsed, where)
    return parsed


def _check_parts(host: Host, where: str) -> None:
    """Raise if ssh or the remote shell would misread a part: as a flag, or as two words."""
    for what, text, form in (("a host", host.host, _HOST), ("a user", host.user, _USER), ("an id", host.id, _NAME)):
        if text and not form.fullmatch(text):
            raise InputError(f"{text[:80]!r} cannot be {what}", where=where, hint=LINE_FORM)
    if not host.host:
        raise InputError("the line has a user but no host", where=where, hint=LINE_FORM)
    if host.weft.startswith("-"):
        what = f"weft={host.weft[:80]} is not a program"
        raise InputError(what, where=where, hint="name a program, or a path relative to the home directory")


def _parse_port(text: str, where: str) -> int:
    found = parse_whole_or_none(text, 1, 65535) if text else 0
    if found is None:
        raise InputError(f"port={text[:40]} is not a port", where=where, hint="from 1 to 65535")
    return found


def _default_id(host: str) -> str:
    """Return the first label of a host name, or a whole IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host.partition(".")[0]
    return host.replace(":", "-").strip("-")


def is_this_machine(host: Host) -> bool:
    """Return whether the host is a loopback name or address."""
    return is_loopback(host.host)
