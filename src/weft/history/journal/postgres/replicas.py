"""Warnings about replicas that a commit does not wait for: a failover of the database itself can lose facts then."""

from __future__ import annotations

from weft.errors import JournalError
from weft.history.journal.postgres.session import Session

_SETTINGS = "SELECT current_setting('synchronous_standby_names'), current_setting('synchronous_commit')"
_REPLICAS = "SELECT count(*) FROM pg_stat_replication"


def replica_problems(url: str) -> list[str]:
    """Return warnings about the replicas of the database."""
    session = Session(url)
    try:
        ((names, commit),) = session.rows("read", _SETTINGS)
        ((replicas,),) = session.rows("read", _REPLICAS)
    except JournalError as error:
        return [str(error).splitlines()[0]]
    finally:
        session.close()
    found = []
    if commit == "local" and replicas:
        found.append(
            "the database has synchronous_commit = local: its failover can lose acknowledged jobs; set it to on"
        )
    elif replicas and not names:  # with names, a commit waits for one of them, also if none is connected
        count = f"{replicas} replica{'' if replicas == 1 else 's'}"
        found.append(
            f"the database has {count}, and none is synchronous: its failover can lose acknowledged jobs; "
            "set synchronous_standby_names"
        )
    return found
