"""The TLS files of a server: its key, its certificate chain, and the CA certificate."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import grpc

from weft.access.endpoints.private_files import read_private
from weft.access.endpoints.tls import fingerprint

FOLDER: Final = "tls"


@dataclass(frozen=True)
class Material:
    """The content of the TLS files."""

    key: bytes = field(repr=False)
    chain: bytes
    ca: bytes

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.ca)

    def credentials(self) -> grpc.ServerCredentials:
        return grpc.ssl_server_credentials([(self.key, self.chain)])


def load(folder: Path) -> Material | None:
    """Return the TLS files of the server in this folder; None if `weft auth init` was never run."""
    tls = folder / FOLDER
    try:
        return Material(*(read_private(tls / name) for name in ("server.key", "server.pem", "ca.pem")))
    except FileNotFoundError:
        return None
