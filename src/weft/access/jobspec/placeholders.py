"""Placeholders in commands: {params.NAME}; in those of a sweep also {NAME}, where {{ and }} are braces.

A separate word gets the value as it is, because no shell reads it. A shell script gets a variable instead of the value:
the shell expands the variable, so that the value stays text whatever it contains.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

from weft.errors import InputError, UnknownName

_PLACEHOLDER: Final = re.compile(r"\{params\.([^{}]*)\}")
_OF_SWEEP: Final = re.compile(r"\{\{|\}\}|\{(?:params\.)?([^{}]*)\}")
"""A brace that is written twice has no name."""
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "busybox", "fish", "csh", "tcsh"})
_NOT_ALLOWED_IN_NAME: Final = re.compile(r"[^A-Z0-9_]")
_SCRIPT_FLAG: Final = re.compile(r"-[A-Za-z]*c")


def fill_in(command: Sequence[str], params: Mapping[str, str]) -> list[str]:
    """Return the command with the values of its params."""
    return _fill(command, params, {}, _PLACEHOLDER)


def fill_in_trial(command: Sequence[str], params: Mapping[str, str], literals: Mapping[str, str]) -> list[str]:
    """Return the command of a trial. `literals` are values that a shell may read as they are, such as numbers."""
    return _fill(command, params, literals, _OF_SWEEP)


def fill_in_name(template: str, values: Mapping[str, str]) -> str:
    """Return the name of a trial."""
    return _in_word(template, values, _OF_SWEEP)


def names_in(texts: Sequence[str]) -> set[str]:
    """Return the names that the placeholders of a sweep use."""
    return {match[1] for text in texts for match in _OF_SWEEP.finditer(text) if match[1] is not None}


def _fill(
    command: Sequence[str], params: Mapping[str, str], literals: Mapping[str, str], pattern: re.Pattern[str]
) -> list[str]:
    script, values = _script_at(command), {**params, **literals}
    return [
        _in_script(word, params, literals, pattern) if at == script else _in_word(word, values, pattern)
        for at, word in enumerate(command)
    ]


def _script_at(command: Sequence[str]) -> int | None:
    """Return the position of the word that is a shell script, if there is one."""
    for at, word in enumerate(command[:-1]):
        if _SCRIPT_FLAG.fullmatch(word) and any(os.path.basename(other) in _SHELLS for other in command[:at]):
            return at + 1
    return None


def _in_word(word: str, values: Mapping[str, str], pattern: re.Pattern[str]) -> str:
    return pattern.sub(lambda match: _literal(match, values) or values[_check_known(match[1], values)], word)


def _literal(match: re.Match[str], literals: Mapping[str, str]) -> str:
    """Return the text that replaces a placeholder as it is; empty: there is none."""
    return match[0][0] if match[1] is None else literals.get(match[1], "")


def _in_script(script: str, params: Mapping[str, str], literals: Mapping[str, str], pattern: re.Pattern[str]) -> str:
    done, parts, quote = 0, [], ""
    for match in pattern.finditer(script):
        before = script[done : match.start()]
        quote = _quote_after(before, quote)
        expanded = _literal(match, literals)
        if not expanded:
            variable = f"${{{_variable(_check_known(match[1], {**params, **literals}), params)}}}"
            expanded = {"": f'"{variable}"', '"': variable, "'": f"'\"{variable}\"'"}[quote]
        parts += [before, expanded]
        done = match.end()
    return "".join([*parts, script[done:]])


def _quote_after(text: str, quote: str) -> str:
    """Return the quote that is open after this piece of a script. A wrong guess may split a value, but runs nothing."""
    skip = False
    for character in text:
        if skip:
            skip = False
        elif character == "\\" and quote != "'":
            skip = True
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
    return quote


def param_variable(name: str) -> str:
    """Return the variable of a parameter: `WEFT_PARAM_LEARNING_RATE` for `learning-rate`."""
    return f"WEFT_PARAM_{_NOT_ALLOWED_IN_NAME.sub('_', name.upper())}"


def _check_known(name: str, params: Mapping[str, str]) -> str:
    if name not in params:
        raise UnknownName("param", name[:80], params or ["(there are none)"])
    return name


def _variable(name: str, params: Mapping[str, str]) -> str:
    variable = param_variable(name)
    others = [other for other in params if other != name and param_variable(other) == variable]
    if others:
        raise InputError(f"params {name!r} and {others[0]!r} are both {variable}", hint="rename one of them")
    return variable
