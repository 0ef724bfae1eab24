"""The file that `weft cluster ssh` reads: one machine on each line, and what is to be said of it.

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

from weft.endpoints.addresses import is_loopback
from weft.errors import InputError, UnknownName
from weft.inputs.files import read_text
from weft.inputs.quantities import parse_whole_or_none

MOST_BYTES: Final = 1 << 20
MOST_HOSTS: Final = 1000
WORKER: Final = ("gpus", "models", "memories", "labels", "addr", "switch", "cpus", "mem", "foreign")
"""Said to the worker as flags of these names."""
OWN: Final = ("user", "port", "id", "weft")
FORM: Final = f"HOST key=value ..., with keys of {', '.join((*OWN, *WORKER))}"
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._:-]*[A-Za-z0-9])?")
_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,63}\$?")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True)
class Host:
    host: str
    id: str
    user: str = ""
    port: int = 0
    """0: as ssh has it."""
    weft: str = "weft"
    """How it is called there; a path is taken from the home directory."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """For the worker."""


def read_hosts(path: str) -> list[Host]:
    """Those of the file, in order; every mistake has its line."""
    found: dict[str, Host] = {}
    for where, line in _lines(read_text(path, max_bytes=MOST_BYTES), path):
        host = _host(line, where)
        if host.id in found:
            raise InputError(f"two workers called {host.id!r}", where=where, hint="give one of them another id=NAME")
        found[host.id] = host
        if len(found) > MOST_HOSTS:
            raise InputError(f"more than {MOST_HOSTS:,} machines", where=where)
    if not found:
        raise InputError("no machines", where=path, hint=f"one on each line: {FORM}")
    return list(found.values())


def _lines(text: str, path: str) -> Iterator[tuple[str, list[str]]]:
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{path}:{number}"
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise InputError(str(error).lower(), where=where, hint="close the quotes") from None
        if words:
            yield where, words


def _host(words: list[str], where: str) -> Host:
    host, keys = words[0], dict[str, str]()
    for word in words[1:]:
        key, equals, value = word.partition("=")
        if not equals or not value.isprintable():
            raise InputError(f"{word[:80]!r} is not key=value", where=where, hint=FORM)
        if key not in (*OWN, *WORKER):
            raise UnknownName("key", key, (*OWN, *WORKER), where=where)
        if key in keys:
            raise InputError(f"{key} is given twice", where=where)
        keys[key] = value
    given = {key: keys.pop(key, "") for key in OWN}
    user, _, host = host.rpartition("@")
    if user and given["user"]:
        raise InputError("a user before the host, and user=", where=where, hint="one of them is enough")
    made = Host(
        host, given["id"] or _usual_id(host), given["user"] or user, _port(given["port"], where),
        given["weft"].removeprefix("~/") or "weft", keys,
    )  # fmt: skip
    _check(made, where)
    return made


def _check(host: Host, where: str) -> None:
    """Nothing may look like a flag of ssh, or like two words."""
    for what, text, form in (("a host", host.host, _HOST), ("a user", host.user, _USER), ("an id", host.id, _NAME)):
        if text and not form.fullmatch(text):
            raise InputError(f"{text[:80]!r} cannot be {what}", where=where, hint=FORM)
    if not host.host:
        raise InputError("a user without a host", where=where, hint=FORM)
    if host.weft.startswith("-"):
        raise InputError(f"weft={host.weft[:80]}", where=where, hint="a program, or a path from the home directory on")


def _port(text: str, where: str) -> int:
    found = parse_whole_or_none(text, 1, 65535) if text else 0
    if found is None:
        raise InputError(f"port={text[:40]}", where=where, hint="from 1 to 65535")
    return found


def _usual_id(host: str) -> str:
    """The first part of its name; of a number, all of it."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host.partition(".")[0]
    return host.replace(":", "-").strip("-")


def is_here(host: Host) -> bool:
    """Whether it is this machine, by its name."""
    return is_loopback(host.host)
