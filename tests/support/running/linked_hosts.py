"""Two hosts with one cable between them: namespaces with a network, a host name and an /etc/hosts of their own.

As on Debian, the name of a host is 127.0.1.1 to itself, and an address that can be reached to the other.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.running.loopback_namespace import needed

ADDRESSES = {"left": "192.0.2.1", "right": "192.0.2.2"}  # TEST-NET-1: documentation, never routed
CABLE = "e0"


@dataclass(frozen=True)
class Host:
    name: str
    address: str
    pid: int

    @property
    def prefix(self) -> tuple[str, ...]:
        """The words that a command begins with to run there."""
        return ("nsenter", f"--target={self.pid}", "--net", "--uts", "--mount", "--")

    def run(self, *words: str) -> None:
        subprocess.run([*self.prefix, *words], check=True, capture_output=True)


@contextmanager
def linked_hosts(folder: Path) -> Iterator[tuple[Host, Host]]:
    with ExitStack() as stack:
        left, right = (stack.enter_context(_host(folder, name)) for name in ADDRESSES)
        ends = (CABLE, "netns", str(left.pid), "type", "veth", "peer", "name", CABLE, "netns", str(right.pid))
        subprocess.run(["ip", "link", "add", *ends], check=True, capture_output=True)
        for host in (left, right):
            host.run("ip", "address", "add", f"{host.address}/24", "dev", CABLE)
            host.run("ip", "link", "set", CABLE, "up")
        yield left, right


@contextmanager
def _host(folder: Path, name: str) -> Iterator[Host]:
    hosts = folder / f"hosts-{name}"
    others = "".join(f"{address} {other}\n" for other, address in ADDRESSES.items() if other != name)
    hosts.write_text(f"127.0.0.1 localhost\n127.0.1.1 {name}\n{others}")
    script = f"mount --bind {hosts} /etc/hosts && hostname {name} && ip link set lo up && echo ready && exec sleep 600"
    command = ["unshare", "--net", "--uts", "--mount", "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as holder:
        try:
            assert holder.stdout is not None
            ready = holder.stdout.readline().strip() == "ready"
            needed("a namespace", ready, "this needs root, unshare (util-linux) and ip (iproute2)")
            yield Host(name, ADDRESSES[name], holder.pid)
        finally:
            holder.kill()
