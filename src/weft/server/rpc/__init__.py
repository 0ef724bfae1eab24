"""The serving of calls: gRPC handlers, decoding of requests, answers as JSON, errors as statuses, protocol versions."""
