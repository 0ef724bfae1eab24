"""Groups of jobs: which group a user means, and what each group has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from weft.access.auth.identity import Caller
from weft.errors import InputError, NotPermitted
from weft.inputs.notify_choice import parse_notify
from weft.inputs.quantities import parse_whole_or_none
from weft.model import Event, GroupLimited, Seconds
from weft.model.groups import group_label, names_group
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.views.answers.groups import GroupView

MAX_JOBS: Final = 1_000_000
NO_LIMIT: Final = "none"


def known_groups(state: State) -> list[str]:
    """Return the groups that have unfinished jobs or settings."""
    found = dict.fromkeys(state.eligibility.groups.settings)
    found.update(dict.fromkeys(job.job.group for job in unfinished(state)))
    found.pop("", None)
    return list(found)


def unfinished(state: State) -> Iterable[JobState]:
    if len(state.jobs) == len(state.active) + len(state.waiting) + len(state.ended):
        return (*state.active.values(), *state.waiting.values())
    return (job for job in state.jobs.values() if job.ended_at is None)


def find_group(state: State, text: str) -> str:
    """Return the group that a user names, by its name or its short name; a name of no group means a new one."""
    known = known_groups(state)
    if text in known:
        return text
    found = [group for group in known if names_group(text, group)]
    if len(found) > 1:
        raise InputError(
            f"{text[:80]!r} is the short name of {len(found)} groups", hint=f"name one: {', '.join(found)}"
        )
    if not found and (not text or not text.isprintable()):
        raise InputError("no group is named", hint="weft group list shows them")
    return found[0] if found else text


def check_may_limit(state: State, text: str, who: Caller, *, is_new: bool = False) -> None:
    """Raise unless the caller is an admin, or all unfinished jobs of the group are the caller's: at least one, unless
    the group is new."""
    if who.role == "admin":
        return
    group = find_group(state, text)
    users = {job.job.user for job in unfinished(state) if job.job.group == group}
    if not (users or is_new) or not all(map(who.owns, users)):
        raise NotPermitted(
            f"the group {group_label(group)!r} has {'jobs of others' if users else 'no unfinished jobs of yours'}\n"
            "  ask an admin to change it, or for an admin token: weft auth token --role admin"
        )


def limit_group(state: State, text: str, jobs: str, now: Seconds) -> GroupLimited:
    """Return the event that limits the running jobs of a group; `none` removes the limit."""
    most = parse_whole_or_none(jobs, 1, MAX_JOBS)
    if most is None and jobs != NO_LIMIT:
        hint = "jobs=4, or jobs=none; weft pause --group G starts nothing more"
        raise InputError(f"jobs: {jobs[:80]!r} is not a whole number from 1 to {MAX_JOBS:,}", hint=hint)
    return _changed(state, text, now, jobs=most)


def limit_submitted_groups(state: State, groups: Iterable[str], jobs: int, now: Seconds, who: Caller) -> list[Event]:
    """Return the events that limit the groups of a request to this many running jobs; 0: none."""
    events: list[Event] = []
    for group in dict.fromkeys(groups) if jobs else ():
        if not group:
            raise InputError("a limit of running jobs needs a group", hint="give the jobs a group")
        check_may_limit(state, group, who, is_new=True)
        events.append(limit_group(state, group, str(jobs), now))
    return events


def notify_group(state: State, text: str, notify: str, now: Seconds) -> GroupLimited:
    """Return the event that sets when the group as a whole leads to a message; `none`: never."""
    choice = None if notify == NO_LIMIT else parse_notify(notify)
    if choice is not None and "started" in choice.events:
        raise InputError("notify: a group has no start", hint="choose from done, failed, cancelled, ended")
    return _changed(state, text, now, notify=str(choice or ""))


def pause_group(state: State, text: str, now: Seconds, *, paused: bool) -> GroupLimited:
    """Return the event that pauses a group, or lets it continue."""
    return _changed(state, text, now, paused=paused)


def _changed(state: State, text: str, now: Seconds, **changes: Any) -> GroupLimited:
    group = find_group(state, text)
    return GroupLimited(now, group, *state.eligibility.groups.settings_of(group)._replace(**changes))


def group_views(state: State) -> list[GroupView]:
    """Return all groups, by short name."""
    running, waiting = dict[str, int](), dict[str, int]()
    for job in unfinished(state):
        counts = running if job.active else waiting
        counts[job.job.group] = counts.get(job.job.group, 0) + 1
    views = [view_of_group(state, group, running.get(group, 0), waiting.get(group, 0)) for group in known_groups(state)]
    return sorted(views, key=lambda view: (view.label, view.group))


def view_of_group(state: State, group: str, running: int = 0, waiting: int = 0) -> GroupView:
    jobs, paused, notify = state.eligibility.groups.settings_of(group)
    return GroupView(
        group=group, label=group_label(group), jobs=jobs, paused=paused, running=running, waiting=waiting,
        notify=notify or None,
    )  # fmt: skip


def event_of(state: State, verb: str, options: Mapping[str, str], now: Seconds) -> GroupLimited:
    """Return the event of a request: a new limit, a pause, or its end."""
    group = options.get("group", "")
    if verb == "group" and "notify" in options:
        return notify_group(state, group, options["notify"], now)
    if verb == "group":
        return limit_group(state, group, options.get("jobs", ""), now)
    return pause_group(state, group, now, paused=verb == "pause")
