"""Policies, placements and other plugins by name, and errors that name the plugin's file and line."""
