"""How pictures look: colours and lines that survive colour blindness and black-and-white, axes in human units.

matplotlib is imported here and in the modules that draw, inside their functions: nothing else should wait for it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from weft.errors import WeftError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK: Final = "#1a1a1a"
PAPER: Final = "#ffffff"
FAINT: Final = "#b8b8b8"
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK, "#8c6d1f")
"""Okabe and Ito's, the darker first; their yellow is too pale for a line on white, so brown takes its place."""
DASHES: Final = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (9, 2)),
                 (0, (3, 1, 1, 1, 1, 1)), (0, (2, 2.5)), (0, (8, 1, 3, 1)))  # fmt: skip
HATCHES: Final = ("", "//", "..", "xx", "\\\\", "++", "oo", "--")
FAR_APART: Final = 6.0
"""Ratios beyond this are drawn on a logarithmic axis."""
LABEL: Final = 34
"""Longer names are cut."""

_SETTINGS: Final[Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.facecolor": PAPER,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "figure.constrained_layout.use": True,
    "figure.facecolor": PAPER,
    "font.family": ["DejaVu Sans"],
    "font.size": 9.5,
    "grid.color": FAINT,
    "grid.linewidth": 0.4,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "savefig.dpi": 144,
    "svg.fonttype": "none",
    "svg.hashsalt": "weft",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}
_UNITS: Final = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
_TICKS: Final = {
    1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 36_000: "10 h", 86_400: "1 d", 864_000: "10 d",
    8_640_000: "100 d", 86_400_000: "1000 d",
}  # fmt: skip


@contextmanager
def styled() -> Iterator[None]:
    """Pictures that are drawn inside look alike, wherever and whenever."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise WeftError("a picture needs matplotlib\n  install it: pip install matplotlib") from None
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # names may be in any script
        yield


def figure(width: float, height: float) -> Figure:
    """In inches. Without pyplot: there is no window to forget."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height))
    FigureCanvasAgg(made)
    return made


def as_svg(drawn: Figure) -> str:
    """The same picture is the same text."""
    file = BytesIO()
    drawn.savefig(file, format="svg", metadata={"Date": None, "Creator": "weft"})
    return file.getvalue().decode("utf-8")


def as_png(drawn: Figure, dpi: int = 144) -> bytes:
    file = BytesIO()
    drawn.savefig(file, format="png", dpi=dpi, metadata={"Software": "weft"})
    return file.getvalue()


def label(policy: str) -> str:
    """One line, not too long, and nothing that a picture cannot show."""
    text = "".join(letter if letter.isprintable() else " " for letter in policy)
    return text if len(text) <= LABEL else f"{text[: LABEL - 1]}…"


def colour(at: int) -> str:
    return COLOURS[at % len(COLOURS)]


def dashes(at: int) -> Any:
    """Another kind of line for each, and others again when the colours come round."""
    return DASHES[(at + at // len(COLOURS)) % len(DASHES)]


def hatch(at: int) -> str:
    return HATCHES[(at + at // len(COLOURS)) % len(HATCHES)]


def time_unit(span_s: float) -> tuple[float, str]:
    """In what to give times up to this: seconds per unit, and its name."""
    return next((unit for unit in _UNITS if span_s >= 3 * unit[0]), _UNITS[-1])


def log_time(axes: Axes, low_s: float, high_s: float) -> tuple[float, float]:
    """A logarithmic x axis with ticks at times that people know, two at least; returns where it begins and ends."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    if sum(low_s <= tick <= high_s for tick in _TICKS) < 2:
        low_s = max((tick for tick in _TICKS if tick <= low_s), default=low_s)
        high_s = min((tick for tick in _TICKS if tick >= high_s), default=high_s)
    axes.set_xscale("log")
    axes.set_xlim(low_s, high_s)
    shown = [tick for tick in _TICKS if low_s <= tick <= high_s]
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _TICKS.get(round(value), f"{value:g} s")))
    return low_s, high_s


def log_from_one(axes: Axes) -> None:
    """A y axis that is linear from 0 to 1 and logarithmic from there."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_yscale("symlog", linthresh=1.0, linscale=0.35)
    top = max(axes.dataLim.y1 * 1.4, 1.5)
    axes.set_ylim(0, top)
    axes.yaxis.set_major_locator(FixedLocator([0, *(10.0**power for power in range(12) if 10.0**power <= top)]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def ratios(axes: Axes, low: float, high: float) -> bool:
    """A y axis for ratios around 1: logarithmic where they are far apart; whether it is."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    if high / max(low, 1e-9) <= FAR_APART:
        axes.set_ylim(0, high * 1.22)
        return False
    axes.set_yscale("log")
    axes.set_ylim(low / 2, high * 2.2)
    steps = [step * 10.0**power for power in range(-3, 7) for step in (1, 2, 5)]
    axes.yaxis.set_major_locator(FixedLocator([step for step in steps if low / 2 <= step <= high * 2.2]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    return True
