"""Two servers on one database: one leads and serves, the others follow it and refuse calls with its address."""
