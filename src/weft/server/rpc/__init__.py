"""The serving of calls: gRPC handlers, the decoding of requests, errors as statuses, protocol versions."""
