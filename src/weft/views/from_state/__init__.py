"""The state of a scheduler as typed answers."""
