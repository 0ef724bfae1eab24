"""Care of one machine as a node: preparation, checks, clean-up and reset of its GPUs, and the network between nodes.

Everything here can run without a scheduler, and twice: what is done already is left alone."""
