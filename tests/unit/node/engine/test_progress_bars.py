from __future__ import annotations

import os
import random
import time

import pytest

from weft.node.engine.output.progress_bars import Bar, last_bar

RICH = "━" * 20 + "╸" + "━" * 10


@pytest.mark.parametrize(
    ("text", "bar"),
    [
        # tqdm
        ("  0%|          | 0/1000 [00:00<?, ?it/s]", Bar(0, 1000, None)),
        (" 45%|####5     | 450/1000 [00:10<00:12, 44.50it/s]", Bar(450, 1000, 12.0)),
        ("Epoch 3:  45%|████▌     | 450/1000 [1:00:10<1:02:03, 4.5s/it, loss=0.1]", Bar(450, 1000, 3723.0)),
        ("100%|██████████| 1000/1000 [00:22<00:00, 44.5it/s]", Bar(1000, 1000, 0.0)),
        (" 45%|####5     | 1.20k/5.00k [00:10<00:12, 44.5it/s]", Bar(1200, 5000, 12.0)),
        ("model.bin:  12%|█▏        | 11.8M/98.0M [00:01<00:07, 11.8MB/s]", Bar(11_800_000, 98_000_000, 7.0)),
        ("450it [00:10, 44.5it/s]", Bar(450, None, None)),
        ("1.20kit [00:10, 44.5it/s]", Bar(1200, None, None)),
        ("Loading: 33 batches [00:02, 14.1 batches/s]", Bar(33, None, None)),
        # Lightning
        ("Epoch 0:  12%|█▎        | 12/97 [00:01<00:08,  9.85it/s, v_num=3, train_loss=2.30]", Bar(12, 97, 8.0)),
        (f"Epoch 0/9 {RICH} 450/1000 0:00:10 • 0:00:12 44.50it/s v_num: 0", Bar(450, 1000, 12.0)),
        # rich
        (f"Training {RICH} 450/1000  45% 0:00:12", Bar(450, 1000, 12.0)),
        (f"Training {RICH}  45% 0:00:12", Bar(45, 100, 12.0)),
        (f"Training {RICH}  45% -:--:--", Bar(45, 100, None)),
        (f"\x1b[2K\x1b[38;5;197m{RICH}\x1b[0m \x1b[35m450/1000\x1b[0m", Bar(450, 1000, None)),
        # Keras 2 and 3
        (" 12/313 [>.............................] - ETA: 5s - loss: 2.1530", Bar(12, 313, 5.0)),
        ("120/313 [==========>...................] - ETA: 1:02 - loss: 0.5", Bar(120, 313, 62.0)),
        ("313/313 [==============================] - 2s 5ms/step - loss: 0.2", Bar(313, 313, None)),
        (f"\x1b[1m 12/313\x1b[0m {'━' * 20} \x1b[1m5s\x1b[0m 17ms/step - accuracy: 0.1", Bar(12, 313, 5.0)),
        # counts
        ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.3", Bar(640, 60000, None)),
        ("450/1000 45.0%", Bar(450, 1000, None)),
        ("done 45% (450/1000)", Bar(450, 1000, None)),
        ("Epoch [3/90], Step [100/600], Loss: 0.5", Bar(100, 600, None)),
        ("iteration 20 / 50", Bar(20, 50, None)),
    ],
)  # fmt: skip
def test_bars(text: str, bar: Bar) -> None:
    assert last_bar(text.encode()) == bar
    assert last_bar(f"started\n{text}\nsaved\r\n".encode()) == bar


@pytest.mark.parametrize(
    "text",
    ["", "\n\n", "12/31/2025 10:00 started", "loss 0.5/1.0", "GPU 3/8", "100%", "http://a/1/2", "0/0 0%", "9/3 300%",
     "step 1/2/2025", "[ERROR] 5 [x]", "|" * 5000, "━" * 5000, "1" * 5000, "%|" * 3000],
)  # fmt: skip
def test_no_bars(text: str) -> None:
    assert last_bar(text.encode()) is None


def test_the_last_bar_wins() -> None:
    text = "\r".join(f" {n}%|##   | {n}/100 [00:10<00:12, 4.5it/s]" for n in range(50))
    assert last_bar(text.encode()) == Bar(49, 100, 12.0)
    both = text + "\nValidation: 10%|#    | 1/10 [00:01<00:09, 1.0it/s]\nloss is 0.5\n"
    assert last_bar(both.encode()) == Bar(1, 10, 9.0)


def test_a_bar_cut_in_the_middle_does_not_hide_the_one_before() -> None:
    text = " 44%|##   | 44/100 [00:10<00:12, 4.5it/s]\r 45%|##   | 45/1"
    assert last_bar(text.encode()) == Bar(44, 100, 12.0)


def test_garbage_is_passed_over_quickly() -> None:
    noise = random.Random(5).randbytes(4096)
    text = noise + b"\r 45%|##   | 45/100 [00:10<00:12, 4.5it/s]\r" + noise
    assert last_bar(text) == Bar(45, 100, 12.0)
    began = time.process_time()
    for piece in (os.urandom(8192), "━".encode() * 2700, b"1" * 8192, b"12 " * 2700, b"1/1 " * 2000, b"[" * 8192):
        last_bar(piece)
    assert time.process_time() - began < 5.0
