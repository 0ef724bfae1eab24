"""The error gate (pure): a new version that answers far more requests with errors than the one before goes back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from weft.model import Seconds
from weft.scheduling.core.state.services import ServiceState

GATE_S: Final = 120.0
"""The time after the first replica of a version was ready in which its errors count."""
MIN_ANSWERS: Final = 20
MAX_SHARE: Final = 0.1
MAX_RATIO: Final = 2.0
MAX_ANSWERS: Final = 2000
"""Above this number, older answers of a version count half."""


class Answers(NamedTuple):
    """The answers of a version, and those of them with a status from 500 up."""

    answered: float = 0
    errors: float = 0

    @property
    def share(self) -> float:
        return self.errors / self.answered if self.answered else 0.0

    def plus(self, now: Answers, before: Answers) -> Answers:
        """Add what a counter shows since the report before; a lower figure shows that it began again."""
        base = before if before.answered <= now.answered and before.errors <= now.errors else Answers()
        half = 0.5 if self.answered > MAX_ANSWERS else 1.0
        return Answers(
            half * self.answered + now.answered - base.answered, half * self.errors + now.errors - base.errors
        )


def verdict(old: Answers, new: Answers, window_s: Seconds) -> str:
    """Return why the new version, ready for `window_s` seconds, must go back; empty: it may stay."""
    if window_s > GATE_S or new.answered < MIN_ANSWERS or new.share <= max(MAX_SHARE, MAX_RATIO * old.share):
        return ""
    before = f", {old.share:.0%} with the version before" if old.answered else ""
    return f"{new.share:.0%} of its {new.answered:.0f} answers were errors (5xx){before}"


def judge(known: ServiceState, answers: Mapping[int, Answers], now: Seconds) -> tuple[bool, str]:
    """Return whether the gate still watches the present version of a service, and why that must go back."""
    rule, ready_at, good = known.service.update, known.rollout.ready_at, known.last_good()
    if ready_at is None or not (rule.error_gate and rule.rollback) or good is None:
        return False, ""
    new = answers.get(known.service.version, Answers())
    same = [answers[each] for each in (good.service.version, *good.rollout.versions) if each in answers]
    old = Answers(sum(each.answered for each in same), sum(each.errors for each in same))
    why = verdict(old, new, now - ready_at)
    return bool(why) or (now - ready_at <= GATE_S and new.answered < MIN_ANSWERS), why
