"""A user who takes more than a share of the scheduler's CPU waits; other users and workers do not notice."""

from __future__ import annotations

import json
import threading
import time

import grpc

from support.running.secured_cluster import gate
from weft.access.endpoints.credentials import Credentials, open_channel
from weft.access.wire.messages import JobSpec, QueryRequest, SubmitRequest
from weft.access.wire.service import call

SHARE = 0.02


def test_requests_beyond_the_share_of_a_user_wait_and_others_do_not() -> None:
    with gate("--max-cpu-per-user", str(SHARE)) as here:
        ada, bob = (here.credentials("user", user) for user in ("ada", "bob"))
        stopping = threading.Event()
        many = SubmitRequest(jobs=[JobSpec(command=["true"], chdir="/")] * 2000, dry_run=True)
        answered: list[float] = []

        def flood() -> None:
            with open_channel(here.where, ada) as channel:
                while not stopping.is_set():
                    try:
                        call(channel, "Submit")(many, metadata=ada.metadata(), timeout=5.0)
                        answered.append(time.monotonic())
                    except grpc.RpcError:
                        continue  # it waited for longer than that

        def slowest_s(who: Credentials, calls: int) -> float:
            with open_channel(here.where, who) as channel:
                query, slowest = call(channel, "Query"), 0.0
                for _ in range(calls):
                    began = time.monotonic()
                    reply = query(QueryRequest(what="queue"), metadata=who.metadata(), timeout=60.0)
                    slowest = max(slowest, time.monotonic() - began)
                    assert json.loads(reply.json)["jobs"] == []
            return slowest

        floods = [threading.Thread(target=flood) for _ in range(2)]
        for each in floods:
            each.start()
        try:
            while len(answered) < 5 or time.monotonic() - answered[-1] < 2.0:  # until the bucket is empty
                time.sleep(0.05)
            theirs, others = slowest_s(ada, 2), slowest_s(bob, 20)
        finally:
            stopping.set()
            for each in floods:
                each.join()
        assert theirs > others
