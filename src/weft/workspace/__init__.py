"""Workspaces: folders of configs. Each config runs as a job and is shown in a tmux session."""
