"""Where nodes come from: the rules by which a pool grows and shrinks (pure), and one file per provider."""
