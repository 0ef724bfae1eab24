"""The program that `weft server` becomes."""

from __future__ import annotations

from pathlib import Path

from support.running.live_cluster import cluster
from weft.access.endpoints.addresses import Address
from weft.access.server.plan import PageAt, Plan
from weft.access.server.settings import Settings


def test_modules_in_the_folder_of_the_caller_are_not_taken_for_its_own() -> None:
    with cluster() as here:
        here.end("server")
        (here.root / "sqlite3.py").write_text("raise SystemExit('shadowed')")
        here.serve()


def test_a_plan_is_the_same_after_its_way_to_the_program() -> None:
    plan = Plan(
        Path("/x"), "0.0.0.0", 7, Settings(policy="srsf", lease_s=9.5), "postgresql://a@b/c", 0, "::1", "json", True,
        Address("::1", 0), {"policy": "srsf"}, (Address("a", 1), Address("b", 2)), 3.5, "/blobs",
        PageAt("h", 8, read_only=True, names=("n", "m")), restore=True,
    )  # fmt: skip
    again = Plan.from_json(plan.to_json())
    assert again.to_json() == plan.to_json()
    assert (again.router, again.page, again.peers) == (plan.router, plan.page, plan.peers)
    assert (again.folder, again.settings, again.restore) == (plan.folder, plan.settings, True)
