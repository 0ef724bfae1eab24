"""Messages of a real scheduler: jobs, arrays, groups, a receiver that is down, a scheduler that is killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.peers.message_receivers import Webhook, mail_server, webhook
from support.running.local_scheduler import Site, site, until


@pytest.fixture
def here() -> Iterator[Site]:
    with site({"gpus": "0,1", "idle_s": 60.0}) as made:
        yield made


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as made:
        yield made


def configure(here: Site, text: str) -> Path:
    path = here.root / ".config" / "weft" / "notify.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_jobs_arrays_and_groups_lead_to_messages(here: Site, hook: Webhook) -> None:
    refused = here.weft("submit", "--notify", "done", "--gpus", "0", "--", "true")
    assert refused.returncode == 2
    assert "no targets for messages are configured" in refused.stderr
    with mail_server() as box:
        mail = f"{{email: a@example.org, smtp: '127.0.0.1:{box.port}'}}"
        configure(here, f"default: [team]\ntargets:\n  team: {{webhook: '{hook.url}'}}\n  mail: {mail}\n")
        assert "unknown target" in here.weft("submit", "--notify", "done@tem", "--", "true").stderr
        here.weft("notify", "test", "mail", check=True)
        assert "messages reach mail" in box.mails[0][1]
        here.weft("group", "set", "g", "notify=done,failed@team,mail", check=True)
        words = ("--gpus", "0", "--quiet")
        here.weft(
            "submit", *words, "--array", "0-2", "--notify", "done,failed", "--name", "arr", "--", "true", check=True
        )
        here.weft("submit", *words, "--group", "g", "--name", "bad", "--notify", "failed", "--", "false", check=True)
        until(lambda: len(hook.messages) == 3 and len(box.mails) == 2)
    array, group, job = sorted(hook.texts)
    assert (array, group) == ("array 1 (arr): 3 of 3 done", "group g: 0 of 1 done, 1 failed")
    assert job.startswith("job 2 (bad) failed: exit code 1, after")
    (row, _) = json.loads(here.weft("notify", "list", "--json", check=True).stdout)["targets"]
    assert (row["name"], row["sent"], row["pending"], row["place"]) == ("team", 3, 0, "127.0.0.1")
    (found,) = json.loads(here.weft("group", "list", "--json", check=True).stdout)["groups"]
    assert found["notify"] == "done,failed@team,mail"


def test_a_message_outlives_its_receiver_and_its_scheduler(here: Site, hook: Webhook) -> None:
    configure(here, f"targets:\n  team: {{webhook: '{hook.url}'}}\n")
    hook.answers = [(503, {})]
    here.weft("submit", "--gpus", "0", "--quiet", "--notify", "done", "--", "true", check=True)
    until(lambda: hook.asked == 1)
    late = here.weft("submit", "--gpus", "0", "--quiet", "--notify", "done", "--", "sh", "-c", "sleep 0.5", check=True)
    here.kill9()
    here.weft("wait", "1", late.stdout.strip(), check=True)
    until(lambda: len(hook.messages) == 2)
    assert [message["job"]["id"] for message in hook.messages] == ["1", "2"]
    # a scheduler that dies between a delivery and its record sends the message again
    until(lambda: not list((here.paths.state / "notify").glob("[0-9]*.json")))
    here.kill9()
    here.weft("queue", check=True)
    third = here.weft("submit", "--gpus", "0", "--quiet", "--notify", "done", "--", "true", check=True)
    until(lambda: len(hook.messages) == 3)
    assert hook.messages[2]["job"]["id"] == third.stdout.strip(), "nothing was sent twice"


def test_a_file_that_others_may_read_is_refused(here: Site, hook: Webhook) -> None:
    configure(here, f"targets:\n  team: {{webhook: '{hook.url}'}}\n").chmod(0o644)
    refused = here.weft("submit", "--notify", "done", "--gpus", "0", "--", "true")
    assert refused.returncode != 0
    assert "other users may read" in refused.stderr
    assert "Traceback" not in refused.stderr
