"""Teams: guaranteed GPUs, borrowed GPUs and limits, as a layer between the order of any policy and the placement."""
