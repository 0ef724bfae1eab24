"""Errors of planning that name the policy or placement at fault, with its file and line."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final

from weft.errors import PlanError, WeftError
from weft.scheduling.core.blame import PORTS, blame, method_line
from weft.scheduling.core.ports import Placement, Policy
from weft.scheduling.core.scheduler import Scheduler

_WEFT: Final = str(Path(__file__).parents[2])


@contextmanager
def attribute_errors(policy: Policy | None, placement: Placement, scheduler: Scheduler | None = None) -> Iterator[None]:
    """Turn every exception in the block into one PlanError that names the policy and the placement."""
    try:
        yield
    except WeftError:
        raise
    except (Exception, SystemExit) as error:
        raise PlanError(_message(policy, placement, scheduler, error)) from error


def _message(
    policy: Policy | None, placement: Placement, scheduler: Scheduler | None, error: Exception | SystemExit
) -> str:
    both = " with ".join(type(each).__name__ for each in (policy, placement) if each is not None)
    failure = f"called sys.exit({error.code!r})" if isinstance(error, SystemExit) else f"raised {_describe(error)}"
    own = {code.co_filename for each in (policy, placement) for code in _own_code(each)}
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if frame.filename in own]
    if theirs:
        return f"{both} {failure} ({theirs[-1].filename}:{theirs[-1].lineno})"
    wrong = _find_wrong_number(policy, scheduler) if policy is not None and scheduler is not None else ""
    if wrong:
        return wrong
    where = [line for line in (method_line(policy, "rank", "key"), method_line(placement, "place")) if line]
    where = [line for line in where if not line.startswith(_WEFT)] or where
    return f"{both} returned an unusable result: {_describe(error)} ({' or '.join(where)})"


def _find_wrong_number(policy: Policy, scheduler: Scheduler) -> str:
    """Return a message about the first key, slope or until that is not a number; "" if there is none."""
    state = scheduler.state
    for job in (*state.waiting.values(), *state.active.values()):
        key = policy.key_from(scheduler.memo, job, state.now) if scheduler.order.keyed else 0.0
        answers: dict[str, object] = {"a key": key}
        answers |= {"a slope": policy.slope(job), "an until": policy.until(job, state.now) or 0.0}
        for noun, answer in answers.items():
            if not isinstance(answer, int | float):
                what = f"returned {noun} for job {job.id} that is not a number: {answer!r}"
                return blame(policy, what, noun.split()[1])
    return ""


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _own_code(thing: object) -> Iterator[CodeType]:
    """Yield the code of the plugin's methods, and of functions among its attributes."""
    held = [value for cls in type(thing).__mro__ if cls.__module__ != PORTS for value in vars(cls).values()]
    for value in [*held, *getattr(thing, "__dict__", {}).values()]:
        if isinstance(value, FunctionType):
            yield value.__code__
