"""The settings file of a scheduler."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.access.server.settings import FILE, Settings, load, save
from weft.errors import InputError


def test_what_was_saved_is_loaded_and_what_a_later_weft_added_is_left_out(tmp_path: Path) -> None:
    settings = Settings(gpus="0,1", idle_s=30, foreign="share")
    save(tmp_path, settings)
    assert load(tmp_path) == settings
    (tmp_path / FILE).write_text('{"later": 1, "max_preemptions": 3}')
    assert load(tmp_path) == Settings(max_preemptions=3)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1]", "not a JSON object"),
        ("7", "not a JSON object"),
        ("{", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ('{"idle_s": -1}', "idle_s is -1, not a number from 0"),
        ('{"idle_s": NaN}', "idle_s is NaN"),
        ('{"idle_s": "600"}', 'idle_s is "600"'),
        ('{"min_run_s": true}', "min_run_s is true"),
        ('{"keep_s": 1e999}', "keep_s is Infinity"),
        ('{"max_preemptions": 1.5}', "max_preemptions is 1.5, not a whole number"),
        ('{"gpus": [0, 1]}', r"gpus is \[0, 1\], not text"),
        ('{"policy": null}', "policy is null"),
        ('{"foreign": "kill"}', 'foreign is "kill", not avoid or share or ignore'),
        ('{"foreign": ["avoid"]}', "foreign is"),
    ],
)
def test_what_is_wrong_is_named_with_the_file(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(InputError, match=says) as caught:
        load(tmp_path)
    assert caught.value.where == str(tmp_path / FILE)
