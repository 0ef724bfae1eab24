"""Access to the metrics of a server: on loopback for everyone, elsewhere with a token, over TLS."""

from __future__ import annotations

import http.client
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.live_cluster import Cluster, cluster
from support.running.local_scheduler import until
from support.running.secured_cluster import Gate, free_port, gate
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.credentials import is_listening

Served = tuple[Gate, int]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    port = free_port()
    with gate("--metrics-host", "0.0.0.0", "--metrics-port", str(port)) as made:
        until(lambda: is_listening(Address("localhost", port)))
        yield made, port


def page(served: Served, path: str, token: str = "", **headers: str) -> tuple[int, str]:
    gate, port = served
    trusted = ssl.create_default_context(cadata=(gate.ca() or b"").decode())
    line = http.client.HTTPSConnection("localhost", port, timeout=30, context=trusted)
    line.request("GET", path, headers={**headers, **({"Authorization": f"Bearer {token}"} if token else {})})
    found = line.getresponse()
    text = found.read().decode()
    line.close()
    return found.status, text


def test_elsewhere_a_token_is_needed(served: Served) -> None:
    gate, port = served
    assert page(served, "/healthz") == (200, "alive\n")
    for path in ("/metrics", "/readyz", "/nosuch"):
        assert page(served, path)[0] == 401
    assert page(served, "/metrics", "weft.nosuch.secret")[0] == 401
    assert page(served, "/metrics", gate.credentials("worker", "ada", "n7").token)[0] == 403
    code, text = page(served, "/metrics", gate.credentials("user", "prometheus").token)
    assert (code, "weft_jobs_submitted_total" in text) == (200, True)
    assert page(served, "/readyz", gate.credentials("user", "eve").token)[0] == 200
    assert page(served, "/metrics", gate.credentials().token, Host="any.example")[0] == 200, "no browser has the token"
    plain = http.client.HTTPConnection("localhost", port, timeout=30)
    plain.request("GET", "/metrics")
    with pytest.raises((http.client.HTTPException, OSError)):
        plain.getresponse()


def test_wrong_tokens_block_a_host_for_a_while(served: Served) -> None:
    codes = {page(served, "/metrics", f"weft.{number}.guess")[0] for number in range(25)}
    assert codes == {401, 429}
    assert page(served, "/metrics", served[0].credentials().token)[0] == 429
    assert page(served, "/healthz")[0] == 200


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--metrics-host", "0.0.0.0", "--metrics-port", "0"], "no certificate for TLS"),
        (["--metrics-host", "0.0.0.0"], "--metrics-host needs --metrics-port"),
    ],
)
def test_without_a_certificate_there_is_no_other_host(tmp_path: Path, words: list[str], message: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "weft", "server", "--port", str(free_port()), *words],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_STATE_HOME": f"{tmp_path}/s"}, cwd=tmp_path,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


@pytest.fixture(scope="module")
def here() -> Iterator[Cluster]:
    with cluster("n1") as made:
        yield made


def test_a_cluster_counts_its_jobs(here: Cluster) -> None:
    done, failed = here.submit("true"), here.submit("false")
    assert (here.wait(done), here.wait(failed)) == (0, 1)
    until(lambda: here.metric('weft_job_ends_total{outcome="failed"}') == 1)
    assert here.metric("weft_jobs_submitted_total") == 2
    assert here.metric('weft_job_ends_total{outcome="done"}') == 1
    assert here.metric("weft_job_wait_seconds_count") == 2
    here.weft("clean", "--all")
    until(lambda: here.metric('weft_jobs_ended{outcome="done"}') == 0)
    assert here.metric('weft_job_ends_total{outcome="done"}') == 1, "a counter never falls"
