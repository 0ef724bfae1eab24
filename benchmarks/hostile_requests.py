"""Requests that cost more than they weigh, for a scheduler, and bodies that come slowly, for a router.

`python -m benchmarks.hostile_requests PORT TOKEN S` sends the requests to a scheduler for some seconds, and prints
their number and the number of those that got neither an answer nor a refusal.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any, Final

import grpc

from weft.access.endpoints import credentials
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.credentials import Credentials
from weft.access.wire.failures import decode_error
from weft.access.wire.messages import ChangeRequest, JobSpec, QueryRequest, SubmitRequest, Variable
from weft.access.wire.service import call

JOBS: Final = 3000
REFERENCES: Final = (
    ["1-20000"] * 300_000, [f"{first}-{first + 20_000}" for first in range(10_000)],
    [f"{first}-{first}" for first in range(1, 20_000, 2)], [f"@~{back}" for back in range(10_000)],
    [f"name-{number}" for number in range(10_000)],
)  # fmt: skip
VARIABLES: Final = 200_000
NUMBERS: Final = (float("inf"), float("-inf"), float("nan"), -1.0, 1e308)
TIMEOUT_S: Final = 60.0


def bad_requests() -> Iterator[tuple[str, Any]]:
    """Yield each request with the name of its method."""
    for jobs in REFERENCES:
        yield "Query", QueryRequest(what="job", jobs=jobs)
        yield "Change", ChangeRequest(verb="hold", jobs=jobs)
    many = [Variable(name=f"v{number}", value="x") for number in range(VARIABLES)]
    for field in ("env", "labels", "params"):
        yield "Submit", SubmitRequest(jobs=[_job(**{field: many})])
    yield "Submit", SubmitRequest(jobs=[_job()], env=many)
    fields: Any = JobSpec.DESCRIPTOR.fields
    for field in fields:
        if field.type in (field.TYPE_DOUBLE, field.TYPE_FLOAT):
            yield from (("Submit", SubmitRequest(jobs=[_job(**{field.name: number})])) for number in NUMBERS)


def _job(**fields: Any) -> JobSpec:
    return JobSpec(command=["true"], chdir="/tmp", hold=True, **fields)


def attack(port: int, token: str, seconds: float) -> None:
    found = Credentials(token, None)
    made = list(bad_requests())
    sent = wrong = 0
    until = time.monotonic() + seconds
    with credentials.open_channel(Address("localhost", port), found) as channel:
        jobs = SubmitRequest(jobs=[_job(array=f"0-{JOBS - 1}")])
        call(channel, "Submit")(jobs, metadata=found.metadata(), timeout=TIMEOUT_S)
        while time.monotonic() < until:
            name, request = made[sent % len(made)]
            try:
                call(channel, name)(request, metadata=found.metadata(), timeout=TIMEOUT_S)
            except grpc.RpcError as error:
                wrong += decode_error(error.details() or "") is None
            sent += 1
    print(json.dumps({"sent": sent, "wrong": wrong}), flush=True)


def drip(port: int, path: str, clients: int, seconds: float) -> None:
    """Send bodies to a router, a byte at a time."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n".encode()
    until = time.monotonic() + seconds
    with ExitStack() as stack:
        lines = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(clients)]
        for line in lines:
            line.sendall(head)
        while time.monotonic() < until:
            for line in lines:
                with suppress(OSError):
                    line.sendall(b"x")
            time.sleep(0.1)


if __name__ == "__main__":
    attack(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
