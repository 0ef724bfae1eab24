"""The log of a server, as text or JSON lines."""

from __future__ import annotations

import json
import logging
import logging.handlers
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from weft.access.server.plan import LogFormat

MAX_LOG_BYTES: Final = 1 << 20
TEXT_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonLines(logging.Formatter):
    """One JSON object per line: at, level, logger, message, and error if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        body = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            body["error"] = self.formatException(record.exc_info)
        return json.dumps(body)


def log_to(path: Path, log_format: LogFormat, *, stderr: bool) -> None:
    """Send all log lines to a rotating file, and with `stderr` also there."""
    handlers: list[logging.Handler] = [
        logging.handlers.RotatingFileHandler(path, maxBytes=MAX_LOG_BYTES, backupCount=1)
    ]
    if stderr:
        handlers.append(logging.StreamHandler(sys.stderr))
    for handler in handlers:
        handler.setFormatter(JsonLines() if log_format == "json" else logging.Formatter(TEXT_FORMAT))
    logging.basicConfig(level=logging.INFO, handlers=handlers, force=True)
