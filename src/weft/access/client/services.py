"""The Python API of services: deploy one, wait for it, call it, change it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from weft.access.client import Client
from weft.access.client.api import connection
from weft.access.client.batches import refuse_while_importing
from weft.access.client.service_calls import Reply, call_service
from weft.access.client.service_images import build_image
from weft.access.endpoints import config
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.paths import Paths
from weft.access.jobspec.environment import capture
from weft.access.wire.messages import DeployRequest, ServiceChange
from weft.errors import InputError, Refused, UnknownName
from weft.inputs.files import read_text
from weft.views.answers.base import plain

if TYPE_CHECKING:
    from weft.views.answers.services import DeployedView, ServiceView

POLL_S: Final = 0.2
URL_WAIT_S: Final = 10.0
GATE_WAIT_S: Final = 10.0
"""The longest wait for the answers that the error gate needs."""
START_TIMEOUT_S: Final = 300.0
REASON_AFTER_S: Final = 1.0
"""A reason why replicas are not ready is worth a message once it has held for this long."""


def deploy(
    file: str | os.PathLike[str] | None = None, *, wait: bool = False, timeout: float = START_TIMEOUT_S,
    scheduler: str | None = None, **keys: Any,
) -> ServiceHandle:  # fmt: skip
    """Deploy a service, or change one: from a file, or from the keys that a file may have.

    `deploy("chat.yaml")` and `deploy(service="chat", run=["python", "serve.py"], replicas={"min": 0, "max": 8})`. The
    same description twice changes nothing. With `wait`, return once its replicas are ready.
    """
    if (file is None) == (not keys):
        raise InputError("a file or keys are needed", hint='deploy("chat.yaml"), or deploy(service="chat", run=...)')
    name = "" if file is None else os.fspath(file)
    text = json.dumps(keys, default=str) if file is None else read_text(name)
    where = config.scheduler_address(scheduler)
    client = connection(where)
    found = client.deploy(describe(text, name or "deploy()", where, start=wait))
    handle = ServiceHandle(found.service, client.where)
    if wait:
        wait_until_ready(client, found.service, timeout, found.version)
    return handle


def describe(
    text: str, file: str, scheduler: Address | None, *, dry_run: bool = False, start: bool = False
) -> DeployRequest:
    """Return the request to deploy this description with the folder and environment of this process.

    If it has `build`, its image is built first. `start`: one replica of a new version starts in any case.
    """
    refuse_while_importing()
    image = build_image(text, file, scheduler, dry_run=dry_run)
    env = capture(os.environ, elsewhere=scheduler is not None)
    return DeployRequest(
        description=text, file=file, chdir=os.getcwd(), env=env, dry_run=dry_run, image=image, start=start
    )


class ServiceHandle:
    """A deployed service."""

    def __init__(self, name: str, where: Paths | Address | None = None, *, scheduler: str | None = None) -> None:
        self.name = name
        self._where = where or config.scheduler_address(scheduler)

    def __repr__(self) -> str:
        return f"ServiceHandle({self.name!r})"

    @property
    def url(self) -> str:
        """The URL of the service at a router; empty if no router serves it within a few seconds."""
        return wait_for_url(connection(self._where), self.name)

    @property
    def ready(self) -> int:
        """Replicas that answer requests."""
        return self._view().ready

    def show(self) -> dict[str, Any]:
        """Return the service as `weft services --json` prints it."""
        return plain(self._view())

    def _view(self) -> ServiceView:
        return require_service(connection(self._where), self.name)

    def wait(self, timeout: float = START_TIMEOUT_S) -> None:
        """Wait until all wanted replicas of the present version are ready. Raise if that takes too long."""
        wait_until_ready(connection(self._where), self.name, timeout)

    def call(
        self, path: str = "/", data: bytes | str | None = None, *, method: str = "",
        headers: Sequence[tuple[str, str]] = (), timeout: float = 60.0,
    ) -> Reply:  # fmt: skip
        """Send a request through the router. With `data` it is a POST."""
        body = data.encode() if isinstance(data, str) else data
        return call_service(self.url, path, method, body, headers, timeout, _scheduler_of(self._where))

    def scale(self, replicas: int | tuple[int, int]) -> None:
        """Set the number of replicas, or the bounds of the autoscaler."""
        least, most = replicas if isinstance(replicas, tuple) else (replicas, replicas)
        self._change("scale", least, most)

    def rollback(self, to: int = 0) -> None:
        """Go back to this version; 0: to the last one that was ready once and was not rolled back."""
        self._change("rollback", version=to)

    def undeploy(self) -> None:
        """Remove the service: its replicas answer the requests they have, then stop."""
        self._change("undeploy")

    def _change(self, verb: str, least: int = 0, most: int = 0, version: int = 0) -> DeployedView:
        request = ServiceChange(service=self.name, verb=verb, min_replicas=least, max_replicas=most, version=version)
        return connection(self._where).change_service(request)


def _scheduler_of(where: Paths | Address | None) -> Address | None:
    return where if isinstance(where, Address) else None


# ---- shared with commands


def find_service(client: Client, name: str) -> ServiceView | None:
    return next((each for each in client.services().services if each.name == name), None)


def require_service(client: Client, name: str) -> ServiceView:
    """Return a service, or raise with the names of those that exist."""
    known: Mapping[str, ServiceView] = {each.name: each for each in client.services().services}
    if name not in known:
        raise UnknownName("service", name[:80], list(known))
    return known[name]


def wait_for_url(client: Client, service: str, timeout_s: float = URL_WAIT_S) -> str:
    """Return the URL of a service once a router serves it; empty: there is none within a few seconds."""
    until = time.monotonic() + timeout_s
    while True:
        found = find_service(client, service)
        if found is not None and found.url:
            return found.url
        if time.monotonic() > until:
            return ""
        time.sleep(POLL_S)


def wait_until_ready(
    client: Client, service: str, timeout_s: float, version: int = 0, on_reason: Callable[[str], None] = lambda _: None
) -> None:
    """Wait until all wanted replicas are ready. Raise if that takes too long, or if this version fails.

    Call `on_reason` with each reason why they are not, once it has held for a second. While requests come, wait a
    moment longer for the error gate.
    """
    until, ready_at = time.monotonic() + timeout_s, float("inf")
    reason, since, told = "", 0.0, ""
    while True:
        found = find_service(client, service)
        if found is None:
            raise Refused(f"{service} was undeployed meanwhile\n  weft services lists the services")
        if version and found.version > version and found.failing:
            raise Refused(f"{service} is as before: {found.failing}\n  weft logs {service}/INDEX shows more")
        if found.failed and found.version == (version or found.version):
            raise Refused(f"{service} does not start: {found.failing}\n  weft logs {service}/INDEX shows more")
        ready = sum(each.status == "ready" and each.current for each in found.replicas)
        if ready >= max(found.wanted, 1 if found.min_replicas else 0):
            ready_at = min(ready_at, time.monotonic())
            if not found.watched or time.monotonic() > ready_at + GATE_WAIT_S:
                return
        if reason != (reason := found.waiting_for or found.failing):
            since = time.monotonic()
        if reason not in ("", told) and time.monotonic() >= since + REASON_AFTER_S:
            on_reason(reason)
            told = reason
        if time.monotonic() > until:
            waits = f": {reason}" if reason else ""
            raise Refused(
                f"{ready} of {found.wanted} replicas of {found.name} are ready after {timeout_s:g} s{waits}\n"
                f"  weft services and weft logs {found.name}/INDEX show more"
            )
        time.sleep(POLL_S)
