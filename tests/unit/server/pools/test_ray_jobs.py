"""Pools of Ray over HTTP: requests, answers and refusals, with a stand-in for the Jobs API on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from support.running.secured_cluster import free_port
from weft.model import Pool
from weft.server.pools.provider import AllocationSpec, AllocationStatus, ProviderError, Site
from weft.server.pools.ray_jobs import RayJobs

SITE = Site("0a1b2c", "head:50051", True, ("python", "-m", "weft"))


class Api(BaseHTTPRequestHandler):
    """As much of Ray's Jobs API as pools use."""

    jobs: dict[str, dict[str, Any]]
    calls: list[tuple[str, str]]

    def do_GET(self) -> None:
        if self.headers["Authorization"] != "Bearer secret":
            self._answer(401, {"error": "missing authentication token"})
        elif self.path == "/api/version":
            self._answer(200, {"version": "4", "ray_version": "2.60.0"})
        elif self.path == "/api/jobs/":
            self._answer(200, list(self.jobs.values()))
        elif self.path.endswith("/logs"):
            self._answer(200, {"logs": "one\ntwo\n"})
        else:
            self._answer(404, {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.calls.append((self.path, json.dumps(body)))
        if self.path.endswith("/stop"):
            self._answer(200 if self.path.split("/")[3] in self.jobs else 404, {"stopped": True})
        else:
            self.jobs[body["submission_id"]] = {"submission_id": body["submission_id"], "status": "PENDING"}
            self._answer(200, {"submission_id": body["submission_id"]})

    def _answer(self, code: int, body: Any) -> None:
        text = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture
def api() -> Iterator[tuple[str, type[Api]]]:
    handler = type("Handler", (Api,), {"jobs": {}, "calls": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", handler
    server.shutdown()
    server.server_close()


def pool_at(url: str, folder: Path, token: str = "secret") -> Pool:
    (folder / "token").write_text(f"{token}\n")
    return Pool("burst", "ray", 8, 4, 3600.0, settings=(("url", url), ("token-file", str(folder / "token"))))


def spec(pool: Pool) -> AllocationSpec:
    return AllocationSpec("burst-0-abc", "burst-0", pool, SITE, "/shared/burst")


def test_a_request_holds_the_gpus_of_a_node_under_a_name_that_is_found_again(
    api: tuple[str, type[Api]], tmp_path: Path
) -> None:
    url, handler = api
    pool = replace(pool_at(url, tmp_path), options=('entrypoint_label_selector={"market": "spot"}', "note=plain text"))
    provider = RayJobs(SITE, pool)
    provider.check(spec(pool))
    id = provider.request(spec(pool))
    body = json.loads(handler.calls[0][1])
    assert (body["entrypoint_num_gpus"], body["entrypoint_label_selector"]) == (8, {"market": "spot"})
    assert body["note"] == "plain text"
    assert "--id burst-0 " in body["entrypoint"]
    assert "secret" not in json.dumps(body), "no token in the request"
    assert list(provider.observe()) == [AllocationStatus("burst-0-abc", id, "pending", "PENDING")]
    assert provider.log(spec(pool), id) == "one\ntwo"
    provider.release(id)
    provider.release("weft-0a1b2c-gone")


def test_states_of_ray_become_phases_and_jobs_of_others_are_ignored(api: tuple[str, type[Api]], tmp_path: Path) -> None:
    url, handler = api
    message = "Job has not started yet.  It may be waiting for resources."
    for number, state in enumerate(("PENDING", "RUNNING", "STOPPED", "SUCCEEDED", "FAILED")):
        id = f"weft-0a1b2c-burst-{number}"
        handler.jobs[id] = {"submission_id": id, "status": state, "message": message}
    handler.jobs["raysubmit_1"] = {"submission_id": "raysubmit_1", "status": "RUNNING"}
    found = RayJobs(SITE, pool_at(url, tmp_path)).observe()
    assert [(each.key, each.phase) for each in found] == [
        ("burst-0", "pending"),
        ("burst-1", "running"),
        *((f"burst-{number}", "ended") for number in (2, 3, 4)),
    ]
    assert found[0].reason == "Job has not started yet. It may be waiting for resources."


def test_refusals_say_what_to_do(api: tuple[str, type[Api]], tmp_path: Path) -> None:
    url, _ = api
    with pytest.raises(ProviderError, match=r"refuses the request \(401\).*\n.*--token-file"):
        RayJobs(SITE, pool_at(url, tmp_path, token="wrong")).observe()
    with pytest.raises(ProviderError, match="does not answer"):
        RayJobs(SITE, pool_at(f"http://127.0.0.1:{free_port()}", tmp_path)).observe()
    with pytest.raises(ProviderError, match="cannot read the token"):
        RayJobs(SITE, replace(pool_at(url, tmp_path), settings=(("url", url), ("token-file", "/nowhere")))).observe()
    with pytest.raises(ProviderError, match="is not NAME=VALUE"):
        RayJobs(SITE, pool_at(url, tmp_path)).script(spec(replace(pool_at(url, tmp_path), options=("-p",))))
