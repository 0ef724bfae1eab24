"""Delivery by real receivers: an HTTP server, a mail server, programs; and what counts as failed for good."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.peers.message_receivers import mail_server, webhook
from weft.access.notify.__main__ import deliver
from weft.access.notify.delivery import MAX_DELAY_S, http_problem, retry_delay_s
from weft.access.notify.targets import TargetsCache
from weft.access.notify.texts import counts_text, event_of_counts, job_text, message

MESSAGE = message("job/7/done/1.0", "done", 1.0, job_text("7", "<!channel> & co", "done"), "host", job={"user": "ann"})


class Post:
    """A targets file, and one attempt to deliver by it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "notify.yaml"
        self._targets = TargetsCache({"WEFT_NOTIFY_FILE": str(self._path)})

    def __call__(self, target: str, sent: dict[str, Any] = MESSAGE) -> dict[str, Any]:
        self._path.write_text(f"targets:\n  x: {target}\n")
        self._path.chmod(0o600)
        return deliver(self._targets, {"target": "x", "message": sent})


@pytest.fixture
def post(tmp_path: Path) -> Post:
    return Post(tmp_path)


def private(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_webhook_gets_json_that_slack_reads(post: Post, tmp_path: Path) -> None:
    token = private(tmp_path / "token", "secret\n")
    with webhook() as hook:
        assert post(f"{{webhook: '{hook.url}', token_file: {token}}}")["ok"]
    assert hook.messages == [MESSAGE]
    assert MESSAGE["message"] == "job 7 (<!channel> & co) is done, after 0:00"
    assert MESSAGE["text"] == "job 7 (&lt;!channel&gt; &amp; co) is done, after 0:00", (
        "no name of a job mentions people"
    )
    headers = hook.headers[0]
    assert (headers["Authorization"], headers["Idempotency-Key"]) == ("Bearer secret", "job/7/done/1.0")


def test_a_webhook_that_refuses_or_redirects_is_not_tried_again(post: Post) -> None:
    with webhook() as hook, webhook() as other:
        hook.answers = [(404, {}), (302, {"Location": other.url}), (503, {}), (429, {"Retry-After": "40"})]
        found = [post(f"{{webhook: '{hook.url}'}}") for _ in range(4)]
    assert [each["permanent"] for each in found] == [True, True, False, False]
    assert found[3]["retry_s"] == 40.0
    assert other.asked == 0
    gone = post(f"{{webhook: '{hook.url}'}}")
    assert not gone["ok"]
    assert not gone["permanent"]


def test_the_address_of_a_webhook_may_be_in_a_private_file(post: Post, tmp_path: Path) -> None:
    with webhook() as hook:
        private(tmp_path / "url", hook.url, 0o644)
        refused = post(f"{{webhook_file: {tmp_path}/url}}")
        assert "other users may read" in refused["why"]
        (tmp_path / "url").chmod(0o600)
        assert post(f"{{webhook_file: {tmp_path}/url}} # again")["ok"]
    assert len(hook.messages) == 1


def test_mail_goes_to_the_user_of_the_job(post: Post) -> None:
    with mail_server() as box:
        target = f"{{email: '{{user}}@example.org', smtp: '127.0.0.1:{box.port}', from: weft@example.org}}"
        assert post(target) == {"ok": True, "why": "", "permanent": False, "retry_s": 0.0}
        to, text = box.mails[0]
        assert to == ["ann@example.org"]
        assert "Subject: [weft] job 7 (<!channel> & co) is done" in text
        assert "Message-ID: <job.7.done.1.0@weft.host>" in text
        hostile = message("k", "done", 1.0, "x", "host", job={"user": "a,b\n"})
        assert post(target, hostile)["permanent"]
        box.answer = "550 no such user"
        assert post(target)["permanent"]
        box.answer = "451 later"
        assert not post(target)["permanent"]
    assert len(box.mails) == 1


def test_a_program_gets_the_message_and_no_argument_of_a_job(post: Post, tmp_path: Path) -> None:
    out = tmp_path / "out"
    body = f'#!/bin/sh\nprintf "%s " "$#" "$1" "$WEFT_NOTIFY_EVENT" > {out}\ncat >> {out}\nenv >> {out}\n'
    program = private(tmp_path / "page", body, 0o700)
    os.environ["SECRET_OF_SERVER"] = "hidden"
    try:
        assert post(f"{{command: [{program}, --low]}}")["ok"]
    finally:
        del os.environ["SECRET_OF_SERVER"]
    text = out.read_text()
    assert text.startswith("1 --low done {")
    assert json.loads(text[len("1 --low done ") : text.index("}}") + 2]) == MESSAGE
    assert "SECRET_OF_SERVER" not in text
    private(program, "#!/bin/sh\necho out of paper >&2; exit 3\n", 0o700)
    failed = post(f"{{command: [{program}, --low]}} # 2")
    assert (failed["permanent"], failed["why"]) == (False, f"{program} ended with code 3: out of paper")
    assert post(f"{{command: [{tmp_path}/gone]}}")["permanent"]


def test_the_desktop_is_reached_by_notify_send(post: Post, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = post("{desktop: true}")
    assert missing["permanent"]
    private(tmp_path / "notify-send", f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/shown\n', 0o700)
    assert post("{desktop: true} # again")["ok"]
    shown = (tmp_path / "shown").read_text().splitlines()
    assert shown[-2:] == ["weft", MESSAGE["text"]]
    assert "--urgency=normal" in shown


def test_texts_count_arrays_and_groups() -> None:
    assert counts_text("array 7", "train", {"done": 30}) == "array 7 (train): 30 of 30 done"
    assert counts_text("group g", "", {"done": 27, "failed": 2, "cancelled": 1}) == (
        "group g: 27 of 30 done, 2 failed, 1 cancelled"
    )
    assert [event_of_counts(each) for each in ({"done": 1}, {"done": 1, "failed": 1}, {"cancelled": 2})] == [
        "done", "failed", "cancelled",
    ]  # fmt: skip
    text = job_text("7", "a\nb", "failed", run_s=75.0, why="exit code 1, \x1b[31m")
    assert text == "job 7 (a\\nb) failed: exit code 1, \\x1b[31m, after 1:15"


@given(st.integers(0, 1000), st.floats(0, 1e9))
def test_delays_grow_and_are_limited(failures: int, asked_s: float) -> None:
    delay = retry_delay_s(failures, asked_s)
    assert min(asked_s, MAX_DELAY_S) <= delay <= MAX_DELAY_S
    assert delay <= retry_delay_s(failures + 1, asked_s)


@given(st.integers(100, 599), st.text(max_size=5))
def test_answers_are_delivered_refused_or_temporary(status: int, retry_after: str) -> None:
    problem = http_problem(status, retry_after)
    assert (problem is None) == (200 <= status < 300)
    assert problem is None or problem.permanent == (status < 500 and status not in (408, 425, 429))
