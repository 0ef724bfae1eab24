"""What a scheduler shows of itself over TLS: a key, a certificate, and the authority that vouches for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import grpc

from weft.endpoints.private_files import read_private
from weft.endpoints.tls import fingerprint

FOLDER: Final = "tls"


@dataclass(frozen=True)
class Material:
    key: bytes = field(repr=False)
    chain: bytes
    ca: bytes

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.ca)

    def credentials(self) -> grpc.ServerCredentials:
        return grpc.ssl_server_credentials([(self.key, self.chain)])


def load(folder: Path) -> Material | None:
    """Of the scheduler that keeps its things there; None: `weft auth init` was not called."""
    tls = folder / FOLDER
    try:
        return Material(*(read_private(tls / name) for name in ("server.key", "server.pem", "ca.pem")))
    except FileNotFoundError:
        return None
