"""Traces: reading, generating, describing and writing them."""
