"""The description of teams: in a file, for simulations and schedulers, and one by one."""
