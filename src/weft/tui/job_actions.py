"""Commands of the screen that change jobs. Those that end work ask first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.model.status import ACTIVE, ENDED
from weft.text import plural
from weft.tui.model.detail import why_lines
from weft.tui.screens.dialogs import Confirmation, Page, Question
from weft.tui.screens.job import JobScreen
from weft.tui.widgets.table import Table

if TYPE_CHECKING:
    from weft.tui.app import Top

MAX_NAMED = 8
"""Jobs that a question names."""
PAST = {"cancel": "cancelled", "hold": "held", "release": "released", "set": "changed"}


class JobActions:
    """The commands, as a part of the application."""

    def _chosen(self: Any) -> list[str]:
        """Return the jobs that a command is for: of the screen of a job, that job; otherwise those of the queue."""
        if isinstance(self.screen, JobScreen):
            return [self.screen.job]
        table = self.screen_stack[0].query_one("#queue", Table)
        if self.screen is not self.screen_stack[0] or table.has_class("hidden"):
            return []
        found: list[str] = table.chosen
        return found

    def _may_change(self: Any) -> bool:
        if self.source.simulated:
            self.notify("a simulation cannot be changed", severity="warning", markup=False)
        return not self.source.simulated

    def action_cancel(self: Any) -> None:
        if not (jobs := self._chosen()) or not self._may_change():
            return
        board = self.board
        jobs = [job for job in jobs if job not in board.jobs or board.jobs[job].status not in ENDED]
        if not jobs:
            self.notify("it has ended already", severity="warning", markup=False)
            return
        running = sum(job in board.jobs and board.jobs[job].status in ACTIVE for job in jobs)
        named = [f"{job}  {board.jobs[job].name}" if job in board.jobs else job for job in jobs[:MAX_NAMED]]
        more = [f"and {len(jobs) - MAX_NAMED:,} more"] if len(jobs) > MAX_NAMED else []
        effect = f"{plural(running, 'run')} will be stopped" if running else "none of them runs"
        question = f"Cancel {plural(len(jobs), 'job')}? {effect if len(jobs) > 1 or running else 'It has not started.'}"
        self.push_screen(
            Confirmation(question, [*named, *more], "cancel them" if len(jobs) > 1 else "cancel it"),
            lambda answer: self._change("cancel", jobs) if answer == "yes" else None,
        )

    def action_hold(self: Any) -> None:
        if (jobs := self._chosen()) and self._may_change():
            self._change("hold", jobs)

    def action_release(self: Any) -> None:
        if (jobs := self._chosen()) and self._may_change():
            self._change("release", jobs)

    def action_priority(self: Any) -> None:
        if not (jobs := self._chosen()) or not self._may_change():
            return
        first = self.board.jobs.get(jobs[0])
        now = str(first.priority) if first is not None else "0"
        what = f"job {jobs[0]}" if len(jobs) == 1 else plural(len(jobs), "job")
        self.push_screen(
            Question(f"Priority of {what} (higher goes first):", now, integer=True),
            lambda answer: self._change("set", jobs, {"priority": answer}) if answer else None,
        )

    def action_log(self: Any) -> None:
        if jobs := self._chosen():
            self.open_job(jobs[0], log=True)

    def action_why(self: Any) -> None:
        if jobs := self._chosen():
            self.run_worker(lambda: self._explain(jobs[0]), thread=True, group="why")

    def _explain(self: Any, job: str) -> None:
        """In a thread: ask why a job waits, and show the answer; then the forecast, which may take seconds."""
        top: Top = self
        width = min(max(top.size.width - 14, 30), 90)
        try:
            found = top.source.explain(job)
            page = Page(f"job {job} {found.name}: {found.status}", why_lines(found, width))
            top.call_from_thread(top.push_screen, page)
            found = top.source.explain(job, forecast=True)
        except WeftError as error:
            top.call_from_thread(self._report_error, error)
            return
        if found.forecast is not None:
            top.call_from_thread(page.show_lines, why_lines(found, width))

    def _change(self: Any, verb: str, jobs: Sequence[str], settings: dict[str, str] | None = None) -> None:
        def change() -> None:
            try:
                done = self.source.change(verb, jobs, settings or {})
            except WeftError as error:
                self.call_from_thread(self._report_error, error)
                return
            report: Callable[..., None] = self.notify
            if done.changed:
                words = f"{PAST[verb]} {plural(len(done.changed), 'job')}"
                self.call_from_thread(report, words, markup=False)
            for job, why in done.refused[:3]:
                self.call_from_thread(report, f"{job}: {why}", severity="warning", markup=False)

        self.run_worker(change, thread=True, group="change")
        table = self.screen_stack[0].query_one("#queue", Table)
        table.marked.clear()

    def _report_error(self: Any, error: WeftError) -> None:
        self.notify(str(error), severity="error", markup=False)

    # ---- simulations

    def action_pause_playback(self: Any) -> None:
        if self.source.simulated:
            self.source.pause()

    def action_speed(self: Any, by: float) -> None:
        if self.source.simulated:
            self.source.faster(by)
