"""Calls about the future of the queue."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from weft.access.client import HISTORY_TIMEOUT_S, Client
from weft.access.wire import messages as m
from weft.errors import WeftError
from weft.views.answers.explain import ExplainView
from weft.views.answers.forecasts import WhatIfView

ADVICE_S: Final = 6.0
"""The most time that advice on deadlines takes. The scheduler answers within 4 s, with a forecast or without."""
MAX_ADVISED_JOBS: Final = 10


def what_if(client: Client, request: m.WhatIfRequest) -> WhatIfView:
    """Return the present queue under a change, compared with the queue without it."""
    return client._ask(WhatIfView, "WhatIf", request, HISTORY_TIMEOUT_S, retry=False)


def deadline_notes(client: Client, jobs: Iterable[str]) -> list[str]:
    """Return which of these jobs may miss their deadlines, given the queue, or why that is not known. The jobs are
    there already: without an answer in time, there is no note."""
    until, notes = time.monotonic() + ADVICE_S, list[str]()
    for job, _ in zip(dict.fromkeys(jobs), range(MAX_ADVISED_JOBS), strict=False):
        left_s = until - time.monotonic()
        if left_s <= 0:
            break
        request = m.ExplainRequest(job=job, forecast=True)
        try:
            found = client._ask(ExplainView, "Explain", request, left_s, retry=False).forecast
        except WeftError:
            break
        if found is not None and found.note:
            unknown = "whether it makes its deadline is unknown: " if found.end_p50 is None else ""
            notes.append(f"job {job}: {unknown}{found.note}")
    return notes
