"""Choices of jobs, the file of targets, and the addresses to which webhooks may lead."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.access.notify.targets import TargetsCache, parse_targets, read_targets
from weft.errors import InputError, WeftError
from weft.inputs.notify_choice import EVENTS, NotifyChoice, parse_notify, stored_choice

FILE = """
default: [team]
webhooks: ["https://hooks.example.org/services/"]
targets:
  team: {webhook: "https://chat.example.org/hook/1"}
  mail: {email: "{user}@example.org", smtp: "mail.example.org:587", user: weft, password_file: /p, from: a@b.c}
  page: {command: [/usr/bin/page, --low]}
  screen: {desktop: true}
"""


def test_a_choice_has_events_and_targets() -> None:
    assert parse_notify("failed,done") == NotifyChoice(("done", "failed"))
    assert parse_notify("ended@team, mail") == NotifyChoice(("done", "failed", "cancelled"), ("team", "mail"))
    assert str(parse_notify("started,done@team,team")) == "started,done@team"


@pytest.mark.parametrize(
    "text",
    ["", "done,", "soon", "done@", "done@a b", "done@-x", "done@http://x", "done@https://u@h/", "done@" + "x" * 99],
)
def test_a_bad_choice_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_notify(text)
    assert stored_choice(text) == NotifyChoice(())


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(EVENTS), min_size=1), st.lists(st.from_regex(r"[a-z][a-z0-9_.-]{0,9}", fullmatch=True)))
def test_a_choice_is_read_back_as_it_was(events: list[str], targets: list[str]) -> None:
    found = parse_notify(",".join(events) + (f"@{','.join(targets)}" if targets else ""))
    assert parse_notify(str(found)) == found
    assert set(found.events) == set(events)


def test_the_file_describes_targets() -> None:
    targets = parse_targets(FILE, "notify.yaml")
    assert targets.default == ("team",)
    assert targets.resolve(parse_notify("done")) == ("team",)
    assert targets.resolve(parse_notify("done@page,screen")) == ("page", "screen")
    mail = targets.find("mail")
    assert (mail.kind, mail.options["security"], mail.place) == ("email", "starttls", "{user}@example.org")
    assert targets.find("team").place == "chat.example.org", "the path of a webhook is a secret"


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("https://hooks.example.org/services/T0/B0", True),
        ("https://hooks.example.org/services/../admin", False),
        ("https://hooks.example.org/services/%2e%2e/admin", False),
        ("https://hooks.example.org/other", False),
        ("https://hooks.example.org.evil.org/services/x", False),
        ("https://hooks.example.org:8443/services/x", False),
        ("https://127.0.0.1/services/x", False),
    ],
)
def test_jobs_name_only_webhooks_that_the_file_allows(address: str, allowed: bool) -> None:
    targets = parse_targets(FILE, "notify.yaml")
    if allowed:
        assert targets.resolve(parse_notify(f"done@{address}")) == (address,)
    else:
        with pytest.raises(InputError, match="not allowed"):
            targets.check(f"done@{address}")


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("targets:\n  a: {desktop: true, webhook: x}", 2, "has no kind, or several"),
        ("targets:\n  a: {}", 2, "has no kind"),
        ("targets:\n  a: {webhook: 'ftp://x'}", 2, "begins with https"),
        ("targets:\n  a: {command: [page]}", 2, "no absolute path"),
        ("targets:\n  a: {email: me, smtp: 'h:25'}", 2, "no e-mail address"),
        ("targets:\n  a: {email: 'a@b', smtp: h}", 2, "no address of a mail server"),
        ("targets:\n  a: {email: 'a@b', smtp: 'h:25', user: x}", 2, "without password_file"),
        ("targets:\n  a: {email: 'a@b', smtp: 'h:25', user: x, password_file: /p, security: none}", 2, "unprotected"),
        ("targets:\n  a: {webhook: 'https://x/', token: y}", 2, "unknown key"),
        ("targets:\n  a b: {desktop: true}", 2, "cannot be the name"),
        ("targets: {}\ndefault: [x]", 2, "unknown target"),
        ("targets: {}\nwebhooks: ['http://x']", 2, "is no address"),
        ("x: 1", 1, "unknown key"),
    ],
)
def test_an_error_in_the_file_has_its_line(text: str, line: int, what: str) -> None:
    with pytest.raises(InputError, match=what) as raised:
        parse_targets(text, "notify.yaml")
    assert raised.value.where == f"notify.yaml:{line}"


def test_the_file_must_be_private_and_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "notify.yaml"
    env = {"WEFT_NOTIFY_FILE": str(path)}
    cache = TargetsCache(env)
    with pytest.raises(InputError, match="no targets for messages are configured"):
        cache.read().check("done")
    path.write_text(FILE)
    path.chmod(0o644)
    with pytest.raises(WeftError, match="other users may read"):
        read_targets(env)
    path.chmod(0o600)
    cache.read().check("done@team")
    with pytest.raises(InputError, match="unknown target 'tem'\n  the nearest is team"):
        cache.read().check("done@tem")
