"""Programs that tests run as jobs and replicas."""
