"""The tables of a comparison: figures, confidence intervals, and ratios to a baseline and to the lower bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weft.cli import render
from weft.cli.tables import Cell, Column, print_table
from weft.cli.views.lab import figures, services, team_figures
from weft.lab.compare.comparison import Comparison, PolicyResult
from weft.lab.report.page import Cell as PageCell
from weft.lab.report.page import Table
from weft.lab.report.stats import FIGURES, RELATIVE, Outcome, best_policies, ratio

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
SECONDS: Final = frozenset(key for key in COLUMNS if key.endswith("_s")) - {"cpu_s"}
BOUNDED: Final = ("avg_jct_s", "makespan_s")
BOUND, SHARING_BOUND = "lower-bound", "lower-bound-sharing"
POLICY: Final = Column("policy", key="policy")
NOTHING: Final = Cell("-", raw=None)

Columns = list[Column]
Rows = list[list[Cell]]


def print_tables(comparison: Comparison, base: Outcome | None, color: str) -> None:
    """Print several small tables for a person, or one wide table for a program."""
    found = [("", *_wide(comparison, base))] if not render.is_for_person(color) else _tables(comparison, base)
    for at, (caption, columns, rows) in enumerate([*found, *_services(comparison)]):
        if at:
            print()
        print_table(columns, rows, color, title=caption)


def html_tables(comparison: Comparison, base: Outcome | None) -> list[Table]:
    found = []
    for at, (caption, columns, rows) in enumerate(_tables(comparison, base)):
        fields = [[PageCell(cell.text, cell.best) for cell in row] for row in rows]
        labels = [column.label for column in columns]
        found.append(Table("Figures", labels, fields, _note(comparison)) if at == 0 else Table(caption, labels, fields))
    return found + services.html_tables_of(_services(comparison))


def as_json(comparison: Comparison, result: PolicyResult, base: Outcome | None) -> dict[str, object]:
    """Return the JSON object of a policy: its figures with one seed, or their means over several."""
    mine = result.outcome
    if result.error:
        return {"policy": result.policy, "error": result.error, **dict.fromkeys(FIGURES)}
    more = {"normalised": {key: ratio(mine, base, key) for key in RELATIVE}}
    if len(comparison.seeds) == 1:
        return {**result.trials[0], **more}
    means = {key: found.mean if found else None for key, found in mine.figures.items()}
    spread = {key: found.ci95 if found else None for key, found in mine.figures.items()}
    runs = [{"seed": seed, **run} for seed, run in zip(comparison.seeds, result.trials, strict=True)]
    return {"policy": result.policy, "placement": result.trials[0]["placement"], **means, "ci95": spread, **more,
            "runs": runs}  # fmt: skip


def _tables(comparison: Comparison, base: Outcome | None) -> list[tuple[str, Columns, Rows]]:
    found = [(_title(comparison), *_absolute(comparison))]
    if len(comparison.seeds) > 1:
        found.append(("± 95 % confidence of these means", *_spread(comparison)))
    if base is not None:
        found.append((f"relative to {base.policy}; smaller is better", *_relative(comparison, base)))
    return found


def _services(comparison: Comparison) -> list[services.Tabled]:
    """Return the tables of services and of teams with the first seed."""
    trials = [(result.policy, result.trials[0]) for result in comparison.results if not result.error]
    return services.tables_of(trials, with_policy=True) + team_figures.tables_of(trials, with_policy=True)


def _title(comparison: Comparison) -> str:
    work, seeds = comparison.workload, len(comparison.seeds)
    over = f", means of {seeds} seeds" if seeds > 1 else ""
    some = f", {comparison.measured:,} of them measured" if comparison.measured < len(work.jobs) else ""
    return f"{work.trace}: {len(work.jobs):,} jobs{some} on {work.cluster} ({work.gpus:,} GPUs){over}; * best"


def _note(comparison: Comparison) -> str:
    notes = ["JCT: time from submission to end. * best of its column."]
    if comparison.bounds is None:
        notes.append("No lower bound: some jobs did not finish, and the bound needs all of them.")
    else:
        notes.append("Bound: no policy can do better on these jobs and GPUs, even with interleaving.")
        if any(shares(result.policy) for result in comparison.results):
            notes.append("Sharing: the same bound for policies that share GPUs without interleaving.")
    return " ".join(notes)


# ---- rows


def _absolute(comparison: Comparison) -> tuple[Columns, Rows]:
    outcomes = comparison.outcomes
    winners = {key: best_policies(outcomes, key) for key in FIGURES}
    rows = [
        [_name(result), *(_mean(key, result, result.policy in winners.get(key, ())) for key in COLUMNS)]
        for result in comparison.results
    ]
    if comparison.bounds is not None:
        rows.append([Cell("bound", raw=BOUND), *_bounds(comparison, "")])
        if any(shares(result.policy) for result in comparison.results):
            rows.append([Cell("sharing", raw=SHARING_BOUND), *_bounds(comparison, "alone_")])
    return [POLICY, *(Column(label, key=key) for key, label in COLUMNS.items())], rows


def _spread(comparison: Comparison) -> tuple[Columns, Rows]:
    rows = []
    for result in comparison.results:
        found = [result.outcome.figures.get(key) for key in FIGURES]
        cells = [figures.cell(key, each.ci95 if each else None) for key, each in zip(FIGURES, found, strict=True)]
        rows.append([_name(result), *cells])
    return [POLICY, *(Column(COLUMNS[key], key=f"{_stem(key)}_ci95") for key in FIGURES)], rows


def _relative(comparison: Comparison, base: Outcome) -> tuple[Columns, Rows]:
    columns = [POLICY, *(Column(COLUMNS[key], key=f"{_stem(key)}_x") for key in RELATIVE)]
    columns += [
        Column(f"{COLUMNS[key]} / bound", key=f"{_stem(key)}_over_bound") for key in BOUNDED if comparison.bounds
    ]
    rows: Rows = []
    for result in comparison.results:
        mine = result.outcome
        cells = [_times(ratio(mine, base, key)) for key in RELATIVE]
        cells += [_times(_over_bound(comparison, result, key)) for key in BOUNDED if comparison.bounds]
        rows.append([_name(result), *cells])
    return columns, rows


def _wide(comparison: Comparison, base: Outcome | None) -> tuple[Columns, Rows]:
    """Join the tables into one wide table."""
    (_, columns, rows), *others = _tables(comparison, base)
    for _, more, other_rows in others:
        columns += more[1:]
        for at, row in enumerate(rows):
            row += other_rows[at][1:] if at < len(other_rows) else [NOTHING] * (len(more) - 1)
    return columns, [[_short(column.key, cell) for column, cell in zip(columns, row, strict=True)] for row in rows]


# ---- cells


def _name(result: PolicyResult) -> Cell:
    return Cell(f"{result.policy} (failed)" if result.error else result.policy, raw=result.policy)


def _mean(key: str, result: PolicyResult, is_best: bool) -> Cell:
    if result.error:
        return NOTHING
    values = [run[key] for run in result.trials if run[key] is not None]
    if not values:
        return NOTHING
    return figures.cell(key, values[0] if len(result.trials) == 1 else sum(values) / len(values), best=is_best)


def _bounds(comparison: Comparison, kind: str) -> Sequence[Cell]:
    assert comparison.bounds is not None
    return [figures.cell(key, comparison.bounds[f"{kind}{key}"]) if key in BOUNDED else NOTHING for key in COLUMNS]


def _over_bound(comparison: Comparison, result: PolicyResult, key: str) -> float | None:
    assert comparison.bounds is not None
    found = result.outcome.figures.get(key)
    bound = comparison.bounds[f"alone_{key}" if shares(result.policy) else key]
    return found.mean / bound if found and bound else None


def shares(policy: str) -> bool:
    """Return whether a policy shares GPUs without weaving. The bound with interleaving does not apply to it."""
    from weft.scheduling.plugins import registry

    return registry.load_policy(policy).oversubscription > 1


def _short(column: str, cell: Cell) -> Cell:
    """Round a raw value for comparison; --json has all digits."""
    seconds = {column, f"{column.removesuffix('_ci95')}_s"} & SECONDS
    return cell._replace(raw=f"{cell.raw:.{1 if seconds else 3}f}") if isinstance(cell.raw, float) else cell


def _times(value: float | None) -> Cell:
    return NOTHING if value is None else Cell(f"x{value:.2f}", raw=value)


def _stem(key: str) -> str:
    return key.removesuffix("_s")
