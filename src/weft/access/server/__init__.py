"""The settings and the plan of a scheduler, for the commands that start one."""
