"""What operators do to a scheduler: drain, policy changes, the state dump, doctor."""
