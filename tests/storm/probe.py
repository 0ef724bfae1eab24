"""A job that checks how it is run: `python probe.py RECORDS SECONDS CODE` writes into a file shared by all jobs when
each of its processes begins and ends, and which processes it finds that should not be there: another run of the same
job, or another job on its GPUs. Each writes first and then looks: of two that live at the same time, at least one sees
the other. With `serve` instead of SECONDS CODE it is a replica, and answers requests."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

STEP_S = 0.05


def born(pid: int) -> int | None:
    """When, by the clock of this boot, as its identity; None: it is dead."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def write(book: str, *words: object) -> None:
    handle = os.open(book, os.O_WRONLY | os.O_APPEND)
    os.write(handle, (" ".join(map(str, words)) + "\n").encode())
    os.close(handle)


def look(book: str, me: list[str]) -> None:
    job, run, node, gpus = me[1], me[2], me[4], set(me[5].split(","))
    with open(book) as file:
        lines = [line.split() for line in file.read().splitlines()]
    for line in lines:
        if line[0] != "begin" or (line[1], line[2]) == (job, run):
            continue
        shares = line[4] == node and gpus & set(line[5].split(","))
        if (line[1] == job or shares) and born(int(line[6])) == int(line[7]):
            write(book, "overlap", job, run, me[3], "with", *line[1:])


def serve() -> None:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f"replica {os.environ['WEFT_JOB_ID']}".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))  # a replica may be killed in the middle
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    ThreadingHTTPServer((os.environ["WEFT_HOST"], int(os.environ["WEFT_PORT"])), Handler).serve_forever()


def main(book: str, seconds: str, code: str = "0") -> int:
    env = os.environ
    nodes, rank = env["WEFT_NODELIST"].split(","), env["WEFT_NODE_RANK"]
    names = [env["WEFT_JOB_ID"], env["WEFT_RUN"], rank, nodes[int(rank)], env["WEFT_GPU_IDS"]]
    leads = os.fork()  # what it leaves behind is of the run as much as itself
    me = ["begin", *names, str(os.getpid()), str(born(os.getpid())), "leads" if leads else "follows"]
    write(book, *me)
    look(book, me)
    if not leads:
        time.sleep(3600)
    if seconds == "serve":
        serve()
    until = time.monotonic() + float(seconds)
    while time.monotonic() < until:
        time.sleep(STEP_S)
    write(book, "end", *names[:3], code)
    return int(code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
