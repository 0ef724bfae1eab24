"""Access rules of the web page: one test each, by plain HTTP against a real page."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.local_scheduler import Site, site, until
from support.running.web_page import SETTINGS, Page, until_rows, web_page

READS = ("/api/v1/session", "/api/v1/overview", "/api/v1/jobs", "/api/v1/jobs/1", "/api/v1/jobs/1/log",
         "/api/v1/users", "/api/v1/teams",
         "/api/v1/services", "/api/v1/filters", "/api/v1/stream")  # fmt: skip


@pytest.fixture(scope="module")
def here() -> Iterator[Site]:
    with site(SETTINGS) as made, made.client() as client:
        made.submit(client, "sh", "-c", "echo '<b>hello</b>'; sleep 600", name="<img src=x onerror=alert(1)>")
        yield made


@pytest.fixture(scope="module")
def page(here: Site) -> Iterator[Page]:
    with web_page(here) as made:
        made.log_in()
        until_rows(made, status="running")
        yield made


def test_it_listens_on_loopback_alone(page: Page) -> None:
    assert page.process is not None
    table = Path(f"/proc/{page.process.pid}/net/tcp").read_text().splitlines()[1:]
    bound = [row.split()[1] for row in table if row.split()[3] == "0A"]
    assert [each for each in bound if each.endswith(f":{page.port:04X}")] == [f"0100007F:{page.port:04X}"]


def test_without_a_session_nothing_is_shown(page: Page) -> None:
    for path in READS:
        assert page.send("GET", path).status == 401, path
        assert page.send("GET", path, Cookie="weft=guess").status == 401, path
    assert (page.send("GET", "/").status, page.send("GET", "/jobs/1").headers["location"]) == (303, "/login")
    assert b"hello" not in page.send("GET", "/login").body


def test_a_link_works_once_and_sets_a_strict_cookie(here: Site, page: Page) -> None:
    link = here.weft("web", check=True).stdout.split()[-1]
    path = link.partition(str(page.port))[2]
    found = page.send("GET", path)
    cookie = found.headers["set-cookie"]
    assert found.status == 200
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= {part.strip() for part in cookie.split(";")}
    assert page.send("GET", path).headers["location"] == "/login?expired=1"
    record = here.paths.state / "web.json"
    assert stat.S_IMODE(record.stat().st_mode) == 0o600


def test_another_host_name_is_refused(page: Page) -> None:
    for host in ("evil.example", f"evil.example:{page.port}", "127.0.0.1.evil.example"):
        assert page.get("/api/v1/jobs", Host=host).status == 421, host
    for host in (f"localhost:{page.port}", f"127.0.0.1:{page.port}"):
        assert page.get("/api/v1/jobs", Host=host).status == 200, host


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"X_CSRF_Token": ""},
        {"X_CSRF_Token": "guess"},
    ],
)
def test_a_change_needs_this_origin_and_the_csrf_token(page: Page, headers: dict[str, str]) -> None:
    assert page.post("/api/v1/jobs/1/cancel", **headers).status == 403
    assert page.get("/api/v1/jobs/1").json["job"]["status"] == "running"


def test_another_site_reads_nothing(page: Page) -> None:
    assert page.get("/api/v1/jobs", Sec_Fetch_Site="cross-site").status == 403
    assert "access-control-allow-origin" not in page.get("/api/v1/jobs", Origin="http://evil.example").headers


def test_every_answer_has_strict_headers(page: Page) -> None:
    for path in ("/", "/login", "/static/app.js", "/api/v1/jobs", "/nosuch", "/api/v1/jobs?page=x"):
        headers = page.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "same-origin")
        assert headers["x-frame-options"] == "DENY"


def test_pages_have_no_inline_script(page: Page) -> None:
    for path in ("/", "/login"):
        text = page.get(path).body.decode()
        assert "<style" not in text
        assert " style=" not in text
        assert " onload=" not in text
        assert all(part.startswith((' src="', ' type="module" src="')) for part in text.split("<script")[1:])


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/api/v1/jobs?page=0", "page"),
        ("/api/v1/jobs?page=9999999999999999999999", "page"),
        ("/api/v1/jobs?per_page=100000", "per_page"),
        ("/api/v1/jobs?sort=;drop", "sort"),
        ("/api/v1/whatif?add_node=x", "add_node"),
        ("/api/v1/whatif", "nothing changes"),
        ("/api/v1/jobs?state=nosuch", "state"),
        ("/api/v1/jobs?nosuch=1", "nosuch"),
        ("/api/v1/jobs?q=a&q=b", "twice"),
        ("/api/v1/jobs?q=" + "a" * 300, "too long"),
        ("/api/v1/jobs?q=%00", "characters"),
        ("/api/v1/jobs/1/log?offset=-1", "offset"),
        ("/api/v1/jobs/1/log/search?q=", "search"),
        ("/api/v1/stream?topics=nosuch", "topics"),
    ],
)
def test_malformed_queries_are_refused_with_words(page: Page, path: str, words: str) -> None:
    found = page.get(path)
    assert (found.status, words in found.body.decode()) == (400, True), found


def test_unknown_jobs_and_actions_are_refused(page: Page) -> None:
    assert page.get("/api/v1/jobs/99").status == 404
    assert page.get("/api/v1/jobs/..%2f..%2fetc").status == 404
    assert page.post("/api/v1/jobs/1/nosuch").status == 400
    assert page.send("DELETE", "/api/v1/jobs/1", Cookie=page.cookie, Origin=page.origin).status == 405
    assert page.get("/static/../process.py").status in (404, 400)
    assert page.get("/static/index.html").status == 404
    assert page.get("/favicon.ico").status == 200


def test_names_and_logs_are_data(page: Page) -> None:
    assert until_rows(page, status="running")["name"] == "<img src=x onerror=alert(1)>"
    log = until(lambda: (found := page.get("/api/v1/jobs/1/log?lines=10")).json["text"] and found)
    assert log.json["text"] == "<b>hello</b>\n"
    assert log.headers["content-type"] == "application/json"
    found = page.get("/api/v1/jobs/1/log/search?q=HELLO").json
    assert [(each["line"], each["offset"]) for each in found["matches"]] == [(1, 0)]


def test_changes_reach_the_scheduler(here: Site, page: Page) -> None:
    with here.client() as client:
        job = here.submit(client, "sleep", "600", gpus="2")
        assert page.post(f"/api/v1/jobs/{job}/hold").status == 200
        assert client.job(job).status == "held"
        assert page.post(f"/api/v1/jobs/{job}/hold").status == 400
        assert page.post(f"/api/v1/jobs/{job}/release").json["ids"] == [job]
        assert page.post(f"/api/v1/jobs/{job}/cancel").status == 200
        (again,) = page.post(f"/api/v1/jobs/{job}/restart").json["ids"]
        assert again != job
        client.change("cancel", [again])


def test_a_read_only_page_changes_nothing(here: Site, page: Page) -> None:
    assert page.get("/api/v1/session").json["read_only"] is False
    assert here.weft("web", "--read-only").returncode == 2, "a page is served already"
    (here.paths.state / "web.json").unlink()
    with web_page(here, "--read-only") as other:
        other.log_in()
        assert other.get("/api/v1/session").json["read_only"] is True
        assert other.post("/api/v1/jobs/1/cancel").status == 403


def test_logging_out_ends_the_session(here: Site, page: Page) -> None:
    link = page.send("POST", "/links", Origin=page.origin, X_Weft_Key="guess")
    assert link.status == 401
    (here.paths.state / "web.json").unlink(missing_ok=True)
    with web_page(here) as other:
        other.log_in()
        assert other.post("/logout", X_CSRF_Token="guess").status == 403
        assert other.post("/logout").status == 200
        assert other.get("/api/v1/jobs").status == 401


def test_wrong_links_block_a_host_for_a_while(here: Site) -> None:
    (here.paths.state / "web.json").unlink(missing_ok=True)
    with web_page(here) as other:
        codes = {other.send("GET", f"/login?token={number}").status for number in range(25)}
        assert codes == {303, 429}
        assert other.send("GET", other.link.partition(str(other.port))[2]).status == 429
