"""The methods that clients call: requests, queries, logs and blobs; and one module for each transport."""
