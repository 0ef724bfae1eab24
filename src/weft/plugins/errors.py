"""Whose fault it is when planning breaks: the policy's or the placement's, with its file and line."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final

from weft.core.ports import Placement, Policy
from weft.core.scheduler import Scheduler
from weft.errors import PlanError, WeftError

_HOUSE: Final = str(Path(__file__).parents[1])
_OURS: Final = "weft.core.ports"
"""What a policy inherits from here is not its own."""


@contextmanager
def blaming(policy: Policy | None, placement: Placement, scheduler: Scheduler | None = None) -> Iterator[None]:
    """What they raise, or make the scheduler stumble over, comes out as one PlanError that names them."""
    try:
        yield
    except WeftError:
        raise
    except (Exception, SystemExit) as error:
        raise PlanError(_what(policy, placement, scheduler, error)) from error


def _what(
    policy: Policy | None, placement: Placement, scheduler: Scheduler | None, error: Exception | SystemExit
) -> str:
    both = " with ".join(type(each).__name__ for each in (policy, placement) if each is not None)
    said = f"called sys.exit({error.code!r})" if isinstance(error, SystemExit) else f"raised {_name(error)}"
    own = {code.co_filename for each in (policy, placement) for code in _code(each)}
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if frame.filename in own]
    if theirs:
        return f"{both} {said} ({theirs[-1].filename}:{theirs[-1].lineno})"
    wrong = _wrong_answer(policy, scheduler) if policy is not None and scheduler is not None else ""
    if wrong:
        return wrong
    where = [line for line in (_line(policy, "rank", "key"), _line(placement, "place")) if line]
    where = [line for line in where if not line.startswith(_HOUSE)] or where
    return f"{both} gave what cannot be used: {_name(error)} ({' or '.join(where)})"


def _wrong_answer(policy: Policy, scheduler: Scheduler) -> str:
    """The first of its numbers that is none."""
    state = scheduler.state
    for job in (*state.waiting.values(), *state.active.values()):
        key = policy.key_from(scheduler.memo, job, state.now) if scheduler.order.keyed else 0.0
        answers: dict[str, object] = {"a key": key}
        answers |= {"a slope": policy.slope(job), "an until": policy.until(job, state.now) or 0.0}
        for noun, answer in answers.items():
            if not isinstance(answer, int | float):
                what = f"policy {type(policy).__name__} gave job {job.id} {noun} that is not a number: {answer!r}"
                return f"{what} ({_line(policy, noun.split()[1])})"
    return ""


def _name(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _line(thing: object, *methods: str) -> str:
    """File and line of the first of these methods that is its own."""
    for method in methods:
        for cls in type(thing).__mro__:
            function = vars(cls).get(method)
            if isinstance(function, FunctionType) and cls.__module__ != _OURS:
                return f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
    return ""


def _code(thing: object) -> Iterator[CodeType]:
    """Of its methods, and of functions it was given."""
    held = [value for cls in type(thing).__mro__ if cls.__module__ != _OURS for value in vars(cls).values()]
    for value in [*held, *getattr(thing, "__dict__", {}).values()]:
        if isinstance(value, FunctionType):
            yield value.__code__
