"""Messages about plugins that break their contract: the class, and the line of its method."""

from __future__ import annotations

from types import FunctionType
from typing import Final

PORTS: Final = "weft.scheduling.core.ports"
"""Methods that a plugin inherits from this module are not its code."""


def blame(policy: object, what: str, *methods: str) -> str:
    """Return what a policy did, with its name and the line of the first of these methods that it defines."""
    line = method_line(policy, *methods)
    return f"policy {type(policy).__name__} {what}" + (f" ({line})" if line else "")


def method_line(thing: object, *methods: str) -> str:
    """Return the file and line of the first of these methods that the plugin defines."""
    for method in methods:
        for cls in type(thing).__mro__:
            function = vars(cls).get(method)
            if isinstance(function, FunctionType) and cls.__module__ != PORTS:
                return f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
    return ""
