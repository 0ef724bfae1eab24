"""Facts and what they add up to: the journal, and figures of the past."""
