"""A machine that runs jobs: the agent, the process engine, care of the machine, and starting clusters."""
