"""`python -m benchmarks.screen_client LINES REPORT COUNT`: weft top, for the benchmark `screen`.

All lines but the last COUNT come at once, then two each second. REPORT gets the CPU seconds of the start, and the CPU
seconds per second of changes after it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from weft.errors import Refused
from weft.server.api.changes import PERIOD_S
from weft.tui.app import Top
from weft.tui.sources.base import Link, Outcome, Receive
from weft.views.answers.base import decode
from weft.views.answers.changes import ChangesView
from weft.views.answers.explain import ExplainView
from weft.views.answers.jobs import JobDetailView

SETTLE_S = 8.0


class PlayedSource:
    title, simulated = "benchmark", False

    def __init__(self, lines: Sequence[str], count: int, report: Path) -> None:
        self._first, self._later, self._report = lines[:-count], lines[-count:], report
        self.app: Top | None = None

    def start(self, receive: Receive) -> None:
        threading.Thread(target=self._play, args=(receive,), daemon=True).start()

    def _play(self, receive: Receive) -> None:
        receive(Link("● live", True))
        for line in self._first:
            receive(decode(ChangesView, line))
        time.sleep(SETTLE_S)
        start_s = time.process_time()
        for line in self._later:
            receive(decode(ChangesView, line))
            time.sleep(PERIOD_S)
        share = (time.process_time() - start_s) / (len(self._later) * PERIOD_S)
        self._report.write_text(f"{start_s} {share}")
        assert self.app is not None
        self.app.call_from_thread(self.app.exit)

    def stop(self) -> None: ...

    def job(self, job: str) -> JobDetailView:
        raise Refused(job)

    def explain(self, job: str, *, forecast: bool = False) -> ExplainView:  # noqa: ARG002
        raise Refused(job)

    def change(self, verb: str, jobs: Sequence[str], settings: dict[str, str]) -> Outcome:
        raise Refused(f"{verb} {jobs} {settings}")

    def follow_log(self, job: str, receive: Callable[[bytes], None]) -> Callable[[], None]:  # noqa: ARG002
        raise Refused(job)


if __name__ == "__main__":
    lines = Path(sys.argv[1]).read_text().split("\n")
    source = PlayedSource(lines, int(sys.argv[3]), Path(sys.argv[2]))
    source.app = Top(source)
    source.app.run()
