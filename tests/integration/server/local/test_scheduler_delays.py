"""Jobs that ask to be tried later: the next run waits, across restarts of the scheduler too."""

from __future__ import annotations

from itertools import pairwise

from support.running.local_scheduler import Site, site, until
from weft.access.client import Client
from weft.history.journal.sqlite import SqliteJournal
from weft.model import Exited, Start
from weft.views.answers.jobs import JobDetailView


def look(client: Client, job: str) -> JobDetailView:
    return client.job(job)


def test_a_job_that_is_to_be_tried_later_waits_longer_each_time() -> None:
    with site({"gpus": "0"}) as here:
        flag = here.root / "there"
        with here.client() as client:
            job = here.submit(client, "sh", "-c", f"test -e {flag} || exit 75")
            until(lambda: look(client, job).reason == "BeginTime")
            why = client.explain(job)
            assert (why.reasons[0].code, why.status) == ("BeginTime", "blocked")
            assert (why.expected_start or "") >= (why.now or "")
            until(lambda: look(client, job).requeues == 2)
            here.kill9()
        with here.client() as client:
            until(lambda: look(client, job).requeues == 3)
            flag.touch()
            assert client.wait(job).status == "done"
        assert delays(here, job) == [1.0, 2.0, 4.0, 0.0]


def delays(here: Site, job: str) -> list[float]:
    """The delays as journalled; each next run really waited for this long."""
    with SqliteJournal(here.paths.journal_url, readonly=True) as journal:
        facts = [fact for fact in journal.read() if isinstance(fact, Start | Exited) and fact.job == job]
    for one, other in pairwise(facts):
        if isinstance(one, Exited):
            assert isinstance(other, Start)
            assert other.at >= one.at + one.delay_s
    return [fact.delay_s for fact in facts if isinstance(fact, Exited)]
