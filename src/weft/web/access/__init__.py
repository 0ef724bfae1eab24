"""Access to the page: one-time links and tokens, sessions, checks of hosts and origins, headers of answers."""
