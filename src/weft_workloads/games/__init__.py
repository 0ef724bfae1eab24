"""Games and the algorithms that learn them: environments, A2C and DQN."""
