"""Policies, which order the jobs: one file each, of about a page."""
