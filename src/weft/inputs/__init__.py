"""Readers of user-written files (text, CSV, JSON lines, YAML) and values. Their errors name the file and line."""
