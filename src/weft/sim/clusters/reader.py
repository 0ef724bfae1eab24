"""Reader of clusters in four forms: `8x8`, a bundled name, a Muri CSV, Weft's YAML (docs/reference/cluster-spec.md)."""

from __future__ import annotations

import os
import re
from importlib.resources import files
from typing import Final

from weft.errors import InputError
from weft.inputs.csv import MAX_NUMBER, Table, parse_table, shorten
from weft.inputs.files import read_text
from weft.model import Gpu, Node
from weft.sim.traces.formats.draft import MAX_GPUS

MAX_FILE_BYTES: Final = 4 << 20

_GRID: Final = re.compile(r"([0-9]{1,9})x([0-9]{1,9})")
_MURI_COLUMNS: Final = ("num_switch", "num_node_p_switch", "num_gpu_p_node", "num_cpu_p_node", "mem_p_node")
BUNDLED: Final = ("n1g8", "n2g8", "n4g8", "n8g8")
"""Bundled clusters, with nodes as in Muri's testbed."""
_FORMS: Final = f"""expected one of
    8x8           nodes x GPUs of each
    {BUNDLED[-1]}          a bundled cluster: {", ".join(BUNDLED)}
    FILE.csv      a Muri cluster: {",".join(_MURI_COLUMNS)}
    FILE.yaml     nodes: [{{count: 4, gpus: 8}}]"""


def read_cluster(spec: str) -> tuple[Node, ...]:
    """Return the nodes that the spec describes, in order."""
    if grid := _GRID.fullmatch(spec):
        return _make_grid(int(grid[1]), int(grid[2]), spec)
    if spec in BUNDLED:
        text = files("weft.sim").joinpath("data", f"{spec}.csv").read_text(encoding="utf-8")
        return _parse_muri(parse_table(text, spec))
    if not os.path.lexists(spec):
        raise InputError(f"no cluster {shorten(spec)}: not NODESxGPUS, a bundled cluster or a file", hint=_FORMS)
    text = read_text(spec, max_bytes=MAX_FILE_BYTES)
    if _is_csv(text, spec):
        return _parse_muri(parse_table(text, spec))
    from weft.sim.clusters.yaml_spec import parse_cluster  # imports yaml, which the other forms do not need

    return parse_cluster(text, spec)


def _make_grid(nodes: int, gpus: int, spec: str) -> tuple[Node, ...]:
    if not 1 <= nodes * gpus <= MAX_GPUS:
        what = f"cluster {spec!r} has {nodes * gpus:,} GPUs"
        raise InputError(what, hint=f"expected NODESxGPUS with 1 to {MAX_GPUS:,} GPUs in all, such as 8x8")
    each = (Gpu(),) * gpus
    return tuple(Node(f"n{at}", each, switch="s0") for at in range(nodes))


def _is_csv(text: str, spec: str) -> bool:
    first = text.lstrip().partition("\n")[0]
    return first.startswith(_MURI_COLUMNS) or spec.endswith(".csv")


def _parse_muri(table: Table) -> tuple[Node, ...]:
    for column in _MURI_COLUMNS:
        if column not in table.columns:
            hint = f"expected {', '.join(_MURI_COLUMNS)}; found {table.shown}"
            raise InputError(f"a Muri cluster needs a column {column!r}", where=table.where, hint=hint)
    rows = list(table.rows)
    if len(rows) != 1:
        where = rows[1].where if rows else table.where
        raise InputError("a Muri cluster is one row", where=where, hint=f"found {len(rows)} under the header")
    switches, nodes, gpus, cpus, ram_gb = (
        rows[0].whole(column, low=low, high=high)
        for column, (low, high) in zip(_MURI_COLUMNS, [(1, MAX_GPUS)] * 3 + [(0, MAX_NUMBER)] * 2, strict=True)
    )
    if switches * nodes * gpus > MAX_GPUS:
        what = f"{switches * nodes * gpus:,} GPUs in all"
        raise InputError(what, where=rows[0].where, hint=f"expected at most {MAX_GPUS:,}")
    each = (Gpu(),) * gpus
    return tuple(
        Node(f"n{at}", each, cpus=cpus, ram_mb=ram_gb * 1024, switch=f"s{at // nodes}")
        for at in range(switches * nodes)
    )
