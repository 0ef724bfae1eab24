"""A decoder with the shape of LLaMA-2-7B, which can be built whole or in parts for a pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class LlamaShape:
    vocabulary: int
    width: int
    hidden: int
    """Width of the feed-forward part."""
    layers: int
    heads: int
    positions: int


FULL: Final = LlamaShape(32000, 4096, 11008, 32, 32, 4096)
TINY: Final = LlamaShape(512, 64, 172, 4, 2, 128)


class Rotation(nn.Module):
    """Rotary positions: turns each pair of a head's dimensions by an angle that grows with the position."""

    def __init__(self, head_width: int) -> None:
        super().__init__()
        self.head_width = head_width

    def forward(self, heads: Tensor) -> Tensor:
        half = self.head_width // 2
        rates = 10000.0 ** (-torch.arange(half, device=heads.device, dtype=torch.float32) / half)
        angles = torch.arange(heads.shape[2], device=heads.device, dtype=torch.float32)[:, None] * rates
        cosine, sine = angles.cos().to(heads.dtype), angles.sin().to(heads.dtype)
        left, right = heads[..., :half], heads[..., half:]
        return torch.cat((left * cosine - right * sine, right * cosine + left * sine), dim=-1)


class LlamaLayer(nn.Module):
    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.attention_norm, self.norm = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.query, self.key = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.value, self.output = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, shape.hidden, bias=False), nn.Linear(width, shape.hidden, bias=False)
        self.down = nn.Linear(shape.hidden, width, bias=False)
        self.rotation = Rotation(width // shape.heads)

    def forward(self, hidden: Tensor) -> Tensor:
        batch, length, width = hidden.shape
        normed = self.attention_norm(hidden)

        def split(part: Tensor) -> Tensor:
            return part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

        query, key = self.rotation(split(self.query(normed))), self.rotation(split(self.key(normed)))
        mixed = functional.scaled_dot_product_attention(query, key, split(self.value(normed)), is_causal=True)
        hidden = hidden + self.output(mixed.transpose(1, 2).reshape(batch, length, width))
        normed = self.norm(hidden)
        return hidden + self.down(functional.silu(self.gate(normed)) * self.up(normed))


class LlamaPart(nn.Module):
    """Consecutive layers: the first part embeds tokens, the last one scores them. One part of one is the whole model.

    Layers keep their numbers of the whole model, so that a checkpoint of one split loads into another.
    """

    def __init__(self, shape: LlamaShape, part: int = 0, parts: int = 1) -> None:
        super().__init__()
        first, last = part * shape.layers // parts, (part + 1) * shape.layers // parts
        self.tokens = nn.Embedding(shape.vocabulary, shape.width) if part == 0 else None
        self.blocks = nn.ModuleDict({str(at): LlamaLayer(shape) for at in range(first, last)})
        ends = part == parts - 1
        self.norm = nn.RMSNorm(shape.width, eps=1e-5) if ends else None
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False) if ends else None
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, hidden: Tensor) -> Tensor:
        if self.tokens is not None:
            hidden = self.tokens(hidden)
        for block in self.blocks.values():
            hidden = block(hidden)
        return hidden if self.head is None or self.norm is None else self.head(self.norm(hidden))


def build(tiny: bool, part: int = 0, parts: int = 1) -> LlamaPart:
    """Return a part of the model."""
    return LlamaPart(TINY if tiny else FULL, part, parts)


def layers(tiny: bool) -> int:
    """Return the number of layers, which limits the number of parts."""
    return (TINY if tiny else FULL).layers


def max_length(tiny: bool) -> int:
    """Return the longest sequence that the model takes."""
    return (TINY if tiny else FULL).positions
