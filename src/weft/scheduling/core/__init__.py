"""The pure scheduling core: facts in, decisions out. No clock, no I/O, no randomness, no logging."""
