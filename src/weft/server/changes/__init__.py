"""Changes of the state for screens: which rows changed (pure), and the rows themselves."""
