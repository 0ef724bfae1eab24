"""The size and the check of a PostgreSQL journal: whether every position is there once, and can be read."""

from __future__ import annotations

from weft.errors import JournalError
from weft.history.journal.base import OK, UNFINISHED, Health
from weft.history.journal.postgres.session import Session

_SIZE = (
    "SELECT sum(pg_total_relation_size(name)) FROM (VALUES (to_regclass('weft_facts')), (to_regclass('weft_snapshot')))"
    " AS each(name)"
)
_GAPS = (
    "SELECT count(*) - coalesce(max(position) - (SELECT coalesce(max(value::bigint), 0) FROM weft_meta"
    " WHERE key = 'base'), 0) FROM weft_facts"
)
_UNREADABLE = "SELECT count(*) FROM weft_facts WHERE NOT (body LIKE '{%' AND body LIKE '%}')"


def health(url: str, timeout_s: float) -> Health:
    size = Session(url)
    try:
        ((found,),) = size.rows("check", _SIZE)
    except JournalError as error:
        return Health(0, 0, str(error))
    finally:
        size.close()
    return Health(int(found or 0), 0, _check(url, timeout_s) if timeout_s > 0 else UNFINISHED)


def _check(url: str, timeout_s: float) -> str:
    session = Session(url, timeout_s=timeout_s)
    try:
        ((gaps,),) = session.rows("check", _GAPS)
        ((unreadable,),) = session.rows("check", _UNREADABLE)
    except JournalError as error:
        return UNFINISHED if "statement timeout" in str(error) else str(error)
    finally:
        session.close()
    if gaps:
        return f"{-gaps} facts are missing" if gaps < 0 else f"{gaps} facts are there although a snapshot replaces them"
    return f"{unreadable} facts cannot be read" if unreadable else OK
