"""Operations for administrators: drain, policy changes, the state dump, doctor, shutdown."""
