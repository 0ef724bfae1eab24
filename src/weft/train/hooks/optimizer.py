"""Hooks in all optimizers of torch: a step begins, and has ended."""

from __future__ import annotations

from weft.train.hooks.loop import training_loop

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from typing import Any


def install() -> None:
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    register_optimizer_step_pre_hook(_begin_step)
    register_optimizer_step_post_hook(_end_step)


def _begin_step(_optimizer: Any, _arguments: Any, _keywords: Any) -> None:
    loop = training_loop()
    if loop is not None:
        loop.begin_step()


def _end_step(_optimizer: Any, _arguments: Any, _keywords: Any) -> None:
    loop = training_loop()
    if loop is not None:
        loop.end_step()
