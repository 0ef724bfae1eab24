"""The outcomes of earlier forecasts, in a file: they outlive the server."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from weft.inputs.atomic import write_atomic

FILE: Final = "forecasts.json"
log = logging.getLogger(__name__)


class Outcomes:
    """The record of `weft.sim.forecast.calibration`, kept in the folder of a server."""

    def __init__(self, folder: Path, on_change: Callable[[Path], None] = lambda _: None) -> None:
        self._path, self._on_change = folder / FILE, on_change
        self.record: dict[str, Any] = self._read()

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            log.warning("%s cannot be read, and forecasts begin without earlier outcomes: %s", self._path, error)
            return {}
        return found if isinstance(found, dict) else {}

    async def keep(self, record: dict[str, Any]) -> None:
        if record == self.record:
            return
        self.record = record
        try:
            await asyncio.to_thread(write_atomic, self._path, json.dumps(record).encode())
        except OSError as error:  # such as a full disk: this server still knows them
            log.warning("the outcomes of forecasts cannot be saved: %s", error)
            return
        self._on_change(self._path)
