"""Talks to a scheduler. The first call starts this user's own, if none is there."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self

import grpc

from weft import errors
from weft.errors import InputError, NotFound, Refused, Unreachable, WeftError
from weft.wire import messages as m
from weft.wire.places import Places, places
from weft.wire.service import OPTIONS, call

START_S: Final = 20.0
"""How long a scheduler may take to start."""
TERMINATED: Final = 143
CALL_S: Final = 60.0
"""For what changes something, or is waited for."""
READ_S: Final = 10.0
"""For whoever only looks: a person is waiting."""
OUTLIVE_S: Final = 10.0
"""How long one that no longer answers may take to end."""
CHANNEL: Final = (
    *OPTIONS,
    ("grpc.use_local_subchannel_pool", 1),  # or a new channel would share the old one's patience after a failure
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
KINDS: Final = {"NotFound": NotFound, "Refused": Refused, "JournalError": errors.JournalError}


class Client:
    """Over a unix socket. Use it as a context manager, or close it."""

    def __init__(self, where: Places | None = None, *, start: bool = True) -> None:
        self.places, self._may_start = where or places(), start
        self._calls: dict[str, Any] = {}
        self._connect()

    def _connect(self) -> None:
        self.places.check()
        if not self.places.answers():
            if not self._may_start:
                raise Unreachable("no scheduler is running\n  weft up starts one; so does weft submit")
            start_scheduler(self.places)
        if stopped := self.places.stopped():
            raise Unreachable(f"the scheduler, {stopped}, is stopped\n  kill -CONT {stopped} lets it go on")
        self._channel = grpc.insecure_channel(f"unix:{self.places.socket}", options=CHANNEL)
        self._calls.clear()

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- what can be asked

    def submit(self, request: m.SubmitRequest) -> list[str]:
        """The ids. A scheduler that dies meanwhile is started again, and takes the request once."""
        request.key = request.key or secrets.token_hex(16)
        return list(self._call("Submit", request, again=True).ids)

    def change(
        self, verb: str, jobs: Sequence[str] = (), *, settings: Mapping[str, str] | None = None,
        statuses: Sequence[str] = (), group: str = "",
    ) -> m.ChangeReply:  # fmt: skip
        pairs = [m.Variable(name=key, value=value) for key, value in (settings or {}).items()]
        request = m.ChangeRequest(verb=verb, jobs=jobs, settings=pairs, statuses=statuses, group=group)
        reply: m.ChangeReply = self._call("Change", request)
        return reply

    def query(
        self, what: str, jobs: Sequence[str] = (), *, limit: int = 0, since: float = 0.0, group: str = "",
        patience_s: float = READ_S,
    ) -> dict[str, Any]:  # fmt: skip
        request = m.QueryRequest(what=what, jobs=jobs, limit=limit, since=since, group=group)
        return self._json("Query", request, patience_s)

    def explain(self, job: str) -> dict[str, Any]:
        return self._json("Explain", m.ExplainRequest(job=job), READ_S)

    def operate(self, verb: str, **options: str) -> dict[str, Any]:
        pairs = [m.Variable(name=key, value=value) for key, value in options.items()]
        request = m.OperateRequest(verb=verb, options=pairs)
        return self._json("Operate", request, READ_S if verb == "doctor" else CALL_S, again=False)

    def logs(self, job: str, *, run: int = 0, follow: bool = False, lines: int = 0) -> Iterator[bytes]:
        request = m.LogsRequest(job=job, run=run, follow=follow, lines=lines)
        with _explained(self.places):
            for chunk in self._method("Logs")(request):
                yield chunk.text

    def follow(self, job: str, *, lines: int = 0) -> Iterator[bytes]:
        """What the job writes until it has ended, run after run; a scheduler that dies meanwhile does not matter."""
        (only,) = self._jobs([job])["jobs"]
        job, run = only["id"], max(only["run"], 1)
        while True:
            yield from self._follow_run(job, run, lines)
            (only,) = self._jobs([job])["jobs"]
            if only["ended"] and only["run"] <= run:
                return
            run, lines = run + 1, 0

    def _follow_run(self, job: str, run: int, lines: int) -> Iterator[bytes]:
        seen = 0
        while True:
            skip = seen
            try:
                for text in self.logs(job, run=run, follow=True, lines=lines):
                    new, skip = text[skip:], max(skip - len(text), 0)
                    seen += len(new)
                    if new:
                        yield new
            except Unreachable:
                self._outlive()
            else:
                return

    def watch(self, after: int, *, timeout_s: float | None = None) -> Iterator[dict[str, Any]]:
        """Facts after a position, as they happen; it ends where a snapshot has replaced those that come next."""
        return (fact for _, fact in self.facts(after, timeout_s=timeout_s))

    def facts(self, after: int, *, timeout_s: float | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
        """The same, each with its own position."""
        with _explained(self.places):
            for line in self._method("Watch")(m.WatchRequest(after=after), timeout=timeout_s):
                yield line.position, json.loads(line.json)

    def wait(self, job: str) -> dict[str, Any]:
        """The job, once it has ended."""
        while True:
            found = self._jobs([job])
            only = dict(found["jobs"][0])
            if only["ended"]:
                return only
            job = only["id"]  # a name may come to mean another
            self._await_end(found["position"], [only])

    def wait_for(self, jobs: Sequence[str]) -> list[dict[str, Any]]:
        """All these jobs, once they have ended."""
        return [dict(job) if job["ended"] else self.wait(job["id"]) for job in self._jobs(jobs)["jobs"]]

    def wait_for_any(self, jobs: Sequence[str]) -> dict[str, Any]:
        """The first of these jobs that ends."""
        while True:
            found = self._jobs(jobs)
            ended = [dict(job) for job in found["jobs"] if job["ended"]]
            if ended:
                return min(ended, key=lambda job: job["ended"])
            jobs = [job["id"] for job in found["jobs"]]
            self._await_end(found["position"], found["jobs"])

    def _await_end(self, position: int, jobs: Sequence[Mapping[str, Any]]) -> None:
        """Returns when one of them may have ended: by itself, or with one that it comes after."""
        names = {job["id"] for job in jobs}
        any_end = any(job["status"] == "blocked" for job in jobs)
        try:
            for fact in self.watch(position):
                kind = fact["fact"]
                if kind == "Forgotten" or (kind in ("Exited", "Cancelled") and (any_end or fact["job"] in names)):
                    return
        except Unreachable:
            self._outlive()

    # ---- inside

    def _jobs(self, jobs: Sequence[str]) -> dict[str, Any]:
        """For whoever waits anyway."""
        return self.query("job", jobs, patience_s=CALL_S)

    def _outlive(self) -> None:
        """Returns if the scheduler died or serves again: the next call finds one. Raises if it was told to end."""
        until = time.monotonic() + OUTLIVE_S
        while not self.places.answers():
            words = self.places.last_words()
            if not words.isdecimal():
                raise Unreachable("the scheduler was told to end\n  jobs go on; weft up starts it again")
            if not os.path.exists(f"/proc/{words}") or time.monotonic() > until:
                break
            time.sleep(0.02)
        self.close()
        self._connect()

    def _method(self, name: str) -> Any:
        if name not in self._calls:
            self._calls[name] = call(self._channel, name)
        return self._calls[name]

    def _call(self, name: str, request: Any, *, again: bool = False, patience_s: float = CALL_S) -> Any:
        """With `again`, it is sent more than once where nobody answers: for a while, as the next may be starting."""
        until = time.monotonic() + min(OUTLIVE_S, patience_s / 2)  # one that hangs is not asked again
        while True:
            try:
                with _explained(self.places, patience_s):
                    return self._method(name)(request, timeout=patience_s)
            except Unreachable:
                hopeless = not self._may_start and not self.places.answers()
                if not again or hopeless or time.monotonic() > until:
                    raise
            time.sleep(0.02)
            self.close()
            self._connect()

    def _json(self, name: str, request: Any, patience_s: float, *, again: bool = True) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._call(name, request, again=again, patience_s=patience_s).json)
        return found


@contextmanager
def _explained(where: Places, patience_s: float = CALL_S) -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as error:
        raise _told(error, where, patience_s) from None


def _told(error: Any, where: Places, patience_s: float) -> WeftError:
    """The error as the scheduler raised it."""
    code, details = error.code(), error.details() or ""
    if code == grpc.StatusCode.UNAVAILABLE:
        return Unreachable(f"the scheduler at {where.socket} does not answer: {details}\n  its log: {where.server_log}")
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return Unreachable(
            f"the scheduler has not answered for {patience_s:.0f} s: it hangs, or has very much to do\n"
            f"  its log: {where.server_log}"
        )
    try:
        body = json.loads(details)
        kind, what, hint = body["kind"], body["what"], body["hint"]
    except (ValueError, KeyError, TypeError):
        return WeftError(f"the scheduler failed: {code.name}: {details[:500]}\n  its log: {where.server_log}")
    return KINDS[kind](what) if kind in KINDS else InputError(what, hint=hint)


def exit_code(job: Mapping[str, Any]) -> int:
    """Of a job that has ended: its own, 128 and the signal that ended it; never 0 unless it is done."""
    if job["status"] == "done":
        return 0
    if job["exit_code"] is None and job["status"] == "cancelled":
        return TERMINATED
    return int(job["exit_code"] or 1)


def start_scheduler(where: Places) -> None:
    """Starts this user's scheduler in the background, and returns once it listens."""
    where.make()
    log = os.open(where.server_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    env = {**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "0"}
    command = [sys.executable, "-m", "weft.server", str(where.state), str(where.runtime)]
    process = subprocess.Popen(
        command, env=env, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )
    os.close(log)
    until = time.monotonic() + START_S
    while not where.answers():
        if process.poll() not in (None, 0):
            raise Unreachable(f"the scheduler did not start: {_last_error(where)}\n  its log: {where.server_log}")
        if time.monotonic() > until:
            raise Unreachable(f"the scheduler did not start within {START_S:.0f} s\n  its log: {where.server_log}")
        time.sleep(0.01)
    threading.Thread(target=process.wait, daemon=True).start()  # it may end before we do: nothing of it is to stay


def _last_error(where: Places) -> str:
    try:
        lines = where.server_log.read_text(errors="replace").strip().splitlines()
    except OSError:
        return "it left no log"
    errors = [line.partition(" ERROR ")[2].partition(": ")[2] for line in lines if " ERROR " in line]
    return errors[-1] if errors else lines[-1] if lines else "its log is empty"
