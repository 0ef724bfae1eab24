"""A journal in a PostgreSQL database, and the lease by which one of several servers leads. Only this room uses psycopg.

The package is the extra `weft[postgres]`; nothing is imported before a URL names the store.
"""
