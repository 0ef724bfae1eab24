"""Call a function by name inside a job: `python -m weft.train.call MODULE:FUNCTION JSON [DEPTHS]`. `weft.job` submits
this.

MODULE is a module, or a file whose name ends in .py. JSON is an object with the arguments of the function by name.
Numbers that the function returns become metrics of the job. DEPTHS has the functions of the jobs that led to this one
by submitting each other, and how often each occurs.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from typing import Any


def main(words: list[str]) -> None:
    target, arguments, *depths = words
    module, _, name = target.rpartition(":")
    before = json.loads(depths[0]) if depths else {}
    os.environ["WEFT_CALLS"] = json.dumps({**before, target: before.get(target, 0) + 1})
    os.environ["WEFT_IMPORTING"] = target  # meanwhile, the client submits nothing
    found = _load(module)
    del os.environ["WEFT_IMPORTING"]
    for part in name.split("."):
        found = getattr(found, part)
    report(getattr(found, "__wrapped__", found)(**json.loads(arguments)))


def _load(module: str) -> Any:
    import importlib
    import importlib.util

    if not module.endswith(".py"):
        sys.path.insert(0, os.getcwd())
        return importlib.import_module(module)
    sys.path.insert(0, os.path.dirname(os.path.abspath(module)))
    name = os.path.basename(module)[:-3]
    spec = importlib.util.spec_from_file_location(name, module)
    if spec is None or spec.loader is None:
        raise ImportError(f"{module} is no Python file")
    made = importlib.util.module_from_spec(spec)
    made.__weft_file__ = module  # type: ignore[attr-defined]  # what `weft.job` calls the module
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made


def report(value: Any) -> None:
    """Report a number as the metric `result`, and a dict of numbers as metrics."""
    from weft.train.reporting import reporter

    values = value if isinstance(value, dict) else {"result": value}
    numbers = {str(name): each for name, each in values.items() if _is_number(each)}
    if numbers:
        current = reporter()
        current.update(current.step or 0, None, numbers)
        current.flush()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


if __name__ == "__main__":
    main(sys.argv[1:])
