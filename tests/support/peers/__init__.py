"""The other side: databases, schedulers, runtimes and receivers of other people, real or played."""
