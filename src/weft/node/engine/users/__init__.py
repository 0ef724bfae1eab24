"""Runs of several users on one node: accounts, their rights on files, and the launcher that drops to an account."""
