"""Screens on top of the main one: a job, questions, help."""
