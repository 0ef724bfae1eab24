"""Placeholders in commands: {params.NAME}.

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
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "busybox", "fish", "csh", "tcsh"})
_SCRIPT_FLAG: Final = re.compile(r"-[A-Za-z]*c")


def fill_in(command: Sequence[str], params: Mapping[str, str]) -> list[str]:
    """Return the command with the values of its params."""
    script = _script_at(command)
    return [_in_script(word, params) if at == script else _in_word(word, params) for at, word in enumerate(command)]


def _script_at(command: Sequence[str]) -> int | None:
    """Return the position of the word that is a shell script, if there is one."""
    for at, word in enumerate(command[:-1]):
        if _SCRIPT_FLAG.fullmatch(word) and any(os.path.basename(other) in _SHELLS for other in command[:at]):
            return at + 1
    return None


def _in_word(word: str, params: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: params[_check_known(match[1], params)], word)


def _in_script(script: str, params: Mapping[str, str]) -> str:
    done, parts, quote = 0, [], ""
    for match in _PLACEHOLDER.finditer(script):
        before = script[done : match.start()]
        quote = _quote_after(before, quote)
        variable = f"${{{_variable(_check_known(match[1], params), params)}}}"
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


def _check_known(name: str, params: Mapping[str, str]) -> str:
    if name not in params:
        raise UnknownName("param", name[:80], params or ["(there are none)"])
    return name


def _variable(name: str, params: Mapping[str, str]) -> str:
    from weft.engines.process.environment import param_variable

    variable = param_variable(name)
    others = [other for other in params if other != name and param_variable(other) == variable]
    if others:
        raise InputError(f"params {name!r} and {others[0]!r} are both {variable}", hint="rename one of them")
    return variable
