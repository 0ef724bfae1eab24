"""The terminal side of workspaces: the live session, its feed, and how commands reach the scheduler."""
