"""The state that facts add up to: jobs and their status, what keeps jobs from waiting, and what each fact changes."""
