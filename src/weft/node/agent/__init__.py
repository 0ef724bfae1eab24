"""The agent: `weft worker`, which connects the process engine of one node to the scheduler."""
