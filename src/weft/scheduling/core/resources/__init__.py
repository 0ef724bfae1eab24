"""GPUs, CPUs and memory: of the cluster and of each node, what is free, and the shapes that runs need of them."""
