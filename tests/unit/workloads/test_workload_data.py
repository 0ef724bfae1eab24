"""Data of the workloads: layouts, errors that say how to get data, and an order that does not depend on runs."""

from __future__ import annotations

import multiprocessing
import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("PIL")

import numpy as np

from weft.errors import InputError
from weft_workloads.data import generated, images, texts
from weft_workloads.data.order import StepBatches
from weft_workloads.data.paths import data_path
from weft_workloads.main import main


@pytest.fixture(scope="module")
def imagenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("layout") / "imagenet"
    generated.make("imagenet", folder, 0)
    return folder


@pytest.fixture(scope="module")
def wikitext(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("layout") / "wikitext"
    generated.make("wikitext", folder, 0)
    return folder


def test_generated_data_depends_on_the_seed_alone(wikitext: Path, tmp_path: Path) -> None:
    assert main(["make-data", "wikitext", str(tmp_path / "same")]) == 0
    assert main(["make-data", "wikitext", str(tmp_path / "other"), "--seed", "1"]) == 0
    text = (wikitext / "wiki.train.tokens").read_bytes()
    assert (tmp_path / "same" / "wiki.train.tokens").read_bytes() == text
    assert (tmp_path / "other" / "wiki.train.tokens").read_bytes() != text


def test_data_is_never_written_over(wikitext: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["make-data", "wikitext", str(wikitext)]) == 2
    assert f"{wikitext} exists" in capsys.readouterr().err


def test_processes_that_start_together_generate_data_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_DATA_DIR", str(tmp_path))
    processes = [multiprocessing.Process(target=generated.cached, args=("wikitext", 3)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")] == ["wikitext-3-v1"]


def test_the_path_comes_from_the_option_then_the_variable_then_the_seed(
    imagenet: Path, wikitext: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("judge_path", raising=False)
    monkeypatch.setenv("TRAIN_FILE", str(wikitext / "wiki.train.tokens"))
    assert data_path("imagenet", str(imagenet), 0) == (imagenet, "data")
    assert data_path("wikitext", None, 0) == (wikitext / "wiki.train.tokens", "TRAIN_FILE")
    assert data_path("wikitext", str(wikitext), 0) == (wikitext, "data")
    monkeypatch.setenv("judge_path", str(imagenet))
    assert data_path("imagenet", None, 0) == (imagenet, "judge_path")
    monkeypatch.delenv("TRAIN_FILE")
    assert data_path("wikitext", None, 0) == (tmp_path / "wikitext-0-v1", "generated")


def test_missing_data_names_the_path_and_a_command_that_makes_it(tmp_path: Path) -> None:
    missing = tmp_path / "imagenet"
    with pytest.raises(InputError) as caught:
        data_path("imagenet", str(missing), 0)
    assert str(missing) in caught.value.what
    command = caught.value.hint.partition("python -m weft_workloads ")[2]
    assert main(command.split()) == 0
    assert len(images.ImageFolder(missing, "train", 32, 0)) == 256


def test_a_wrong_layout_of_images_is_explained(imagenet: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no folder train\n.*train/CLASS/\*.JPEG"):
        images.ImageFolder(imagenet / "train", "train", 32, 0)
    (tmp_path / "val").mkdir()
    (tmp_path / "val" / "ILSVRC2012_val_00000001.JPEG").touch()
    with pytest.raises(InputError, match=r"val has no folders of classes\n.*sort its images"):
        images.ImageFolder(tmp_path, "val", 32, 0)
    (tmp_path / "val" / "n01").mkdir()
    with pytest.raises(InputError, match="has no images"):
        images.ImageFolder(tmp_path, "val", 32, 0)
    (tmp_path / "val" / "n01" / "one.JPEG").write_text("no image")
    with pytest.raises(InputError, match=r"one.JPEG is not a readable image"):
        images.ImageFolder(tmp_path, "val", 32, 0)[0, 0]
    with pytest.raises(InputError, match="val has the class n01, which train lacks"):
        images.check_same_classes(
            images.ImageFolder(imagenet, "train", 32, 0), images.ImageFolder(tmp_path, "val", 32, 0)
        )


def test_labels_are_those_of_the_training_data(imagenet: Path, tmp_path: Path) -> None:
    some = tmp_path / "some"
    shutil.copytree(imagenet, some)
    shutil.rmtree(some / "val" / "n10000000")
    train, val = images.ImageFolder(some, "train", 32, 0), images.ImageFolder(some, "val", 32, 0)
    images.check_same_classes(train, val)
    assert {label for _, label in val.samples} == set(range(1, 8))


def test_crops_change_with_the_epoch_and_not_with_the_run(imagenet: Path) -> None:
    first, second = (images.ImageFolder(imagenet, "train", 32, 0) for _ in range(2))
    assert first[0, 5][0].equal(second[0, 5][0])
    assert not first[0, 5][0].equal(first[1, 5][0])
    unseen = images.ImageFolder(imagenet, "val", 32, 0)
    assert unseen[0, 5][0].equal(unseen[1, 5][0])


def test_a_wrong_layout_of_text_is_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no file wiki.train.tokens, wiki.train.raw or train.txt"):
        texts.find_files(tmp_path)
    alone = tmp_path / "wiki.train.raw"
    alone.write_text("short")
    with pytest.raises(InputError, match=r"no file of unseen text next to it, such as wiki.valid.raw"):
        texts.find_files(tmp_path)
    (tmp_path / "wiki.valid.raw").touch()
    assert texts.find_files(alone) == (alone, tmp_path / "wiki.valid.raw")
    with pytest.raises(InputError, match=r"has 5 bytes, too few for a window of 64"):
        texts.Windows(alone, 64, 0)
    with pytest.raises(InputError, match=r"has 0 bytes"):
        texts.Windows(tmp_path / "wiki.valid.raw", 64, 0)


def test_every_text_survives_the_tokeniser(wikitext: Path) -> None:
    text = bytes(range(256)) + "Weft, Köln 🧵".encode()
    assert texts.decode(texts.encode(text)) == text
    (tokens,) = texts.Windows(wikitext / "wiki.train.tokens", 64, 0)[0, 2]
    assert texts.decode(tokens.numpy()) == (wikitext / "wiki.train.tokens").read_bytes()[128:192]


def test_masked_tokens_are_the_labels(wikitext: Path) -> None:
    tokens, labels = texts.MaskedWindows(wikitext / "wiki.train.tokens", 128, 0)[0, 0]
    chosen = labels != texts.IGNORED
    assert 5 < int(chosen.sum()) < 40
    original = texts.encode((wikitext / "wiki.train.tokens").read_bytes()[:128])
    assert np.array_equal(labels[chosen].numpy(), original[chosen.numpy()])
    assert np.array_equal(tokens[~chosen].numpy(), original[~chosen.numpy()])


def test_pairs_have_two_segments_of_which_half_follow(wikitext: Path) -> None:
    pairs = texts.MaskedPairs(wikitext / "wiki.train.tokens", 64, 0)
    samples = [pairs[0, index] for index in range(100)]
    assert 30 < sum(int(sample[3]) for sample in samples) < 70
    tokens, segments, _, _ = samples[0]
    assert len(tokens) == len(segments) == 64
    assert int(segments.sum()) == 64 - 2 - 31


@pytest.mark.parametrize("world", [1, 2, 3])
def test_ranks_share_each_epoch_and_any_step_can_be_the_first(world: int) -> None:
    orders = [StepBatches(50, 4, rank=rank, world=world, seed=1) for rank in range(world)]
    steps = 2 * orders[0].steps_per_epoch
    for order in orders:
        order.last_step = steps
    batches = [list(order) for order in orders]
    for epoch in range(2):
        seen = [key for rank in batches for batch in rank for key in batch if key[0] == epoch]
        assert len(set(seen)) == len(seen) == 50 // (4 * world) * 4 * world
    orders[0].first_step = 3
    assert list(orders[0]) == batches[0][3:]


def test_data_smaller_than_a_batch_is_used_again() -> None:
    order = StepBatches(3, 8, rank=0, world=1, seed=1)
    order.last_step = 2
    assert [len(batch) for batch in order] == [8, 8]
    assert order.steps_per_epoch == 1


def test_a_run_without_its_data_or_packages_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["--model", "resnet18", "--size", "tiny", "--data", str(tmp_path / "nowhere")]) == 2
    assert f"weft_workloads: data is {tmp_path}/nowhere, which does not exist\n" in capsys.readouterr().err
    assert main(["--model", "resnet18", "--batchsize", "3"]) == 2
    assert "unknown option '--batchsize'\n  known: --batch-size," in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["--model", "resnet18"]) == 1
    said = capsys.readouterr().err
    assert "resnet18 needs torch, which" in said
    assert "pip install 'weft[workloads]'" in said
