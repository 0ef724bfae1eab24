"""The state that facts add up to: jobs and their status, eligibility and quotas, and one function per fact."""
