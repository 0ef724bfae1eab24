"""Installs the hooks of `weft submit --stages auto` at the start of a Python, then runs the module that this one hides.

It is found by PYTHONPATH, in any Python of the job. A Python without Weft loads it from here.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))


def install_hooks() -> None:
    """Install the hooks. An error is a warning: the job runs without them."""
    if os.environ.get("WEFT_STAGES") != "auto":
        return
    try:
        if importlib.util.find_spec("weft") is None:
            spec = importlib.util.spec_from_file_location(
                "weft", os.path.join(PACKAGE, "__init__.py"), submodule_search_locations=[PACKAGE]
            )
            assert spec is not None
            assert spec.loader is not None
            sys.modules["weft"] = module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        from weft.train.hooks import torch_import

        torch_import.install()
    except Exception as error:
        sys.stderr.write(f"weft: --stages auto is not possible here: {error!r}\n")


def run_hidden_module() -> None:
    """Import the next `sitecustomize` on the path, as Python would without this one."""
    own = sys.modules.pop("sitecustomize", None)
    sys.path[:] = [each for each in sys.path if os.path.abspath(each) != HERE]
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        if own is not None:
            sys.modules.setdefault("sitecustomize", own)


install_hooks()
run_hidden_module()
