"""The failed jobs of a cell: their exit codes and the ends of their logs, kept before the cluster is gone."""

from __future__ import annotations

from typing import Any, Final

from weft.access.client import Client
from weft.errors import NotFound, WeftError

TAIL_LINES: Final = 20
MAX_KEPT_LOGS: Final = 50
"""Jobs of a cell whose logs are kept. More failures rarely have other reasons."""


def failed_jobs(client: Client, group: str) -> list[dict[str, Any]]:
    """Return the failed jobs of a group. A cell counts them in no figure, so its result says why they failed."""
    try:
        jobs = client.jobs(group=group).jobs
    except NotFound:
        return []
    failed = [job for job in jobs if job.status == "failed"]
    return [
        {
            "job": job.id, "name": job.name, "run": job.run, "exit_code": job.last_exit_code, "why": job.why,
            "log": _tail(client, job.id) if number < MAX_KEPT_LOGS else "",
        }
        for number, job in enumerate(failed)
    ]  # fmt: skip


def warning(failed: list[dict[str, Any]]) -> str:
    """Return what the output and the report say of failed jobs; empty if there are none."""
    if not failed:
        return ""
    jobs = "1 job failed and counts" if len(failed) == 1 else f"{len(failed):,} jobs failed and count"
    codes = ", ".join(sorted({str(job["exit_code"]) for job in failed}))
    return f"{jobs} in no figure (exit code {codes}); cell.json has the ends of their logs"


def _tail(client: Client, job: str) -> str:
    try:
        return b"".join(client.logs(job, lines=TAIL_LINES)).decode(errors="replace")
    except WeftError as error:
        return f"(no log: {error})"
