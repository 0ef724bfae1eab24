"""The web page of a cluster: users log in with their tokens, and the scheduler decides what each may do."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.peers.browser import browser, is_installed
from support.running.live_cluster import PLAIN, cluster
from support.running.local_scheduler import until
from support.running.secured_cluster import Gate, free_port, gate
from support.running.web_page import Page
from weft.access.auth.tokens import Tokens
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.credentials import is_listening

Served = tuple[Gate, Page]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    port = free_port()
    with gate("--web-port", str(port), tls=False, worker=True) as made:
        page = Page(port)
        until(lambda: is_listening(Address("127.0.0.1", port)))
        until(lambda: page.send("GET", "/healthz").status == 200)
        yield made, page


def test_a_user_logs_in_with_a_token_and_changes_own_jobs_alone(served: Served) -> None:
    gate, page = served
    assert b"token" in page.send("GET", "/login").body
    assert page.log_in_with("weft.no.secret").headers["location"] == "/login?wrong=1"
    assert page.log_in_with(gate.credentials("worker", "ada", "n9").token).headers["location"] == "/login?role=1"
    at = ("--scheduler", str(gate.where))
    assert gate.weft("submit", *at, "--", "sleep", "600").returncode == 0
    ada = Page(page.port)
    shown = gate.credentials("user", "ada")
    assert ada.log_in_with(shown.token).status == 200
    assert ada.get("/api/v1/session").json["user"] == "ada"
    until(lambda: ada.get("/api/v1/jobs").json["total"] == 1)
    assert ada.get("/api/v1/jobs/1").status == 200
    assert ada.get("/api/v1/jobs/1/log").status == 403, "the output belongs to another user"
    assert ada.post("/api/v1/jobs/1/cancel").status in (400, 403)
    owner = Page(page.port)
    owner.log_in_with(gate.owner().token)
    assert owner.post("/api/v1/jobs/1/cancel").status == 200
    tokens = Tokens(gate.folder)
    tokens.revoke(shown.token.split(".")[1])
    tokens.close()
    assert ada.get("/api/v1/jobs").status == 401, "a revoked token ends the session"


def test_one_time_links_do_not_open_the_page_of_a_cluster(served: Served) -> None:
    _, page = served
    assert page.send("GET", "/login?token=guess").headers["location"] == "/login?expired=1"
    assert page.send("POST", "/links", Origin=page.origin).status == 401


def test_the_page_starts_again_if_it_dies_and_ends_with_its_server(served: Served) -> None:
    gate, page = served
    first = _page_pid(gate)
    os.kill(first, signal.SIGKILL)
    until(lambda: _page_pid(gate) not in (0, first))
    until(lambda: page.send("GET", "/healthz").status == 200)


@pytest.mark.skipif(
    not is_installed() and os.environ.get("CI") != "true", reason="chromium or chromedriver is not installed"
)
def test_the_log_of_every_rank_can_be_read() -> None:
    port = free_port()
    with cluster("n1", "n2", options=(*PLAIN, "--web-port", str(port))) as made, browser() as window:
        job = made.submit("sh", "-c", "echo rank $WEFT_NODE_RANK speaks", flags=("--gpus", "4"))
        made.until_status(job, "done")
        until(lambda: is_listening(Address("127.0.0.1", port)))
        window.open(f"http://127.0.0.1:{port}/login")
        window.type("input[name=token]", made.credentials().token)
        window.click("form button")
        window.until("document.querySelector('main .stats') !== null")
        window.open(f"http://127.0.0.1:{port}/jobs/{job}")
        window.until("document.body.innerText.includes('rank 0 speaks')")
        ranks = "document.querySelector('select[aria-label=Rank]')"
        shown = [f"rank {rank}: {node}" for rank, node in enumerate(made.job(job)["last_nodes"])]
        assert window.run(f"return [...{ranks}.options].map((each) => each.innerText)") == shown
        assert len(shown) == 2
        window.run(f"{ranks}.value = 1; {ranks}.dispatchEvent(new Event('change'))")
        window.until("document.body.innerText.includes('rank 1 speaks')")


def _page_pid(gate: Gate) -> int:
    """Return the pid of the page: the child of the server that runs weft.web."""
    children = Path(f"/proc/{gate.process.pid}/task/{gate.process.pid}/children").read_text().split()
    for pid in children:
        with suppress(OSError):
            if b"weft.web" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                return int(pid)
    return 0
