"""The exceptions that Weft raises.

WeftError                 the base class
├── InputError            a file, flag or value is wrong: what, where, what to do (exit code 2)
│   ├── UnknownName       a policy, placement or option that does not exist; lists the known names or the nearest
│   └── Infeasible        a job that no node of this cluster can ever hold
├── NotFound              a job that does not exist (exit code 3)
├── Unreachable           no scheduler answers (exit code 4)
│   └── NotLeading        the server is a standby: it names the leader
├── NotPermitted          the caller lacks the permission (exit code 5)
│   └── NotAuthenticated  the token is missing or wrong
├── Refused               the scheduler refuses the request for now, and says why (exit code 6)
├── JournalError          a journal that cannot be read or written
│   ├── JournalDamaged    a journal that lacks facts which it had, or holds others
│   └── Deposed           another server leads now, or may
├── MissingPackage        a part of Weft whose extra is not installed
└── PlanError             a policy or placement broke its contract; names it and says how
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

EXTRAS: Final = {
    "httptools": "router", "matplotlib": "report", "prometheus_client": "web", "starlette": "web", "textual": "top",
    "uvicorn": "web",
}  # fmt: skip
"""The extra that installs each package which not every machine needs."""
MAX_LISTED: Final = 40
"""Known names beyond which an error suggests only the nearest."""
MAX_NAME_CHARS: Final = 80
"""The most characters of an unknown name that are shown, and compared with the known ones."""
MIN_SIMILARITY: Final = 0.6
"""The least similarity of a name, from 0 to 1, that an error suggests."""
SUGGESTED: Final = 3
"""The number of names that a message about an unknown command or option suggests."""


class WeftError(Exception):
    """An error that the message explains."""


class InputError(WeftError):
    """A file, flag or value is wrong."""

    def __init__(self, what: str, *, where: str = "", hint: str = "", key: str = "", index: int | None = None) -> None:
        """`key`: the job field at fault; `index`: the position of the job in its request, counted from 0."""
        self.what, self.where, self.hint, self.key, self.index = what, where, hint, key, index
        text = f"{where}: {self.text}" if where else self.text
        super().__init__(f"{text}\n  {hint}" if hint else text)

    @property
    def text(self) -> str:
        """The message with its key, without place and hint."""
        return f"{self.key}: {self.what}" if self.key else self.what

    def at(self, *, where: str = "", key: str = "", index: int | None = None) -> InputError:
        """Return the same error with the missing parts of its place filled in."""
        return InputError(
            self.what, where=self.where or where, hint=self.hint, key=self.key or key,
            index=index if self.index is None else self.index,
        )  # fmt: skip


class MissingPackage(WeftError):
    """A part of Weft whose extra is not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(f"this needs {package}, which is not installed\n  pip install 'weft[{EXTRAS[package]}]'")


def missing_package(error: ModuleNotFoundError) -> MissingPackage | None:
    """Return the error to show for a package that an extra installs; None: it is a fault of Weft."""
    package = (error.name or "").partition(".")[0]
    return MissingPackage(package) if package in EXTRAS else None


def require_package(package: str) -> None:
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise MissingPackage(package)


class UnknownName(InputError):
    """A name that does not exist."""

    def __init__(
        self, kind: str, name: str, known: Iterable[str], *, where: str = "", more: str = "", suggested: int = 1
    ) -> None:
        """`more`: how to list all names; the message then suggests at most `suggested` near names. It also does so for
        more than `MAX_LISTED` names."""
        name = name[:MAX_NAME_CHARS]
        self.kind, self.name, self.known = kind, name, nearest(name, known)
        hint = f"known: {', '.join(self.known) or 'none'}"
        if more:
            hint = "; ".join(filter(None, [near_words(name, self.known, suggested), more]))
        elif len(self.known) > MAX_LISTED:
            spelled = dict.fromkeys(each.replace("-", "_") for each in self.known)  # keys may have either sign
            hint = near_words(name, spelled, SUGGESTED) or f"none of the {len(spelled)} known names is like it"
        super().__init__(f"unknown {kind} {name!r}", where=where, hint=hint)


class Infeasible(InputError):
    """A job that no node of this cluster can ever hold."""


class NotFound(WeftError):
    """A job that does not exist."""


class Unreachable(WeftError):
    """No scheduler answers."""


class Unanswered(Unreachable):
    """The call ended without an answer. The scheduler may have done what it asks for."""


class NotLeading(Unreachable):
    """The server is a standby, or has lost the lead. It did nothing."""


class NotPermitted(WeftError):
    """The caller may not do that."""


class NotAuthenticated(NotPermitted):
    """The token of the call is missing or not valid."""


class Refused(WeftError):
    """The scheduler refuses the request for now."""


class JournalError(WeftError):
    """A journal that cannot be read or written."""


class JournalDamaged(JournalError):
    """A journal that lacks facts which it had, or holds others."""


class Deposed(JournalError):
    """Another server leads now, or may: this one must answer no caller."""


class PlanError(WeftError):
    """A policy or placement broke its contract."""


class AskError(PlanError):
    """A replanner's ask cannot be followed; the message lacks the policy."""


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names, most similar to `name` first."""
    return sorted(known, key=lambda k: (-_similarity(name, k), k))


def near_words(name: str, known: Iterable[str], most: int = 1) -> str:
    """Return a suggestion of the names that may be meant, such as "the nearest is fifo"; empty: none is near."""
    near = [
        each for each in nearest(name, known) if each.startswith(name) or _similarity(name, each) >= MIN_SIMILARITY
    ][:most]
    return f"the nearest {'is' if len(near) == 1 else 'are'} {', '.join(near)}" if near else ""


def _similarity(name: str, known: str) -> float:
    import difflib  # only failures need it

    name = name[:MAX_NAME_CHARS].lower()  # the cost grows with the square of the length
    return difflib.SequenceMatcher(None, name, known[:MAX_NAME_CHARS].lower()).ratio()


EXIT_CODES: Final[dict[type[WeftError], int]] = {
    InputError: 2,
    NotFound: 3,
    Unreachable: 4,
    NotPermitted: 5,
    Refused: 6,
}


class Report(NamedTuple):
    """An error as commands print it."""

    code: str
    """The name of the error's class: unknown-name for UnknownName."""
    message: str
    hint: str
    exit_code: int


def report_of(error: WeftError) -> Report:
    kind = next(each for each in type(error).__mro__ if each.__module__ == __name__)
    exit_code = next((EXIT_CODES[each] for each in kind.__mro__ if each in EXIT_CODES), 1)
    name = kind.__name__.removesuffix("Error")
    code = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("-")
    if isinstance(error, InputError):
        return Report(code, f"{error.where}: {error.text}" if error.where else error.text, error.hint, exit_code)
    message, _, hint = str(error).partition("\n")
    return Report(code, message, hint.strip(), exit_code)
