"""Calls about the future of the queue."""

from __future__ import annotations

from weft.client import HISTORY_TIMEOUT_S, Client
from weft.wire import messages as m
from weft.wire.views.forecasts import WhatIfView


def what_if(client: Client, request: m.WhatIfRequest) -> WhatIfView:
    """Return the present queue under a change, compared with the queue without it."""
    return client._ask(WhatIfView, "WhatIf", request, HISTORY_TIMEOUT_S, retry=False)
