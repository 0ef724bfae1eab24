"""Where runs execute: the seam (`base`), this machine (`local`), the agents of a cluster (`agents`).

A new backend is one module here: a class with `open`, `execute` and `close`, the ports that it offers, and a function
that builds them from a `Host`. Register it where a server is composed: `server/__main__` or `server/serving`.
"""
