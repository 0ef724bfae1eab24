"""Install the hooks when the job imports torch: a job that does not import it pays nothing."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_is_installed = False


def install() -> None:
    """Install the hooks now if torch is there, or else once it is imported. Later calls do nothing."""
    global _is_installed
    if _is_installed:
        return
    _is_installed = True
    if "torch" in sys.modules:
        install_hooks()
    else:
        sys.meta_path.insert(0, TorchFinder())


class TorchFinder(MetaPathFinder):
    """Finds torch as the other finders do, and installs the hooks after its import.

    It stays until then: a program may look for torch, to see whether it is there, long before it imports it.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if name != "torch":
            return None
        others = (finder for finder in list(sys.meta_path) if finder is not self and hasattr(finder, "find_spec"))
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        loader = spec.loader if spec is not None else None
        if loader is not None and hasattr(loader, "exec_module"):
            loader.exec_module = self._then_install(loader.exec_module)  # type: ignore[method-assign, assignment]
        return spec

    def _then_install(self, execute: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
        def exec_module(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                install_hooks()

        return exec_module


def install_hooks() -> None:
    """Hook the loader, the optimizers, DDP and the layers. A hook that does not fit this torch is left out,
    with a warning."""
    from weft.train.hooks import data_loader, ddp, layers, optimizer

    for hook in (data_loader, optimizer, ddp, layers):
        try:
            hook.install()
        except Exception as error:  # another version of torch: the training goes on without this hook
            sys.stderr.write(f"weft: --stages auto: no hook in {hook.__name__.rpartition('.')[2]}: {error!r}\n")
