"""The methods that clients call: requests, queries, logs and blobs, over gRPC."""
