"""Ray: an allocation is a Ray job that holds the GPUs of one node, asked for over the Jobs REST API.

A job that waits is demand of Ray's autoscaler. Nothing of Ray is imported: its version and Python do not matter.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, Final

from weft.model.pool import Pool
from weft.server.pools.pilot import shell_script
from weft.server.pools.provider import (
    CALL_TIMEOUT_S,
    AllocationSpec,
    AllocationStatus,
    ProviderError,
    ProviderPhase,
    Site,
    cut,
)

PHASES: Final[dict[str, ProviderPhase]] = {"PENDING": "pending", "RUNNING": "running"}
"""The phases of Ray's states; all others have ended."""
MAX_ANSWER_BYTES: Final = 64 << 20


class RayJobs:
    title = "Ray"

    def __init__(self, site: Site, pool: Pool) -> None:
        self._url = pool.setting("url").rstrip("/")
        self._token_file = pool.setting("token-file")
        self._prefix = f"weft-{site.cluster}-"
        # the address is the site's own: no proxy
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def request(self, allocation: AllocationSpec) -> str:
        answer = self._call("POST", "/api/jobs/", self._body(allocation))
        return str(answer.get("submission_id") or answer.get("job_id"))

    def release(self, id: str) -> None:
        try:
            self._call("POST", f"/api/jobs/{urllib.parse.quote(id)}/stop", {})
        except _NotFound:  # it has ended, and Ray has forgotten it
            return

    def observe(self) -> Sequence[AllocationStatus]:
        jobs = self._call("GET", "/api/jobs/")
        found = jobs if isinstance(jobs, list) else list(jobs.values())
        return [self._status(job) for job in found if str(job.get("submission_id")).startswith(self._prefix)]

    def check(self, allocation: AllocationSpec) -> None:  # noqa: ARG002
        """Check that the Jobs API answers, and accepts the token."""
        version = self._call("GET", "/api/version")
        if "ray_version" not in version:
            raise ProviderError(
                f"{self._url} is not the dashboard of a Ray cluster\n  give its address: http://HEAD:8265"
            )
        self._call("GET", "/api/jobs/")

    def script(self, allocation: AllocationSpec) -> str:
        return json.dumps(self._body(allocation), indent=2)

    def log(self, allocation: AllocationSpec, id: str) -> str:  # noqa: ARG002
        return cut(str(self._call("GET", f"/api/jobs/{urllib.parse.quote(id)}/logs").get("logs", "")))

    def _body(self, allocation: AllocationSpec) -> dict[str, Any]:
        """Return the request. Options of the site are further fields of it, as NAME=VALUE with JSON values."""
        pool = allocation.pool
        begin = f"ends=$(($(date +%s) + {math.floor(pool.time_s)}))\n"
        more = ' --ends-at "$ends"'
        if not allocation.site.is_loopback:
            more += ' --addr "$(hostname):0"'
        script = shell_script(allocation, slot=shlex.quote(allocation.slot), begin=begin, more=more)
        body: dict[str, Any] = {
            "entrypoint": f"sh -c {shlex.quote(script)}",
            "submission_id": f"{self._prefix}{allocation.key}",
            "metadata": {"weft_pool": pool.name, "weft_node": allocation.slot},
            "entrypoint_num_gpus": pool.gpus,
        }
        if pool.cpus:
            body["entrypoint_num_cpus"] = pool.cpus
        if pool.ram_mb:
            body["entrypoint_memory"] = pool.ram_mb << 20
        for option in pool.options:
            name, equals, value = option.partition("=")
            if not equals:
                raise ProviderError(
                    f"option {option[:80]!r} is not NAME=VALUE\n"
                    """  fields of Ray's request, such as 'entrypoint_label_selector={"market": "spot"}'"""
                )
            body[name] = _json_or_text(value)
        return body

    def _status(self, job: Mapping[str, Any]) -> AllocationStatus:
        id, state = str(job["submission_id"]), str(job.get("status"))
        phase = PHASES.get(state, "ended")
        reason = " ".join(str(job.get("message") or "").split())[:200] if phase == "pending" else ""
        return AllocationStatus(id.removeprefix(self._prefix), id, phase, state, reason)

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data, self._headers(), method=method)
        try:
            with self._opener.open(request, timeout=CALL_TIMEOUT_S) as answer:
                return json.loads(answer.read(MAX_ANSWER_BYTES) or b"{}")
        except urllib.error.HTTPError as error:
            words = " ".join(error.read(4000).decode(errors="replace").split()[-60:])[-400:]
            kind = _NotFound if error.code == 404 else ProviderError
            hint = "\n  give a file with a valid token: --token-file" if error.code in (401, 403) else ""
            raise kind(f"Ray at {self._url} refuses the request ({error.code}): {words}{hint}") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise ProviderError(f"Ray at {self._url} does not answer: {reason}") from None

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json"}
        if self._token_file:
            path = os.path.expanduser(self._token_file)
            try:
                with open(path) as file:
                    headers["Authorization"] = f"Bearer {file.read().strip()}"
            except OSError as error:
                raise ProviderError(f"cannot read the token in {path}: {error.strerror}") from None
        return headers


class _NotFound(ProviderError):
    """Ray does not know what the request names."""


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
