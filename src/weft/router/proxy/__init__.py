"""Connections of clients and replicas, and the requests that pass between them: asyncio protocols on httptools."""
