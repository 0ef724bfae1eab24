"""The data plane of services: accepts HTTP requests, queues them and passes them to replicas.

`rules/` decides (pure), `proxy/` moves bytes. A `TableSource` says which services and replicas there are; without a
new table the router serves the last one.
"""
