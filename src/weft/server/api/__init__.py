"""The methods that clients call: jobs, queries, logs and blobs; and the unix socket that serves them."""
