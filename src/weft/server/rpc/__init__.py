"""How calls are served: gRPC handlers, the decoding of requests, errors as statuses, protocol versions."""
