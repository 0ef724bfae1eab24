"""The process engine: starts commands, keeps them running across scheduler restarts, and monitors the GPUs.

This module imports nothing: the starter must stay small, because every run begins as a fork of it.
"""
