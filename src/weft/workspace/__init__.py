"""Workspaces: a folder of configs, each run as a job, each to be watched in a tmux session of its own."""
