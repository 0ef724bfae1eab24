"""Messages to people about jobs: targets, texts, an outbox on disk, and a process that delivers them."""
