"""1,000 simulated clusters with faults of every kind: no job is lost, none has processes of two runs at once, every
exit code is right, and a restart of the scheduler changes nothing.

Each seed is a different cluster (`tests/clusters`): the real scheduler, registry and agents over a network that loses,
doubles, delays and reorders messages and is cut, also one way; a scheduler that dies, also while it writes to its disk;
agents and machines that die and come back, and agents that leave in order; shims that are killed; jobs of all sizes
that fail, are preempted and cancelled. After 200 s all is mended, and everything must come to its end.

A world that fails prints its number. This command plays it again, step by step:

    PYTHONPATH=src:tests python -m clusters NUMBER

Mutation tests show that such a world notices: rules are broken one at a time (`clusters.mutants`). This many of the
first 300 worlds noticed:

| broken rule               | worlds | broken rule           | worlds |
|---------------------------|--------|-----------------------|--------|
| no_margin                 |     18 | no_claim              |    110 |
| no_lease                  |     96 | no_home               |     13 |
| lease_from_answer         |      6 | nothing_again         |    251 |
| lease_from_before_restart |    103 | parts_confirmed_alone |     10 |
| lease_without_end         |     41 | first_end_counts      |    124 |
| answer_before_commit      |     33 | gang_not_torn         |     84 |
| order_before_commit       |     16 | last_code_counts      |     79 |
| no_epoch                  |      9 | lost_runs_cost        |    196 |
| no_fence                  |     21 | leaving_costs         |     88 |
| first_goodbye_is_the_last |     25 | leaving_forgotten     |     21 |
| no_cordon_for_goodbye     |     91 | goodbye_believed      |      0 |
| starts_while_leaving      |     36 |                       |        |

World 414 is the first that notices `goodbye_believed`.

In woven worlds jobs share GPUs and change their partners while they run, and some hold their turns too long. There a
run takes its turns in the weave that was decided, or does so soon. Rules of weaves are broken, too (`WEAVE_MUTANTS`):
of the first 60 such worlds 8 noticed `weave_sent_once`, 23 `unwoven_in_the_journal_only`; world 116 is the first
that notices `weave_reported_as_ordered`.

In worlds with two servers one leads; leaders die, stand still for longer than their lease and continue, and give up the
lead. Of the first 40 such worlds 35 noticed `deposed_answers`, 36 `unfenced_append` and 17 `state_of_the_last_lead`.
"""

from __future__ import annotations

import pytest

from clusters.mutants import MUTANTS, PAIR_MUTANTS, WEAVE_MUTANTS, Break, catching
from clusters.world import play
from weft.model import Move

WORLDS = 400
SOAK_WORLDS = 20000
SHARD = 50
WOVEN_WORLDS = 40
SOAK_WOVEN_WORLDS = 2000
WOVEN_SHARD = 10
SERVED_WORLDS = 40
PAIR_WORLDS = 20
SOAK_PAIR_WORLDS = 1000
ENOUGH = 800
"""By then a world must have noticed that a rule is broken; one in fifty notices the hardest."""
FIRST = {"goodbye_believed": 401, "weave_reported_as_ordered": 111}
"""Where to begin for a rule that one world in 400 notices."""


@pytest.mark.parametrize("first", range(1, WORLDS + 1, SHARD))
def test_nothing_is_lost_and_nothing_runs_twice(first: int) -> None:
    for seed in range(first, first + SHARD):
        try:
            play(seed)
        except Exception as error:
            error.add_note(f"world {seed}; see it happen: PYTHONPATH=src:tests python -m clusters {seed}")
            raise


@pytest.mark.parametrize("first", range(1, WOVEN_WORLDS + 1, WOVEN_SHARD))
def test_a_run_takes_its_turns_in_the_weave_that_was_decided(first: int) -> None:
    for seed in range(first, first + WOVEN_SHARD):
        try:
            play(seed, weaves=True)
        except Exception as error:
            error.add_note(f"world {seed}; see it happen: PYTHONPATH=src:tests python -m clusters {seed} weaves")
            raise


@pytest.mark.parametrize("first", range(1, SERVED_WORLDS + 1, WOVEN_SHARD))
def test_services_lose_no_replica_that_serves(first: int) -> None:
    """Services next to training, with moves of replicas: a replica is drained only while enough others serve."""
    moves = 0
    for seed in range(first, first + WOVEN_SHARD):
        try:
            moves += sum(isinstance(fact, Move) for fact in play(seed, services=True).head.disk)
        except Exception as error:
            error.add_note(f"world {seed}; see it happen: PYTHONPATH=src:tests python -m clusters {seed} services")
            raise
    assert moves >= 5


@pytest.mark.parametrize("first", range(1, PAIR_WORLDS + 1, WOVEN_SHARD))
def test_nothing_is_lost_when_another_server_leads(first: int) -> None:
    """Two servers on one database, which are killed, stopped and shut down: about twelve leaders in each world."""
    leaders = 0
    for seed in range(first, first + WOVEN_SHARD):
        try:
            leaders += play(seed, pair=True).pair[0].database.record.epoch
        except Exception as error:
            error.add_note(f"world {seed}; see it happen: PYTHONPATH=src:tests python -m clusters {seed} pair")
            raise
    assert leaders >= 4 * WOVEN_SHARD


@pytest.mark.soak
@pytest.mark.parametrize("first", range(PAIR_WORLDS + 1, SOAK_PAIR_WORLDS + 1, WOVEN_SHARD))
def test_nothing_is_lost_with_two_servers_in_more_worlds(first: int) -> None:
    test_nothing_is_lost_when_another_server_leads(first)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(WOVEN_WORLDS + 1, SOAK_WOVEN_WORLDS + 1, WOVEN_SHARD))
def test_a_run_takes_its_turns_in_more_worlds(first: int) -> None:
    test_a_run_takes_its_turns_in_the_weave_that_was_decided(first)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(WORLDS + 1, SOAK_WORLDS + 1, SHARD))
def test_nothing_is_lost_in_more_worlds(first: int) -> None:
    test_nothing_is_lost_and_nothing_runs_twice(first)


@pytest.mark.parametrize("mutant", [*MUTANTS, *WEAVE_MUTANTS, *PAIR_MUTANTS], ids=lambda mutant: mutant.__name__)
def test_a_rule_that_is_broken_is_noticed(mutant: Break) -> None:
    assert next(catching(mutant, range(FIRST.get(mutant.__name__, 1), ENOUGH)), None) is not None, (
        f"no world notices: {mutant.__doc__}"
    )
