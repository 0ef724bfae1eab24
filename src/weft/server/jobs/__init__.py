"""Requests on jobs become events here: building, admission, quotas, edits, progress and checkpoints."""
