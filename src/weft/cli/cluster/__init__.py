"""Clusters that one command brings up and another ends: on loopback, or of machines reached over ssh."""
