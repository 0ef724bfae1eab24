"""Allowances: how many GPUs each team may borrow while several teams want to. Weighted max-min fairness: GPUs that one
team does not need go to the others, by their weights."""

from __future__ import annotations

from collections.abc import Mapping

from weft.scheduling.core.teams.standing import ROUNDING


def share_out(supply: float, demands: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    """Return each team's part of the supply: no more than its demand, and as its weight says."""
    parts = dict.fromkeys(demands, 0.0)
    open_teams = [name for name, demand in demands.items() if demand > 0]
    left = supply
    while open_teams and left > ROUNDING:
        per_weight = left / sum(weights[name] for name in open_teams)
        filled = [name for name in open_teams if demands[name] <= per_weight * weights[name] + ROUNDING]
        if not filled:
            for name in open_teams:
                parts[name] = per_weight * weights[name]
            return parts
        for name in filled:
            parts[name] = demands[name]
            left -= demands[name]
        open_teams = [name for name in open_teams if name not in filled]
    return parts
