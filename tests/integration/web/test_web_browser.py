"""The web page in a real Chromium: the main paths, at three widths, light and dark; nothing leaves the machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.peers.browser import Browser, browser, is_installed
from support.running.local_scheduler import Site, site
from support.running.web_page import SETTINGS, Page, web_page

pytestmark = pytest.mark.skipif(
    not is_installed() and os.environ.get("CI") != "true", reason="chromium or chromedriver is not installed"
)
HOSTILE = "<img src=x onerror=alert(1)>"
NOISE = "printf '\\033[31mred\\033[0m \\033]0;title\\007<script>document.title=1</script>\\n'; sleep 600"
WIDTHS = ((1440, 900), (900, 1100), (390, 844))
SHADES = ("light", "dark")
DARK_PAGES = ("/",)


@pytest.fixture(scope="module")
def here() -> Iterator[Site]:
    with site(SETTINGS) as made, made.client() as client:
        made.submit(client, "sh", "-c", NOISE, name=HOSTILE)
        made.submit(client, "sleep", "600", name="waits", gpus="2")
        yield made


@pytest.fixture(scope="module")
def page(here: Site) -> Iterator[Page]:
    with web_page(here) as made:
        yield made


@pytest.fixture(scope="module")
def window(page: Page) -> Iterator[Browser]:
    with browser() as made:
        made.size(1440, 900)
        made.open(page.link)
        made.until("document.querySelector('main .stats') !== null")
        yield made


def test_the_main_paths(window: Browser, page: Page) -> None:
    window.until("document.querySelector('.cell.busy') !== null")
    assert HOSTILE in window.text()
    window.click("nav a[href='/jobs']")
    window.until("document.querySelectorAll('main tbody tr').length === 2")
    window.type("input[type=search]", "wait")
    window.until("document.querySelectorAll('main tbody tr').length === 1")
    assert window.address.endswith("/jobs?q=wait")
    window.click("main tbody a")
    window.until("document.body.innerText.includes('Why it waits')")
    window.click("button[data-verb=hold]")
    window.until("document.querySelector('.job-state .badge').innerText === 'held'")
    window.click("button[data-verb=release]")
    window.until("document.querySelector('.job-state .badge').innerText === 'waiting'")
    window.click("button[data-verb=cancel]")
    window.click("dialog [data-confirm]")
    window.until("document.querySelector('.job-state .badge').innerText === 'cancelled'")
    window.open(f"{page.origin}/jobs/1")
    window.until("document.querySelector('.log-line') !== null")
    assert "red <script>document.title=1</script>" in window.text()
    assert window.run("return document.querySelector('.log-line .c1').innerText") == "red"
    assert window.run("return document.images.length") == 1, "the icon of the page"
    window.type(".log-tools input[type=search]", "RED")
    window.until("document.querySelector('.log-match') !== null")
    assert "hacked" not in window.run("return document.title")
    assert window.problems() == []


def test_earlier_output_has_every_line(window: Browser, page: Page, here: Site) -> None:
    """A log grows past what the page keeps, in two steps; then all of it is read from the end to the beginning."""
    lines = "for i in range({}, {}): print(f'line {{i}} \\u00e9', flush=False)"
    program = (
        f"import os, sys, time\n{lines.format(0, 300)}\nsys.stdout.flush()\nos.write(1, b'not \\xff\\xfe text\\n')\n"
        f"while not os.path.exists('go'): time.sleep(0.05)\n{lines.format(300, 9000)}\n"
    )
    with here.client() as client:
        client.change("hold", ["2"])  # under fifo, no job may pass it
        job = here.submit(client, sys.executable, "-c", program, name="talks", gpus="0")
    shown = "[...document.querySelectorAll('.log-line')].map((each) => each.innerText)"
    window.open(f"{page.origin}/jobs/{job}")
    window.until(f"{shown}.some((each) => each.startsWith('not '))")
    Path(here.root, "go").touch()
    window.until(f"{shown}.some((each) => each === 'line 8999 é')")
    assert window.run(f"return {shown}.length") <= 5000
    window.until(
        "[document.querySelector('.log-tools button')].map((each) => { if (!each.hidden) each.click(); "
        "return each.hidden; })[0]"
    )
    numbers = window.run(f"return {shown}.filter((each) => each.startsWith('line')).map((each) => +each.split(' ')[1])")
    assert numbers == list(range(9000))
    assert window.run(f"return {shown}.includes('not ?? text')")


def test_the_nodes_follow_the_stream_while_a_table_has_the_focus(window: Browser, page: Page, here: Site) -> None:
    with here.client() as client:
        client.change("hold", ["2"])  # under fifo, no job may pass it
        window.open(f"{page.origin}/nodes")
        window.until("document.querySelector('.node-grid .table-wrap') !== null")
        window.run("document.querySelector('.node-grid .table-wrap').focus()")
        window.requests()
        job = here.submit(client, "sleep", "600", name="moves", gpus="1")
        link = f"document.querySelector('.node-grid a[href=\"/jobs/{job}\"]')"
        window.until(f"{link} !== null")
        assert window.run("return document.activeElement.className") == "table-wrap"
        window.run(f"{link}.focus()")
        client.change("cancel", ["1"])
        window.until("document.querySelector('.node-grid a[href=\"/jobs/1\"]') === null")
        assert window.run(f"return document.activeElement === {link}")
        client.change("cancel", [job])
        window.until(f"{link} === null")
    assert [each for each in window.requests() if each.endswith("/overview")] == [], "the stream carries the rows"
    assert window.problems() == []


def test_what_another_policy_would_change(window: Browser, page: Page, here: Site) -> None:
    with here.client() as client:
        for name in ("first", "second"):
            here.submit(client, "sleep", "600", name=name, gpus="2", duration="10m")
    window.open(f"{page.origin}/policies")
    window.until("document.querySelector('#policy') !== null")
    window.run("document.querySelector('#policy').value = 'srsf'")
    window.click("form.filters button")
    window.until("document.querySelector('main .stats') !== null")
    assert window.address.endswith("/policies?policy=srsf")
    assert "Average wait" in window.text()
    assert window.problems() == []


@pytest.mark.soak  # pictures of all pages take a minute
def test_every_page_fits_at_every_width(window: Browser, page: Page, tmp_path: Path) -> None:
    for path in ("/", "/jobs", "/jobs/1", "/nodes", "/services", "/users", "/policies?add_node=8"):
        for width, height in WIDTHS:
            for shade in SHADES if path in DARK_PAGES else SHADES[:1]:
                window.size(width, height, dark=shade == "dark")
                window.open(page.origin + path)
                window.until("document.querySelector('main .page') !== null")
                name = f"{path.strip('/').replace('/', '-') or 'overview'}-{width}-{shade}.png"
                (tmp_path / name).write_bytes(window.picture())
                assert (tmp_path / name).stat().st_size > 5000, "a picture of something"
                assert window.run("return document.documentElement.scrollWidth <= innerWidth"), f"{name} is too wide"
    assert window.problems() == []


def test_pages_that_were_left_hold_no_connections(window: Browser, page: Page) -> None:
    for path in ("/", "/jobs", "/nodes", "/services", "/users", "/policies", "/jobs/1", "/"):
        window.open(page.origin + path)
        window.until("document.querySelector('main .page') !== null")


def test_a_page_that_comes_back_from_the_cache_of_the_browser_follows_again(
    window: Browser, page: Page, here: Site
) -> None:
    def pass_by(event: str) -> None:
        window.run(f"dispatchEvent(new PageTransitionEvent('{event}', {{ persisted: true }}))")

    def shown(job: str) -> str:
        return f"document.querySelector('main a[href=\"/jobs/{job}\"]')"

    window.open(f"{page.origin}/jobs")
    window.until("document.querySelector('main .page') !== null")
    with here.client() as client:
        pass_by("pagehide")
        away = here.submit(client, "sleep", "600", name="came-while-away", gpus="2")
        pass_by("pageshow")
        window.until(f"{shown(away)} !== null")
        later = here.submit(client, "sleep", "600", name="came-later", gpus="2")
        window.until(f"{shown(later)} !== null")
        client.change("cancel", [away, later])
    assert window.problems() == []


def test_teams_are_next_to_their_users(here: Site, window: Browser, page: Page) -> None:
    here.weft("team", "add", "vision", "--guarantee", "1", "--max", "2", "--members", "ann,bo")
    window.open(f"{page.origin}/users")
    window.until("document.querySelectorAll('main table').length === 2")
    row = window.run(
        "return [...document.querySelectorAll('main table')[1].tBodies[0].rows[0].cells].map(x => x.innerText)"
    )
    assert row == ["vision", "0 GPUs", "1", "0", "0", "0", "ann, bo"]
    assert window.problems() == []


def test_no_request_leaves_the_machine(window: Browser, page: Page) -> None:
    window.open(page.origin)
    window.until("document.querySelector('main .stats') !== null")
    sent = [each for each in window.requests() if each.startswith(("http", "ws"))]
    assert sent
    assert [each for each in sent if not each.startswith(page.origin + "/")] == []
