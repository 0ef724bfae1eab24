"""Inference servers: the models of `weft_workloads` behind HTTP, with batches that form while requests wait."""
