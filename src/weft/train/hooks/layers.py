"""Hooks in the layers of models: a gate before each layer, forward and backward.

A hook on a layer's output gates the backward pass. Unlike torch's full backward hooks it leaves the graph as it is, so
layers that work in place stay legal.
"""

from __future__ import annotations

from weft.train.device_page import process

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_is_explicit = False
"""True once the script has called `weft.train.pace`: the hooks in all models do nothing then."""


def hook(model: Any, training: process.Training) -> None:
    """Hook the layers of one model: the modules with parameters."""
    global _is_explicit
    _is_explicit = True
    before, after = _hooks(training.gate)
    for module in model.modules():
        if module._parameters:
            module.register_forward_pre_hook(before)
            module.register_forward_hook(after)
    if training.switches:
        model.register_forward_pre_hook(lambda _module, _inputs: training.begin_step())


def install() -> None:
    """Hook the layers of all models, for `--stages auto`, if the run shares its GPUs."""
    training = process.training()
    if training is None or not training.is_joined:
        return
    from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

    before, after = _hooks(training.gate)

    def before_any(module: Any, inputs: Any) -> None:
        if module._parameters and not _is_explicit:
            before(module, inputs)

    def after_any(module: Any, inputs: Any, output: Any) -> None:
        if module._parameters and not _is_explicit:
            after(module, inputs, output)

    register_module_forward_pre_hook(before_any)
    register_module_forward_hook(after_any)


def _hooks(gate: Callable[[], None]) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return the hooks before and after a layer."""
    import torch

    is_compiling, is_grad_enabled = torch.compiler.is_compiling, torch.is_grad_enabled

    def before(_module: Any, _inputs: Any) -> None:
        if not is_compiling():  # a compiled model is one layer
            gate()

    def in_backward(_gradient: Any) -> None:
        gate()

    def after(_module: Any, _inputs: Any, output: Any) -> None:
        if is_compiling() or not is_grad_enabled():
            return
        each = output[0] if isinstance(output, tuple) and output else output
        if isinstance(each, torch.Tensor) and each.requires_grad:
            each.register_hook(in_backward)

    return before, after
