"""The tables of a comparison: figures as they are, and relative to a baseline and to what is possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from weft.report.page import Field, Table
from weft.report.stats import FIGURES, RELATIVE, Estimate, Outcome, best, ratio
from weft.ui import figures, render
from weft.ui.contest import Contest, Entry

COLUMNS: Final = {
    "avg_jct_s": "avg JCT",
    "p50_jct_s": "p50",
    "p99_jct_s": "p99",
    "makespan_s": "makespan",
    "avg_queue_s": "queue",
    "gpu_utilisation": "util",
    "preemptions": "preempted",
    "fairness_max_rho": "max rho",
    "cpu_s": "CPU s",
}
SECONDS: Final = {"avg_jct_s", "p50_jct_s", "p99_jct_s", "makespan_s", "avg_queue_s"}
BOUNDED: Final = ("avg_jct_s", "makespan_s")
BOUND: Final = "lower-bound"
Row = list[render.Cell]


def print_tables(contest: Contest, base: Outcome | None, color: str) -> None:
    """For people two small tables; for programs one wide one."""
    if render.is_rich(color):
        columns, rows = absolute(contest)
        render.print_table(title(contest), columns, rows, color)
        if base is not None:
            columns, rows = relative(contest, base)
            print()
            render.print_table(f"relative to {base.policy}; smaller is better", columns, rows, color)
        return
    columns, rows = _wide(contest, base)
    render.print_table("", columns, rows, color)


def html_tables(contest: Contest, base: Outcome | None) -> list[Table]:
    tables = [_as_html("Figures", *absolute(contest), note=_note(contest))]
    if base is not None:
        tables.append(_as_html(f"Relative to {base.policy}, smaller is better", *relative(contest, base)))
    return tables


def title(contest: Contest) -> str:
    work, seeds = contest.work, len(contest.seeds)
    over = f", mean of {seeds} seeds ± 95 % confidence" if seeds > 1 else ""
    some = f", {contest.measured:,} of them measured" if contest.measured < len(work.jobs) else ""
    return f"{work.trace}: {len(work.jobs):,} jobs{some} on {work.cluster} ({work.gpus:,} GPUs){over}, * best"


def as_json(contest: Contest, entry: Entry, base: Outcome | None) -> dict[str, Any]:
    """The fields of a JSON object about a policy: of one seed as they are, of several their means."""
    mine = entry.outcome
    if entry.failed:
        return {"policy": entry.policy, "error": entry.failed, **dict.fromkeys(FIGURES)}
    more = {"normalised": {key: ratio(mine, base, key) for key in RELATIVE}}
    if len(contest.seeds) == 1:
        return {**entry.runs[0], **more}
    means = {key: found.mean if found else None for key, found in mine.figures.items()}
    spread = {key: found.ci95 if found else None for key, found in mine.figures.items()}
    return {"policy": entry.policy, "placement": entry.runs[0]["placement"], **means, "ci95": spread, **more,
            "runs": [{"seed": seed, **run} for seed, run in zip(contest.seeds, entry.runs, strict=True)]}  # fmt: skip


# ---- rows


def absolute(contest: Contest) -> tuple[list[tuple[str, str]], list[Row]]:
    outcomes = contest.outcomes
    winners = {key: best(outcomes, key) for key in FIGURES}
    rows = [
        [_name(entry), *(_figure(key, entry, entry.policy in winners.get(key, ())) for key in COLUMNS)]
        for entry in contest.entries
    ]
    if contest.bounds:
        bounds = contest.bounds
        cells = [figures.cell(key, bounds[key] if key in BOUNDED else None) for key in COLUMNS]
        rows.append([render.Cell(BOUND, "lower bound"), *(_short(key, cell) for key, cell in _zip(cells))])
    return [("policy", "policy"), *COLUMNS.items()], rows


def relative(contest: Contest, base: Outcome) -> tuple[list[tuple[str, str]], list[Row]]:
    columns = [("policy", "policy"), *((f"{_stem(key)}_x", COLUMNS[key]) for key in RELATIVE)]
    if contest.bounds:
        columns += [(f"{_stem(key)}_over_bound", f"{COLUMNS[key]} / bound") for key in BOUNDED]
    rows: list[Row] = []
    for entry in contest.entries:
        mine = entry.outcome
        cells = [_times(ratio(mine, base, key)) for key in RELATIVE]
        if contest.bounds:
            cells += [_times(_over(entry, mine, contest.bounds, key)) for key in BOUNDED]
        rows.append([_name(entry), *cells])
    return columns, rows


def _wide(contest: Contest, base: Outcome | None) -> tuple[list[tuple[str, str]], list[Row]]:
    columns, rows = absolute(contest)
    if len(contest.seeds) > 1:
        columns += [(f"{_stem(key)}_ci95", "") for key in RELATIVE]
        for at, row in enumerate(rows):
            spread = contest.entries[at].outcome.figures if at < len(contest.entries) else {}
            row += [_plain(found.ci95 if (found := spread.get(key)) else None, 1) for key in RELATIVE]
    if base is not None:
        more, others = relative(contest, base)
        columns += more[1:]
        for at, row in enumerate(rows):
            row += others[at][1:] if at < len(others) else [render.Cell(None, "-")] * (len(more) - 1)
    return columns, rows


def _name(entry: Entry) -> render.Cell:
    return render.Cell(entry.policy, f"{entry.policy} (failed)" if entry.failed else entry.policy)


def _figure(key: str, entry: Entry, is_best: bool) -> render.Cell:
    if entry.failed:
        return render.Cell(None, "-")
    if key not in FIGURES or len(entry.runs) == 1:
        values = [run[key] for run in entry.runs]
        cell = figures.cell(key, values[0] if len(values) == 1 else sum(values) / len(values), best=is_best)
        return _short(key, cell)
    found: Estimate | None = entry.outcome.figures[key]
    cell = figures.cell(key, found.mean if found else None, best=is_best)
    if found and found.ci95 is not None:
        cell = cell._replace(shown=f"{cell.shown} ±{figures.cell(key, found.ci95).shown}")
    return _short(key, cell)


def _over(entry: Entry, mine: Outcome, bounds: Mapping[str, float], key: str) -> float | None:
    """Those who share GPUs without weaving are held to the bound that allows it."""
    found, bound = mine.figures.get(key), bounds[f"alone_{key}" if shares(entry.policy) else key]
    return found.mean / bound if found and bound else None


def shares(policy: str) -> bool:
    from weft import registry

    return registry.policy(policy).oversubscription > 1


def _times(value: float | None) -> render.Cell:
    return _plain(value, 3)._replace(shown="-" if value is None else f"x{value:.2f}")


def _plain(value: float | None, digits: int) -> render.Cell:
    return render.Cell(value if value is None else f"{value:.{digits}f}", "-")


def _short(key: str, cell: render.Cell) -> render.Cell:
    """Enough to compare by; --json has all digits."""
    if isinstance(cell.raw, float):
        return cell._replace(raw=f"{cell.raw:.{1 if key in SECONDS else 3}f}")
    return cell


def _zip(cells: Sequence[render.Cell]) -> list[tuple[str, render.Cell]]:
    return list(zip(COLUMNS, cells, strict=True))


def _stem(key: str) -> str:
    return key.removesuffix("_s")


def _as_html(caption: str, columns: Sequence[tuple[str, str]], rows: Sequence[Row], note: str = "") -> Table:
    fields = [[Field(cell.shown, cell.best) for cell in row] for row in rows]
    return Table(caption, [label for _, label in columns], fields, note)


def _note(contest: Contest) -> str:
    notes = ["JCT: end less submission. * best of its column."]
    if contest.bounds:
        notes.append("Lower bound: no policy can do better on these jobs and GPUs, interleaving allowed.")
        if any(shares(entry.policy) for entry in contest.entries):
            notes.append(
                "For policies that let jobs share GPUs without weaving them, the bound is that of each job alone."
            )
    else:
        notes.append("No lower bound: it is for traces of which every job gets done, and here some did not.")
    return " ".join(notes)
