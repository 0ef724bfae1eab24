"""The server's HTTP side: the ASGI application and the metrics it exposes. Pages for people belong in `web`."""
