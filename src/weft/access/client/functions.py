"""The decorator `weft.job`: a function becomes a job by its name. Nothing is pickled."""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Generic, ParamSpec, TypeVar, Unpack, overload

from weft.access.client.api import JobHandle, submit_many
from weft.access.jobspec.fields import Keys
from weft.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")
MAX_DEPTH: Final = 3
"""The most jobs of one function in a chain of jobs that submit each other."""


class JobFunction(Generic[P, R]):
    """A function that runs here when it is called, and as a job when it is submitted."""

    def __init__(self, function: Callable[P, R], keys: Mapping[str, Any]) -> None:
        self.__wrapped__ = function
        self.keys = dict(keys)
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.__wrapped__(*args, **kwargs)

    def with_keys(self, **keys: Unpack[Keys]) -> JobFunction[P, R]:
        """Return the same function with other keys of `weft.submit`, such as `gpus=4`."""
        return JobFunction(self.__wrapped__, {**self.keys, **keys})

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """Submit a call of the function as a job. Arguments must be values that JSON can hold."""
        bound = _bind(self.__wrapped__, args, kwargs)
        (job,) = self._submit([bound], self.keys)
        return job

    def submit_many(self, calls: Iterable[Mapping[str, Any]], sweep: str = "") -> list[JobHandle]:
        """Submit many calls at once, all or none. Each is a mapping of arguments by name.

        With `sweep`, they are the trials of a sweep: `weft sweep results NAME` compares their metrics.
        """
        more: dict[str, Any] = {"sweep": sweep, "group": sweep} if sweep else {}
        return self._submit([_bind(self.__wrapped__, (), call) for call in calls], {**more, **self.keys})

    def _submit(self, calls: list[dict[str, Any]], keys: Mapping[str, Any]) -> list[JobHandle]:
        target = _target(self.__wrapped__)
        others = {key: value for key, value in keys.items() if key not in ("scheduler", "max_depth")}
        depths = _depths(target, keys.get("max_depth", MAX_DEPTH))
        jobs = [
            {
                "name": self.__wrapped__.__name__, "params": _params(call), **others,
                "command": [sys.executable, "-m", "weft.train.call", target, _to_json(call), *depths],
            }
            for call in calls
        ]  # fmt: skip
        return submit_many(jobs, scheduler=keys.get("scheduler"))


@overload
def job(function: Callable[P, R], /) -> JobFunction[P, R]: ...
@overload
def job(
    *, scheduler: str | None = ..., max_depth: int = ..., **keys: Unpack[Keys]
) -> Callable[[Callable[P, R]], JobFunction[P, R]]: ...
def job(function: Callable[..., Any] | None = None, /, **keys: Any) -> Any:
    """Make a function a job: `train.submit(lr=0.1)` runs it with Weft, `train(lr=0.1)` runs it here.

    The job imports the function's module and calls the function by its name, so both must be importable where it runs.
    Keys are those of `weft.submit`. Numbers that the function returns become metrics of the job. A job may submit
    its own function: such a chain ends at `max_depth` jobs.
    """
    return JobFunction(function, keys) if function is not None else lambda found: JobFunction(found, keys)


def _bind(function: Callable[..., Any], args: Iterable[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by name. Raise TypeError if they do not fit, as a call would."""
    signature = inspect.signature(function)
    found = signature.bind(*args, **kwargs).arguments
    kinds = {name: parameter.kind for name, parameter in signature.parameters.items()}
    for name in found:
        if kinds[name] in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL):
            raise InputError(f"{function.__name__} takes {name!r} by position", hint="a job gets arguments by name")
    more: dict[str, Any] = next(
        (found.pop(name) for name in list(found) if kinds[name] == inspect.Parameter.VAR_KEYWORD), {}
    )
    return {**found, **more}


def _target(function: Callable[..., Any]) -> str:
    """Return MODULE:FUNCTION, or FILE:FUNCTION of the program that runs."""
    if "<" in function.__qualname__:
        hint = "define it at the top of its module: the job finds it by its name"
        raise InputError(f"{function.__qualname__} is inside a function", hint=hint)
    module = function.__module__
    if module == "__main__":
        main = sys.modules["__main__"]
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        if spec is None and file is None:
            hint = "write it into a file: the job imports it"
            raise InputError(f"{function.__name__} is of an interactive session", hint=hint)
        module = spec.name if spec is not None else str(Path(str(file)).absolute())
    module = getattr(sys.modules.get(module), "__weft_file__", module)
    return f"{module}:{function.__qualname__}"


def _depths(target: str, max_depth: int) -> list[str]:
    """Return the last word of the command: how often each function occurs in the chain of jobs that leads here."""
    depths = os.environ.get("WEFT_CALLS", "")
    if depths and json.loads(depths).get(target, 0) >= max_depth:
        hint = f"if the chain is meant to be longer, raise its limit: @weft.job(max_depth={2 * max_depth})"
        raise InputError(f"{target} has submitted itself in a chain of {max_depth} jobs", hint=hint)
    return [depths] if depths else []


def _to_json(call: Mapping[str, Any]) -> str:
    try:
        return json.dumps(call, allow_nan=True)
    except (TypeError, ValueError) as error:
        hint = "give numbers, texts, lists and dicts; large values belong into files"
        raise InputError(f"an argument cannot be passed to a job: {error}", hint=hint) from None


def _params(call: Mapping[str, Any]) -> dict[str, str]:
    """Return plain arguments as params, which the results of a sweep show."""
    return {name: str(value) for name, value in call.items() if isinstance(value, str | int | float)}
