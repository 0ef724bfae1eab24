"""Models that answer requests: from the JSON of a request to a sample, from a batch of samples to answers.

Weights are random but for their seed, which all replicas share, so they give the same answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.errors import InputError
from weft_workloads.catalogue import Model
from weft_workloads.data import texts
from weft_workloads.models import cv, text

CLASSES: Final = 1000
TINY_CLASSES: Final = 10
PIXELS: Final = 224
TINY_PIXELS: Final = 32
MAX_NEW_TOKENS: Final = 256
TOP: Final = 5


class Prompt(NamedTuple):
    tokens: tuple[int, ...]
    new: int = 0
    """Tokens to generate."""


class ImageModel:
    """A classifier. A request has an `image`, rows of pixels with three values each, or a `seed` that makes one."""

    def __init__(self, model: Model, tiny: bool, seed: int) -> None:
        torch.manual_seed(seed)
        self.device = torch.device("cpu")
        self.pixels = TINY_PIXELS if tiny else PIXELS
        self.module = cv.build(model.name, tiny, TINY_CLASSES if tiny else CLASSES).eval()

    def read(self, request: Mapping[str, Any]) -> Tensor:
        shape = 3, self.pixels, self.pixels
        if isinstance(seed := request.get("seed"), int) and not isinstance(seed, bool) and 0 <= seed < 1 << 63:
            return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
        try:
            found = torch.tensor(np.asarray(request["image"], dtype=np.float32)).permute(2, 0, 1)
        except (KeyError, ValueError, TypeError, RuntimeError):
            found = None
        if found is None or tuple(found.shape) != shape or not bool(torch.isfinite(found).all()):
            what = f"{self.pixels} rows of {self.pixels} pixels, each with 3 numbers"
            raise InputError("no image", hint=f'give "image": {what}; or "seed": a whole number')
        return found

    def run(self, samples: list[Tensor]) -> list[dict[str, Any]]:
        scores = torch.softmax(self.module(torch.stack(samples).to(self.device)), dim=1)
        top = torch.topk(scores, min(TOP, scores.shape[1]))
        pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True)
        return [{"classes": classes, "scores": values} for classes, values in pairs]


class TextModel:
    """Encoders fill in the tokens that are masked; decoders continue the text. A token is a byte."""

    def __init__(self, model: Model, tiny: bool, seed: int) -> None:
        torch.manual_seed(seed)
        self.device = torch.device("cpu")
        self.name, self.module = model.name, text.build(model.name, tiny).eval()
        self.length = text.max_length(model.name, tiny)
        self.generates = model.name.startswith("gpt2")

    def read(self, request: Mapping[str, Any]) -> Prompt:
        words = request.get("text")
        if not isinstance(words, str) or not words:
            raise InputError("no text", hint='give "text": "..."')
        if self.generates:
            new = request.get("max_tokens", 16)
            if not isinstance(new, int) or isinstance(new, bool) or not 1 <= new <= MAX_NEW_TOKENS:
                raise InputError(f"bad max_tokens: {new!r}"[:80], hint=f"from 1 to {MAX_NEW_TOKENS}")
            return Prompt(tuple(texts.encode(words.encode())[-self.length :].tolist()), new)
        parts = words.encode().split(b"[MASK]")
        tokens = [texts.CLS]
        for at, part in enumerate(parts):
            tokens += ([texts.MASK] if at else []) + texts.encode(part).tolist()
        if len(tokens) >= self.length:
            raise InputError(
                f"a text of {len(tokens) - 1} tokens", hint=f"at most {self.length - 2}; a token is a byte"
            )
        return Prompt((*tokens, texts.SEP))

    def run(self, samples: list[Prompt]) -> list[dict[str, Any]]:
        """Run texts of equal length together: padding would change the answers of these models."""
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for at, sample in enumerate(samples):
            groups[len(sample.tokens), sample.new].append(at)
        answers: dict[int, dict[str, Any]] = {}
        for (_, new), places in groups.items():
            tokens = torch.tensor([samples[at].tokens for at in places], device=self.device)
            found = self._continue(tokens, new) if self.generates else self._fill(tokens)
            answers.update(zip(places, found, strict=True))
        return [answers[at] for at in range(len(samples))]

    def _continue(self, tokens: Tensor, new: int) -> list[dict[str, Any]]:
        for _ in range(new):
            scores = self.module(tokens[:, -self.length :])[:, -1, : texts.TOKENS]
            tokens = torch.cat([tokens, scores.argmax(dim=1, keepdim=True)], dim=1)
        return [{"tokens": row, "text": _text(row)} for row in tokens[:, -new:].tolist()]

    def _fill(self, tokens: Tensor) -> list[dict[str, Any]]:
        segments = (torch.zeros_like(tokens),) if self.name.startswith("bert") else ()
        found = self.module(tokens, *segments)
        scores = (found[0] if isinstance(found, tuple) else found)[:, :, : texts.TOKENS]
        best = torch.where(tokens == texts.MASK, scores.argmax(dim=2), tokens)
        return [{"tokens": row, "text": _text(row)} for row in best[:, 1:-1].tolist()]


def _text(tokens: list[int]) -> str:
    kept = np.array([token for token in tokens if token >= texts.FIRST_BYTE], dtype=np.int64)
    return texts.decode(kept).decode(errors="replace")


def load(model: Model, tiny: bool, seed: int) -> ImageModel | TextModel:
    """Return a model that answers requests."""
    return ImageModel(model, tiny, seed) if model.kind == "images" else TextModel(model, tiny, seed)
