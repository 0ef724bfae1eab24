"""A real cluster in bad weather: real processes that are killed, connections that are cut, held up and delayed."""
