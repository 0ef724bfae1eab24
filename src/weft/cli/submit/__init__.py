"""Submit requests, built from flags and files."""
