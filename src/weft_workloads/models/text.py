"""Text models: encoders (BERT, RoBERTa), which fill in masked tokens, and decoders (GPT-2), which predict the next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

INIT_STD: Final = 0.02
"""With torch's default initialisation, GPT-2 begins at a loss of 40."""


@dataclass(frozen=True, slots=True)
class TextShape:
    """The dimensions of a text model."""

    vocabulary: int
    positions: int
    width: int
    layers: int
    heads: int
    segments: int = 0
    """Token types: 2 for BERT, 1 for RoBERTa, none for GPT-2."""
    first_position: int = 0
    """RoBERTa counts positions from 2."""


TINY_LENGTH: Final = 128
SHAPES: Final = {
    "bert-base": TextShape(30522, 512, 768, 12, 12, segments=2),
    "roberta-large": TextShape(50265, 514, 1024, 24, 16, segments=1, first_position=2),
    "gpt2": TextShape(50257, 1024, 768, 12, 12),
    "gpt2-large": TextShape(50257, 1024, 1280, 36, 20),
}


def build(name: str, tiny: bool) -> nn.Module:
    """Return a text model by name."""
    shape = SHAPES[name]
    if tiny:
        positions = TINY_LENGTH + shape.first_position
        shape = replace(shape, vocabulary=512, positions=positions, width=64, layers=shape.layers // 12 + 1, heads=2)
    return _KINDS[name](shape)


def max_length(name: str, tiny: bool) -> int:
    """Return the longest sequence that the model takes."""
    if tiny:
        return TINY_LENGTH
    return SHAPES[name].positions - SHAPES[name].first_position


def _init(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=INIT_STD)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


class Attention(nn.Module):
    def __init__(self, shape: TextShape, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = shape.heads, causal
        self.inputs = nn.Linear(shape.width, 3 * shape.width)
        self.outputs = nn.Linear(shape.width, shape.width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, hidden: Tensor) -> Tensor:
        batch, length, width = hidden.shape
        parts = self.inputs(hidden).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return self.dropout(self.outputs(mixed.transpose(1, 2).reshape(batch, length, width)))


def _feed_forward(shape: TextShape, approximate: str) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(shape.width, 4 * shape.width), nn.GELU(approximate),
        nn.Linear(4 * shape.width, shape.width), nn.Dropout(0.1),
    )  # fmt: skip


class EncoderLayer(nn.Module):
    """A layer that normalises after each part, as BERT does."""

    def __init__(self, shape: TextShape) -> None:
        super().__init__()
        self.attention, self.attention_norm = Attention(shape, causal=False), nn.LayerNorm(shape.width, eps=1e-12)
        self.feed_forward, self.norm = _feed_forward(shape, "none"), nn.LayerNorm(shape.width, eps=1e-12)

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = self.attention_norm(hidden + self.attention(hidden))
        return self.norm(hidden + self.feed_forward(hidden))


class Encoder(nn.Module):
    """The body of BERT and RoBERTa: embeddings and layers."""

    def __init__(self, shape: TextShape) -> None:
        super().__init__()
        self.first_position = shape.first_position
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.positions, shape.width)
        self.segments = nn.Embedding(shape.segments, shape.width)
        self.norm, self.dropout = nn.LayerNorm(shape.width, eps=1e-12), nn.Dropout(0.1)
        self.blocks = nn.ModuleList(EncoderLayer(shape) for _ in range(shape.layers))

    def forward(self, tokens: Tensor, segments: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device) + self.first_position
        hidden = self.tokens(tokens) + self.positions(places) + self.segments(segments)
        hidden = self.dropout(self.norm(hidden))
        for block in self.blocks:
            hidden = block(hidden)
        return hidden


class MaskedHead(nn.Module):
    """Scores for every token; the matrix is that of the embedding."""

    def __init__(self, shape: TextShape, embedding: nn.Embedding) -> None:
        super().__init__()
        self.dense, self.norm = nn.Linear(shape.width, shape.width), nn.LayerNorm(shape.width, eps=1e-12)
        self.weight, self.bias = embedding.weight, nn.Parameter(torch.zeros(shape.vocabulary))

    def forward(self, hidden: Tensor) -> Tensor:
        return functional.linear(self.norm(functional.gelu(self.dense(hidden))), self.weight, self.bias)


class Bert(nn.Module):
    """BERT with both heads of its pre-training: masked tokens, and whether the second segment follows the first."""

    def __init__(self, shape: TextShape) -> None:
        super().__init__()
        self.encoder = Encoder(shape)
        self.pooler = nn.Linear(shape.width, shape.width)
        _init(self)
        self.masked_head = MaskedHead(shape, self.encoder.tokens)
        self.next_head = nn.Linear(shape.width, 2)

    def forward(self, tokens: Tensor, segments: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.encoder(tokens, segments)
        return self.masked_head(hidden), self.next_head(torch.tanh(self.pooler(hidden[:, 0])))


class Roberta(nn.Module):
    """RoBERTa with the head for masked tokens."""

    def __init__(self, shape: TextShape) -> None:
        super().__init__()
        self.encoder = Encoder(shape)
        _init(self)
        self.masked_head = MaskedHead(shape, self.encoder.tokens)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.masked_head(self.encoder(tokens, torch.zeros_like(tokens)))


class DecoderLayer(nn.Module):
    """A layer that normalises before each part, as GPT-2 does."""

    def __init__(self, shape: TextShape) -> None:
        super().__init__()
        self.attention_norm, self.attention = nn.LayerNorm(shape.width), Attention(shape, causal=True)
        self.norm, self.feed_forward = nn.LayerNorm(shape.width), _feed_forward(shape, "tanh")

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = hidden + self.attention(self.attention_norm(hidden))
        return hidden + self.feed_forward(self.norm(hidden))


class Decoder(nn.Module):
    """GPT-2. The output matrix is that of the embedding."""

    def __init__(self, shape: TextShape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.positions, shape.width)
        self.dropout = nn.Dropout(0.1)
        self.blocks = nn.ModuleList(DecoderLayer(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        _init(self)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        hidden = self.dropout(self.tokens(tokens) + self.positions(places))
        for block in self.blocks:
            hidden = block(hidden)
        return functional.linear(self.norm(hidden), self.tokens.weight)


_KINDS: Final = {"bert-base": Bert, "roberta-large": Roberta, "gpt2": Decoder, "gpt2-large": Decoder}
