"""The style of pictures: colours and lines that stay distinct for the colour-blind and in greyscale, and axes.

matplotlib is imported inside functions, here and in the modules that draw, because it is slow to import.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK: Final = "#1a1a1a"
PAPER: Final = "#ffffff"
FAINT: Final = "#b8b8b8"
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK, "#8c6d1f")
"""Okabe and Ito's colours, the darker first. Brown replaces their yellow, which is too pale for a line on white."""
DASHES: Final = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (9, 2)),
                 (0, (3, 1, 1, 1, 1, 1)), (0, (2, 2.5)), (0, (8, 1, 3, 1)))  # fmt: skip
HATCHES: Final = ("", "//", "..", "xx", "\\\\", "++", "oo", "--")
MAX_LINEAR_RATIO: Final = 6.0
"""Larger ratios of the largest to the smallest value get a logarithmic axis."""
MAX_LABEL_CHARS: Final = 34

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
def drawing_style() -> Iterator[None]:
    """Apply Weft's style to pictures that are drawn inside, whatever the user's matplotlib settings."""
    import matplotlib as mpl

    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # names may be in any script
        yield


def figure(width: float, height: float) -> Figure:
    """Return a figure of this size in inches. It does not use pyplot, which would keep the figure alive."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height))
    FigureCanvasAgg(made)
    return made


def to_svg(drawn: Figure) -> str:
    """Return the picture as SVG. Equal pictures give equal text."""
    file = BytesIO()
    drawn.savefig(file, format="svg", metadata={"Date": None, "Creator": "weft"})
    return file.getvalue().decode("utf-8")


def to_png(drawn: Figure, dpi: int = 144) -> bytes:
    file = BytesIO()
    drawn.savefig(file, format="png", dpi=dpi, metadata={"Software": "weft"})
    return file.getvalue()


def shorten_label(policy: str) -> str:
    """Return the name as one short printable line."""
    text = "".join(letter if letter.isprintable() else " " for letter in policy)
    return text if len(text) <= MAX_LABEL_CHARS else f"{text[: MAX_LABEL_CHARS - 1]}…"


def colour(at: int) -> str:
    return COLOURS[at % len(COLOURS)]


def dashes(at: int) -> Any:
    """Return a line style; the combination with the colour is distinct when the colours repeat."""
    return DASHES[(at + at // len(COLOURS)) % len(DASHES)]


def hatch(at: int) -> str:
    return HATCHES[(at + at // len(COLOURS)) % len(HATCHES)]


def time_unit(span_s: float) -> tuple[float, str]:
    """Return the unit for times up to this span: its seconds and its name."""
    return next((unit for unit in _UNITS if span_s >= 3 * unit[0]), _UNITS[-1])


def set_log_time_axis(axes: Axes, low_s: float, high_s: float) -> tuple[float, float]:
    """Set a logarithmic x axis with at least two ticks at familiar times. Return its limits."""
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


def set_symlog_axis(axes: Axes) -> None:
    """Set a y axis that is linear from 0 to 1 and logarithmic above."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_yscale("symlog", linthresh=1.0, linscale=0.35)
    top = max(axes.dataLim.y1 * 1.4, 1.5)
    axes.set_ylim(0, top)
    axes.yaxis.set_major_locator(FixedLocator([0, *(10.0**power for power in range(12) if 10.0**power <= top)]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def set_log_seconds_axis(axes: Axes, low_s: float, high_s: float) -> None:
    """Set a logarithmic y axis for seconds, with plain numbers as ticks."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_ylim(low_s, high_s)
    axes.set_yscale("log", nonpositive="mask")
    axes.yaxis.set_major_locator(
        FixedLocator([10.0**power for power in range(-6, 7) if low_s <= 10.0**power <= high_s])
    )
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def set_ratio_axis(axes: Axes, low: float, high: float) -> bool:
    """Set a y axis for ratios around 1, and return whether it is logarithmic."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    if high / max(low, 1e-9) <= MAX_LINEAR_RATIO:
        axes.set_ylim(0, high * 1.22)
        return False
    axes.set_yscale("log")
    axes.set_ylim(low / 2, high * 2.2)
    steps = [step * 10.0**power for power in range(-3, 7) for step in (1, 2, 5)]
    axes.yaxis.set_major_locator(FixedLocator([step for step in steps if low / 2 <= step <= high * 2.2]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    return True
