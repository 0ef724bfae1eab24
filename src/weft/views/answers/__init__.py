"""Typed answers of the scheduler: one class for each JSON object of docs/reference/json.md (schema 1).

The server builds them, `base.encode` writes them, the client decodes them with `base.decode`, and the CLI reads their
attributes. One module for each group of answers, so that a command loads only the group it needs.
"""
