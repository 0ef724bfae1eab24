"""What a job may say of itself: one table of fields; how flags, task files, batch scripts and Python fill it in."""
