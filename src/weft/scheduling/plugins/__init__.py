"""The registry of policies, placements and other plugins, and errors that name a plugin's file and line."""
