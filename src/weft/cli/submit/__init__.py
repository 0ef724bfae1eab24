"""From flags and files to a submit request."""
