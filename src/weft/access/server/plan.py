"""The plan of a cluster's server: its folder, address, settings and peers; and what it reports once it is up."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal

from weft.access.endpoints.addresses import Address, is_this_machine
from weft.access.server.settings import Settings
from weft.errors import InputError

LogFormat = Literal["text", "json"]
WILDCARDS: Final = ("0.0.0.0", "::", "")
LEADER_LEASE_S: Final = 10.0
"""Seconds without a renewal after which another of several servers may take over."""


@dataclass(frozen=True)
class PageAt:
    """The address of a page, and whether it may change anything."""

    host: str
    port: int
    read_only: bool = False
    names: tuple[str, ...] = ()
    """Further host names that browsers may use, such as that of a TLS front."""


@dataclass(frozen=True)
class Plan:
    """The folder, address and settings of a server."""

    folder: Path
    host: str
    port: int
    settings: Settings
    journal_url: str = ""
    """Empty: a journal in the folder."""
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    log_format: LogFormat = "text"
    log_to_stderr: bool = False
    router: Address | None = None
    """Where the router of services listens; port 0: 8080 or a free one. None: no router is started."""
    flags: Mapping[str, Any] = field(default_factory=dict)
    """The settings that were given, which are part of `settings`."""
    peers: tuple[Address, ...] = ()
    """All servers on one database, this one included; empty: it is alone."""
    leader_lease_s: float = LEADER_LEASE_S
    blobs: str = ""
    """The folder of uploaded files; empty: one in `folder`, and with several servers, also the database."""
    page: PageAt | None = None
    """Where the web page is; None: there is none."""
    restore: bool = False
    """Restore a journal that is damaged or lacks facts."""
    on_message: Callable[[str], None] = field(default=lambda _: None)
    """Called with what was restored, before the server listens."""
    on_ready: Callable[[ServerStatus], None] = field(default=lambda _: None)
    """Called when the server listens."""

    def to_json(self) -> str:
        """Return the plan as an argument of `python -m weft.server`."""
        kept = {each.name: getattr(self, each.name) for each in fields(self) if not each.name.startswith("on_")}
        return json.dumps(kept | {"folder": str(self.folder), "settings": asdict(self.settings),
                                  "page": None if self.page is None else asdict(self.page)})  # fmt: skip

    @classmethod
    def from_json(cls, text: str) -> Plan:
        kept: dict[str, Any] = json.loads(text)
        router, page = kept["router"], kept["page"]
        return cls(**kept | {
            "folder": Path(kept["folder"]),
            "settings": Settings(**kept["settings"]),
            "router": None if router is None else Address(*router[:2]),
            "page": None if page is None else PageAt(**page | {"names": tuple(page["names"])}),
            "peers": tuple(Address(*each[:2]) for each in kept["peers"]),
        })  # fmt: skip


@dataclass(frozen=True)
class ServerStatus:
    """A server that has started to listen."""

    pid: int
    port: int
    secure: bool
    metrics_port: int | None
    journal_url: str
    nodes: int = 0
    jobs: int = 0
    """Jobs that have not ended."""
    leader: str = ""
    """The address of the leader, if this server is a standby."""
    page_port: int | None = None


def own_address(plan: Plan, port: int) -> Address:
    """Return the address at which others reach this server: one of its peers, or the one that it listens on."""
    host = platform.node() if plan.host in WILDCARDS else plan.host
    mine = [each for each in plan.peers if each.port == port and (each.host == host or is_this_machine(each.host))]
    if plan.peers and len(mine) != 1:
        raise InputError(
            f"--peers names this server, {Address(host, port)}, {len(mine)} times: {', '.join(map(str, plan.peers))}",
            hint="name all servers, each once, as clients and workers reach them",
        )
    return mine[0] if mine else Address(host, port)
