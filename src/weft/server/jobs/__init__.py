"""Jobs on their way in: from a request to events, with admission, quotas, progress and checkpoints."""
