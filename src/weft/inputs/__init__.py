"""Readers and writers of files that people write: text, CSV, JSON lines and YAML whose errors name file and line."""
