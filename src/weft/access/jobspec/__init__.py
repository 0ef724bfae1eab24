"""Job descriptions: the table of job fields, and how flags, task files, batch scripts and Python fill it in."""
