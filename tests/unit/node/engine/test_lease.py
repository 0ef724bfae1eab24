"""The lease as it is written and read."""

from __future__ import annotations

import json
import os
from pathlib import Path

from weft.node.engine import lease


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = str(tmp_path / "lease")
    lease.write(path, 1234.5678)
    assert lease.read(path) == 1234.568
    lease.write(path, 99.0)
    assert lease.read(path) == 99.0
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_nothing_that_counts_is_no_lease(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    assert lease.read(str(path)) == 0.0
    for text in ("", "{", "[]", '{"until": 9}', json.dumps({"boot": "of another start of this machine", "until": 9e9})):
        path.write_text(text)
        assert lease.read(str(path)) == 0.0


def test_where_nothing_new_can_be_written_it_is_written_over(tmp_path: Path) -> None:
    path = str(tmp_path / "lease")
    lease.write(path, 123456.789)
    os.mkdir(f"{path}.tmp")  # a file of that name cannot be made, as on a full disk
    lease.write(path, 7.0)
    assert lease.read(path) == 7.0
