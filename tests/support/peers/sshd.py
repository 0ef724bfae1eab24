"""An sshd of a test's own: on loopback at a free port, with keys and a config in a folder that goes with the test."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.running.local_scheduler import until
from support.running.loopback_namespace import needed
from support.running.secured_cluster import free_port
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.credentials import is_listening

PROGRAM = "/usr/sbin/sshd"


@dataclass(frozen=True)
class Sshd:
    port: int
    config: Path
    """For ssh: the key that opens, and whom to know."""
    user: str

    def host(self, **keys: str) -> str:
        """A line of a hosts file."""
        return " ".join(["127.0.0.1", f"port={self.port}", *(f"{key}={value}" for key, value in keys.items())])


@contextlib.contextmanager
def sshd(root: Path) -> Iterator[Sshd]:
    """The system's own config and keys are never looked at."""
    there = os.path.exists(PROGRAM) and shutil.which("ssh") is not None
    needed("sshd", there, "make setup installs it (Debian: openssh-server)")
    root.mkdir(mode=0o700)
    for name in ("host_key", "user_key", "other_key"):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(root / name)]
        subprocess.run(make, check=True, capture_output=True)
    shutil.copy(root / "user_key.pub", root / "authorized_keys")
    port, user = free_port(), getpass.getuser()
    known = (root / "host_key.pub").read_text().split()[:2]
    (root / "known_hosts").write_text(f"[127.0.0.1]:{port} {' '.join(known)}\n")
    (root / "ssh_config").write_text(
        f"IdentityFile {root}/user_key\nIdentitiesOnly yes\nUserKnownHostsFile {root}/known_hosts\n"
        "GlobalKnownHostsFile /dev/null\nStrictHostKeyChecking yes\n"
    )
    (root / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {root}/host_key\nPidFile {root}/sshd.pid\n"
        f"AuthorizedKeysFile {root}/authorized_keys\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        "UsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\nSetEnv WEFT_RUN_AS=worker\n"
    )
    if os.getuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # where it shuts itself in before anybody has shown a key
    with (root / "sshd.log").open("w") as log:
        process = subprocess.Popen([PROGRAM, "-D", "-e", "-f", str(root / "sshd_config")], stderr=log)
    try:
        until(lambda: process.poll() is not None or is_listening(Address("127.0.0.1", port)))
        assert process.poll() is None, (root / "sshd.log").read_text()
        yield Sshd(port, root / "ssh_config", user)
    finally:
        process.terminate()
        process.wait()
