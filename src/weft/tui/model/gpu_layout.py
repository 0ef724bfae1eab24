"""The GPUs as a grid: one cell for each, grouped by node, in three sizes. Only the lines that are shown are made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from weft.text import display_width, natural
from weft.tui.model.board import Board, memory_of
from weft.tui.model.spans import SPARKS, Span, amount_mb, bar, clean, fit
from weft.views.answers.nodes import GpuView

DENSE, COMPACT, CARDS = "dense", "compact", "cards"
ZOOMS: Final = (DENSE, COMPACT, CARDS)
MAX_LABEL: Final = 14
MAX_CHUNK: Final = 32
"""GPUs of a node in one piece of a line."""
COMPACT_WIDTHS: Final = (11, 24)
CARD_WIDTHS: Final = (23, 34)
"""The least and the largest width of a cell."""
CARD_LINES: Final = 3
COLOURS: Final = 12


class Cell(NamedTuple):
    spans: Sequence[Span]
    job: str = ""
    """The job that a click on the cell opens; empty: none."""


Cells = list[Cell]


class Layout(Protocol):
    @property
    def height(self) -> int: ...

    def line(self, at: int) -> Cells: ...


class Group(NamedTuple):
    node: str
    gpus: Sequence[GpuView]
    closed: bool
    """No new runs start on the node."""


def groups_of(board: Board) -> list[Group]:
    by_node: dict[str, list[GpuView]] = {}
    for gpu in board.gpus.values():
        by_node.setdefault(gpu.node, []).append(gpu)
    return [
        Group(
            node,
            sorted(by_node[node], key=lambda gpu: gpu.gpu),
            bool(board.nodes[node].closed) if node in board.nodes else False,
        )
        for node in sorted(by_node, key=natural)
    ]


def make_layout(board: Board, width: int, zoom: str, height: int) -> tuple[str, Layout]:
    """Return the layout of a size. With the size `auto`: the largest of which all lines fit into the height."""
    groups, width = groups_of(board), max(width, 8)
    if zoom != "auto":
        return zoom, _LAYOUTS[zoom](board, groups, width)
    for name in reversed(ZOOMS):
        layout = _LAYOUTS[name](board, groups, width)
        if layout.height <= height or name == DENSE:
            return name, layout
    raise AssertionError("the last size is always used")


# ---- one GPU


def colour_of(gpu: GpuView) -> str:
    """Return the style of a GPU: of its holder, or why it has none."""
    if (any(block.memory_mb is None for block in gpu.blocked) and not gpu.jobs) or gpu.error:
        closed = all(block.reason in ("Drained", "NodeLeaving") for block in gpu.blocked) and not gpu.error
        return "closed" if closed else "blocked"
    if not gpu.jobs:
        return "idle"
    return f"holder{crc32(gpu.jobs[0].encode()) % COLOURS}"


def level_of(gpu: GpuView) -> str:
    """Return a column as high as the utilisation; without a driver, as the reserved memory."""
    style = colour_of(gpu)
    if style in ("blocked", "closed"):
        return "×"
    if not gpu.jobs:
        return "·"
    part = memory_of(gpu) / max(gpu.memory_mb, 1) if gpu.utilisation is None else gpu.utilisation / 100
    return SPARKS[max(min(int(part * len(SPARKS)), len(SPARKS) - 1), 1)]


def holder_of(gpu: GpuView, board: Board) -> str:
    if gpu.error:
        return clean(gpu.error)
    if gpu.jobs:
        job = board.jobs.get(gpu.jobs[0])
        name = (job.name if job is not None else "") or gpu.jobs[0]
        return f"{clean(name)} +{len(gpu.jobs) - 1}" if len(gpu.jobs) > 1 else clean(name)
    return gpu.blocked[0].reason if gpu.blocked else "idle"


def _job(gpu: GpuView) -> str:
    return gpu.jobs[0] if gpu.jobs else ""


# ---- one column for each GPU


class DenseLayout:
    def __init__(self, _board: Board, groups: Sequence[Group], width: int) -> None:
        self._label = _label_width(groups)
        chunk = max(min(MAX_CHUNK, width - self._label - 1), 1)
        self._pieces = [
            (group if at == 0 else group._replace(node=""), group.gpus[at : at + chunk])
            for group in groups
            for at in range(0, max(len(group.gpus), 1), chunk)
        ]
        widest = max((len(gpus) for _, gpus in self._pieces), default=1)
        self._block = self._label + 1 + widest + 2
        self._per_line = max((width + 2) // self._block, 1)

    @property
    def height(self) -> int:
        return -(-len(self._pieces) // self._per_line)

    def line(self, at: int) -> Cells:
        cells: Cells = []
        for group, gpus in self._pieces[at * self._per_line : (at + 1) * self._per_line]:
            cells.append(Cell([(fit(group.node, self._label) + " ", "closed" if group.closed else "dim")]))
            cells += [Cell([(level_of(gpu), colour_of(gpu))], _job(gpu)) for gpu in gpus]
            cells.append(Cell([(" " * (self._block - self._label - 1 - len(gpus)), "")]))
        return cells


# ---- several columns, or a card


class FlowLayout(ABC):
    """Cells of one size that flow to the right, each node on separate lines."""

    min_width, max_width = COMPACT_WIDTHS
    cell_lines = 1
    label_on_top = False
    gap_lines = 0

    def __init__(self, board: Board, groups: Sequence[Group], width: int) -> None:
        self._board, self._groups = board, groups
        self._label = 0 if self.label_on_top else _label_width(groups) + 1
        room = width - self._label
        most = max((len(group.gpus) for group in groups), default=1)
        self._per_line = max(room // self.min_width, 1)
        self._per_line = -(-most // -(-most // self._per_line))  # lines of equal length
        self._cell = max(min(room // self._per_line, self.max_width), 4)
        self._starts = [0]
        for group in groups:
            rows = -(-max(len(group.gpus), 1) // self._per_line)
            lines = rows * (self.cell_lines + self.gap_lines) + self.label_on_top
            self._starts.append(self._starts[-1] + lines)

    @property
    def height(self) -> int:
        return self._starts[-1]

    def line(self, at: int) -> Cells:
        index = bisect_right(self._starts, at) - 1
        if not 0 <= index < len(self._groups):
            return []
        group, at = self._groups[index], at - self._starts[index]
        if self.label_on_top:
            if at == 0:
                return [Cell(self.title(group))]
            at -= 1
        row, part = divmod(at, self.cell_lines + self.gap_lines)
        if part >= self.cell_lines:
            return []
        cells: Cells = []
        if self._label:
            name = group.node if at == 0 else ""
            cells.append(Cell([(fit(name, self._label - 1) + " ", "closed" if group.closed else "dim")]))
        gpus = group.gpus[row * self._per_line : (row + 1) * self._per_line]
        return [*cells, *(Cell(self.cell(gpu, part, self._cell), _job(gpu)) for gpu in gpus)]

    @abstractmethod
    def title(self, group: Group) -> list[Span]:
        """Return the line above the cells of a node."""

    @abstractmethod
    def cell(self, gpu: GpuView, part: int, width: int) -> list[Span]:
        """Return one line of a cell."""


class CompactLayout(FlowLayout):
    def title(self, group: Group) -> list[Span]:
        return [(group.node, "dim")]

    def cell(self, gpu: GpuView, part: int, width: int) -> list[Span]:  # noqa: ARG002
        colour = colour_of(gpu)
        head = f"{gpu.gpu:>2} "
        return [
            (head, "dim"),
            (level_of(gpu), colour),
            (fit(f" {holder_of(gpu, self._board)}", width - len(head) - 1), colour),
        ]


class CardLayout(FlowLayout):
    min_width, max_width = CARD_WIDTHS
    cell_lines = CARD_LINES
    label_on_top = True

    def title(self, group: Group) -> list[Span]:
        models = ", ".join(dict.fromkeys(gpu.model for gpu in group.gpus if gpu.model))
        busy = sum(bool(gpu.jobs) for gpu in group.gpus)
        closed: list[Span] = [("  closed", "closed")] if group.closed else []
        about = (
            f"  {clean(models)}  {busy} of {len(group.gpus)} busy" if models else f"  {busy} of {len(group.gpus)} busy"
        )
        return [(clean(group.node), "strong"), (about, "dim"), *closed]

    def cell(self, gpu: GpuView, part: int, width: int) -> list[Span]:
        colour, inner = colour_of(gpu), width - 2
        stripe: Span = ("▌", colour)
        if part == 0:
            return [
                stripe,
                (f"{gpu.gpu:<2} ", "strong"),
                (fit(holder_of(gpu, self._board), inner - 4), colour),
                ("  ", ""),
            ]
        if part == 1:
            used = memory_of(gpu)
            value = used / max(gpu.memory_mb, 1)
            text = f"{amount_mb(used)}/{amount_mb(gpu.memory_mb)}"
            return [stripe, *_meter("mem", value, text, inner, _heat(value, "bar-cool"))]
        if gpu.utilisation is None:
            return [
                stripe,
                (fit("gpu  no driver reports" if not gpu.jobs else f"job {gpu.jobs[0]}", inner), "faint"),
                (" ", ""),
            ]
        value = gpu.utilisation / 100
        return [stripe, *_meter("gpu", value, f"{gpu.utilisation:.0f}%", inner, "bar")]


def _meter(name: str, value: float, text: str, width: int, style: str) -> list[Span]:
    length = max(width - len(name) - 12, 2)
    return [
        (f"{name} ", "dim"),
        *bar(value, length, style),
        (fit(f" {text}", width - length - len(name) - 1), "dim"),
        (" ", ""),
    ]


def _heat(value: float, style: str) -> str:
    return "bar-bad" if value > 0.97 else "bar-warn" if value > 0.9 else style


def _label_width(groups: Sequence[Group]) -> int:
    return min(max((display_width(clean(group.node)) for group in groups), default=4), MAX_LABEL)


_LAYOUTS: Final[dict[str, type[DenseLayout] | type[CompactLayout] | type[CardLayout]]] = {
    DENSE: DenseLayout, COMPACT: CompactLayout, CARDS: CardLayout
}  # fmt: skip
