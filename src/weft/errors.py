"""Everything Weft raises on purpose.

WeftError                 what every caller may catch
├── InputError            a file, flag or value is wrong: what, where, what to do (exit code 2)
│   ├── UnknownName       a policy, placement or option that does not exist; lists the right ones, nearest first
│   └── Infeasible        a job that no node of this cluster can ever hold
├── NotFound              a job that does not exist (exit code 3)
├── Unreachable           no scheduler answers (exit code 4)
├── NotPermitted          no or a wrong token, or one that may not do that (exit code 5)
├── Refused               the scheduler does not do that now, and says why (exit code 6)
├── JournalError          a journal that cannot be read or written
└── PlanError             a policy or placement broke its contract; names it and says how
"""

from __future__ import annotations

from collections.abc import Iterable


class WeftError(Exception):
    """Something went wrong that the message explains."""


class InputError(WeftError):
    """A file, flag or value is wrong."""

    def __init__(self, what: str, *, where: str = "", hint: str = "", key: str = "", index: int | None = None) -> None:
        """`key`: the job field at fault; `index`: the position of the job in its request, counted from 0."""
        self.what, self.where, self.hint, self.key, self.index = what, where, hint, key, index
        text = f"{where}: {self.text}" if where else self.text
        super().__init__(f"{text}\n  {hint}" if hint else text)

    @property
    def text(self) -> str:
        """The message with the key that it is about, without place and hint."""
        return f"{self.key}: {self.what}" if self.key else self.what

    def at(self, *, where: str = "", key: str = "", index: int | None = None) -> InputError:
        """Return the same error with these parts of its place filled in; parts that it has win."""
        return InputError(
            self.what, where=self.where or where, hint=self.hint, key=self.key or key,
            index=index if self.index is None else self.index,
        )  # fmt: skip


class UnknownName(InputError):
    """A name that does not exist."""

    def __init__(self, kind: str, name: str, known: Iterable[str], *, where: str = "", more: str = "") -> None:
        """`more`: where all of them can be seen; only the nearest is named then."""
        self.kind, self.name, self.known = kind, name, nearest(name, known)
        hint = f"the nearest is {self.known[0]}; {more}" if more else f"known: {', '.join(self.known)}"
        super().__init__(f"unknown {kind} {name!r}", where=where, hint=hint)


class Infeasible(InputError):
    """A job that no node of this cluster can ever hold."""


class NotFound(WeftError):
    """A job that does not exist."""


class Unreachable(WeftError):
    """No scheduler answers."""


class NotPermitted(WeftError):
    """Whoever asks may not do that."""


class Refused(WeftError):
    """The scheduler does not do that now."""


class JournalError(WeftError):
    """A journal that cannot be read or written."""


class PlanError(WeftError):
    """A policy or placement broke its contract."""


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known names, those most like `name` first."""
    import difflib  # only what fails needs it

    return sorted(known, key=lambda k: (-difflib.SequenceMatcher(None, name.lower(), k.lower()).ratio(), k))
