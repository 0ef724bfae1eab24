"""A language model with random weights in a GGUF file: real architecture, real tokeniser, no meaning. 2 MB."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

NAME: Final = "tiny-llm"
LAYERS: Final = 2
WIDTH: Final = 128
HEADS: Final = 4
HIDDEN: Final = 256
CONTEXT: Final = 2048
SPECIAL: Final = ("<unk>", "<s>", "</s>")
CONTROL: Final = 3
UNKNOWN: Final = 2
BYTE: Final = 6
CHAT: Final = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant: "


def cached(seed: int) -> Path:
    """Return the path of the file for a seed; make it at first use."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = Path(os.environ.get("WEFT_DATA_DIR") or cache / "weft" / "data") / f"{NAME}-{seed}.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        write(partial, seed)
        partial.replace(path)
    return path


def write(path: Path, seed: int) -> None:
    """Write a LLaMA of two layers whose tokens are bytes."""
    gguf: Any = import_module("gguf")  # of the extra weft[llm]
    out = gguf.GGUFWriter(str(path), "llama")
    out.add_name(NAME)
    out.add_context_length(CONTEXT)
    out.add_embedding_length(WIDTH)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(HIDDEN)
    out.add_head_count(HEADS)
    out.add_head_count_kv(HEADS)
    out.add_rope_dimension_count(WIDTH // HEADS)
    out.add_layer_norm_rms_eps(1e-5)
    tokens = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))]
    out.add_vocab_size(len(tokens))
    out.add_tokenizer_model("llama")
    out.add_token_list(tokens)
    out.add_token_scores([0.0] * len(tokens))
    out.add_token_types([UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256)
    out.add_unk_token_id(0)
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_chat_template(CHAT)
    for name, values in _tensors(len(tokens), np.random.default_rng(seed)):
        out.add_tensor(name, values)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def _tensors(vocabulary: int, draw: np.random.Generator) -> list[tuple[str, Any]]:
    def matrix(rows: int, columns: int) -> Any:
        return draw.normal(0, 0.1, (rows, columns)).astype(np.float32)

    ones = np.ones(WIDTH, dtype=np.float32)
    found = [
        ("token_embd.weight", matrix(vocabulary, WIDTH)), ("output.weight", matrix(vocabulary, WIDTH)),
        ("output_norm.weight", ones),
    ]  # fmt: skip
    for layer in range(LAYERS):
        part = f"blk.{layer}."
        found += [(f"{part}attn_norm.weight", ones), (f"{part}ffn_norm.weight", ones)]
        found += [(f"{part}attn_{name}.weight", matrix(WIDTH, WIDTH)) for name in ("q", "k", "v", "output")]
        found += [(f"{part}ffn_{name}.weight", matrix(HIDDEN, WIDTH)) for name in ("gate", "up")]
        found.append((f"{part}ffn_down.weight", matrix(WIDTH, HIDDEN)))
    return found
