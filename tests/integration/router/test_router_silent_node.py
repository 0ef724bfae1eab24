"""A node that falls silent: its packets stop, and no connection to it is refused or closed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.programs import replica_process
from support.running.linked_hosts import CABLE, Host, linked_hosts

WEFT = Path(sys.executable).with_name("weft")
TABLE = """
services:
  chat:
    concurrency: 8
    retry: unanswered
    timeouts: {answer: 300s, queue: 300s, idle: 300s}
    replicas: [192.0.2.2:9000, 127.0.0.1:9000]
"""
ASK = """
import sys, urllib.request
request = urllib.request.Request("http://127.0.0.1:9001/" + sys.argv[1], data=sys.argv[2].encode() or None)
print(urllib.request.urlopen(request, timeout=60).read().decode())
"""


@contextmanager
def running(host: Host, *words: str) -> Iterator[None]:
    with subprocess.Popen([*host.prefix, *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "the program says when it listens"
            yield
        finally:
            process.kill()


def ask(host: Host, path: str, body: str = "") -> dict[str, Any]:
    words = [*host.prefix, sys.executable, "-c", ASK, path, body]
    return dict(json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout))


def remote_replica(host: Host) -> dict[str, Any]:
    (service,) = ask(host, "-/services")["services"]
    return next(dict(each) for each in service["replicas"] if each["address"] == "192.0.2.2:9000")


def begin_stream(host: Host) -> subprocess.Popen[bytes]:
    """Begin to read a long answer of the remote replica."""
    while True:
        words = [*host.prefix, sys.executable, "-c", ASK, "chat/chunks?n=1000&gap=0.3", ""]
        stream = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not (outstanding := _outstanding(host)):
            assert stream.poll() is None
        if outstanding == ["192.0.2.2:9000"]:
            return stream
        stream.kill()
        stream.wait()
        while _outstanding(host):
            pass


def _outstanding(host: Host) -> list[str]:
    (service,) = ask(host, "-/services")["services"]
    return [each["address"] for each in service["replicas"] if each["outstanding"]]


def test_a_silent_node_delays_requests_by_seconds_and_gets_no_more_until_it_is_back(tmp_path: Path) -> None:
    table = tmp_path / "table.yaml"
    table.write_text(TABLE)
    replica = (sys.executable, replica_process.__file__)
    router = (str(WEFT), "router", "--table", str(table), "--listen", "127.0.0.1:9001")
    with (
        linked_hosts(tmp_path) as (left, right),
        running(right, *replica, "remote", "9000", "192.0.2.2"),
        running(left, *replica, "local", "9000"),
        running(left, *router),
    ):
        while ask(left, "chat/", "x")["replica"] != "remote":
            pass
        stream = begin_stream(left)
        right.run("ip", "address", "flush", "dev", CABLE)
        began_s = time.monotonic()
        while not remote_replica(left)["ejected"]:
            assert ask(left, "chat/", "x")["replica"] == "local"
        assert stream.wait(60) != 0, "it is cut"
        assert time.monotonic() - began_s < 30.0, "4 s on a quiet machine; the time limit of a stream is 300 s"
        assert {ask(left, "chat/", "x")["replica"] for _ in range(4)} == {"local"}
        right.run("ip", "address", "add", f"{right.address}/24", "dev", CABLE)
        while remote_replica(left)["ejected"]:
            assert time.monotonic() - began_s < 120.0
        while ask(left, "chat/", "x")["replica"] != "remote":
            pass
