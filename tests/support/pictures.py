"""`python -m support.pictures FOLDER`: pictures of `weft top` and of the web page, from a real cluster on loopback."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from support.peers.browser import Browser, browser
from support.running.secured_cluster import free_port
from weft.access.endpoints.addresses import Address
from weft.tui.app import Top
from weft.tui.sources.live import LiveSource

WEFT = (sys.executable, "-m", "weft")
PROGRAM = """
import math, random, sys, time
from weft import train
steps, step_s = int(sys.argv[1]), float(sys.argv[2])
for step in range(steps):
    time.sleep(step_s)
    loss = 2.3 * math.exp(-3 * step / steps) + random.uniform(0.1, 0.14)
    train.progress(step + 1, steps, loss=round(loss, 3), accuracy=round(1 - loss / 2.6, 3))
    print(f"step {step + 1}/{steps}  loss {loss:.3f}", flush=True)
"""
JOBS = (
    ("resnet50-imagenet", 8, 900), ("gpt2-finetune", 4, 700), ("bert-base-squad", 2, 500), ("vgg19-cifar", 1, 220),
    ("llama2-7b-lora", 4, 800), ("dqn-atari", 1, 300), ("vit-small", 2, 260), ("resnet18-quick", 1, 45),
    ("a2c-breakout", 1, 40), ("whisper-small", 2, 420), ("clip-vit-b32", 8, 600), ("yolo-v8", 2, 350),
    ("unet-segment", 1, 240), ("bert-large", 8, 900), ("mixer-b16", 4, 400), ("t5-small", 1, 200),
)  # fmt: skip
"""Name, GPUs and seconds. The cluster has 24 GPUs, so some wait."""
RUN_S = 60.0
"""The time after which the pictures are taken: charts need some."""
COLUMNS, LINES = 150, 30
WIDTH, HEIGHT = 1200, 760


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="weft-pictures-") as state:
        for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
            os.environ[name] = state
        os.environ["USER"] = os.environ["LOGNAME"] = "ada"
        port = str(free_port())
        where = ("--scheduler", f"localhost:{port}")
        _weft("cluster", "up", "--nodes", "3", "--gpus-per-node", "8", "--port", port, "--policy", "srsf")
        try:
            for name, gpus, seconds in JOBS:
                words = ("--name", name, "--gpus", str(gpus), "--memory", "8G", "--duration", f"{seconds}s")
                _weft("submit", "-q", *where, *words, "--", sys.executable, "-c", PROGRAM, str(2 * seconds), "0.5")
            page = subprocess.Popen([*WEFT, "web", *where, "--port", "0"], stdout=subprocess.PIPE, text=True)
            try:
                assert page.stdout is not None
                link = next(word for line in page.stdout for word in line.split() if word.startswith("http"))
                asyncio.run(asyncio.sleep(RUN_S))
                asyncio.run(_draw_screen(Address("localhost", int(port)), folder / "top.svg"))
                with browser() as window:
                    _draw_page(window, link, folder)
            finally:
                page.terminate()
                page.wait(20)
        finally:
            _weft("cluster", "down", "--port", port, "--clean", "-y")


def _weft(*words: str) -> None:
    subprocess.run([*WEFT, *words], check=True, stdout=subprocess.DEVNULL)


async def _draw_screen(where: Address, file: Path) -> None:
    app = Top(LiveSource(where))
    async with app.run_test(size=(COLUMNS, LINES)) as pilot:
        await asyncio.sleep(6.0)
        await pilot.press("down")
        await asyncio.sleep(2.0)
        file.write_text(app.export_screenshot(title="weft top"))


def _draw_page(window: Browser, link: str, folder: Path) -> None:
    window.size(WIDTH, HEIGHT)
    window.open(link)
    for theme in ("light", "dark"):
        window.size(WIDTH, HEIGHT, dark=theme == "dark")
        window.until("/gpus in use/i.test(document.body.innerText)")
        asyncio.run(asyncio.sleep(4.0))
        (folder / f"web-{theme}.png").write_bytes(window.view())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
