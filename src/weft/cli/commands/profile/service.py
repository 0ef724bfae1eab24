"""Find the share and the batch of a deployed service that meet a latency, by Dilu's hybrid growth search.

Each trial runs a copy of the service, SVC-trial, with one replica at one share. It sends a batch of requests at once, a
few times, and takes the median time until the last answer. The service itself goes on. On GPUs without a limit of
compute the share is only declared: see weft gpus."""

from __future__ import annotations

import argparse
import statistics
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags, render
from weft.cli.request_flags import parse_headers, read_body
from weft.cli.views.lab.growth import print_pick
from weft.cli.workload_units import latency
from weft.errors import InputError, Refused

if TYPE_CHECKING:
    from weft.access.client import Client

EXAMPLE: Final = """examples:
  weft profile service chat --slo 60ms
  weft profile service bert --slo 50ms --path /predict -d @request.json --shares 10,20,40 --max-batch 16"""

MAX_BODY_BYTES: Final = 64 << 20
ROUNDS: Final = 5


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("service", metavar="SVC", help="name of the service")
    add("--slo", metavar="T", type=latency, required=True, help="latency that a batch must meet, such as 60ms")
    add("--shares", metavar="P,P,..", default="10,20,30,40,50,60,70,80,90,100", help="percents to try (10,20,..100)")
    add("--max-batch", metavar="N", type=flags.whole_number(1, 1024), default=64, help="largest batch to try (64)")
    add("--rounds", metavar="N", type=flags.whole_number(1, 1000), default=ROUNDS, help=f"batches per trial ({ROUNDS})")
    add("--path", metavar="PATH", default="/", help="path below the service (/)")
    add("-d", "--data", metavar="TEXT|@FILE", help="body of each request, which is then a POST")
    add("-H", "--header", metavar="H", action="append", default=[], help="another header, such as 'X-Team: a'")
    add("--timeout", metavar="T", type=latency, default=300.0, help="longest start of a replica (300s)")
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    from weft.access.client.services import require_service
    from weft.access.wire.messages import ServiceChange
    from weft.lab.study.growth_search import search_inference

    shares = _shares(args.shares)
    batches = [1 << power for power in range(args.max_batch.bit_length())]
    with connection.connect(args.scheduler) as client:
        require_service(client, args.service)
        trials = _Trials(client, args)
        try:
            pick = search_inference(trials.seconds, shares, batches, args.slo)
        finally:
            if trials.name:
                client.change_service(ServiceChange(service=trials.name, verb="undeploy"))
    print_pick(args, pick, len(shares) * len(batches), {"service": args.service})
    if not args.json:
        best = pick.best
        render.print_message(
            f"in its file: share: {best.share:g}/{min(1.0, 2 * best.share):g}, concurrency: {best.batch}, "
            f"scale: {{throughput: {best.throughput:.4g}}}"
        )
    return 0


def _shares(text: str) -> list[float]:
    try:
        found = [int(word) / 100 for word in text.split(",")]
    except ValueError:
        found = []
    if not found or found != sorted(set(found)) or not 0 < found[0] <= found[-1] <= 1:
        raise InputError(f"--shares: {text[:80]!r}", hint="rising percents, such as 10,20,50,100")
    return found


class _Trials:
    """Measures batches at shares. A replica serves all batches at its share."""

    def __init__(self, client: Client, args: argparse.Namespace) -> None:
        self._client, self._args = client, args
        self.name = self._url = ""
        """The service of the trials; empty: none was deployed yet."""
        self._share = 0.0

    def seconds(self, batch: int, share: float) -> float:
        """Return the median time of a batch of this size at this share."""
        if share != self._share:
            self._deploy(share)
        times = [self._send(batch) for _ in range(self._args.rounds + 1)]
        return statistics.median(times[1:])  # the first one warms up

    def _deploy(self, share: float) -> None:
        from weft.access.client.services import wait_for_url, wait_until_ready
        from weft.access.wire.messages import ServiceChange

        change = ServiceChange(
            service=self._args.service, verb="trial", share=f"{share:g}/{share:g}", concurrency=self._args.max_batch
        )
        found = self._client.change_service(change)
        self.name, self._share = found.service, share
        wait_until_ready(self._client, self.name, self._args.timeout, found.version)
        self._url = wait_for_url(self._client, self.name)

    def _send(self, batch: int) -> float:
        """Send a batch at once; return the time until its last answer."""
        from concurrent.futures import ThreadPoolExecutor
        from time import perf_counter

        begin = perf_counter()
        with ThreadPoolExecutor(batch) as pool:
            for status in pool.map(lambda _: self._call(), range(batch)):
                if status >= 400:
                    raise Refused(
                        f"{self._args.service} answered {status} to {self._args.path}\n"
                        "  give --path, -d and -H of a request that it answers"
                    )
        return perf_counter() - begin

    def _call(self) -> int:
        from weft.access.client.service_calls import call_service
        from weft.access.endpoints.config import scheduler_address

        args = self._args
        body = None if args.data is None else read_body(args.data, MAX_BODY_BYTES)
        headers = parse_headers(args.header)
        where = scheduler_address(args.scheduler)
        with call_service(self._url, args.path, "", body, headers, args.timeout, where) as reply:
            _ = reply.body
            return reply.status
