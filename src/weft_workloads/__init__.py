"""Real training programs: image, text and game models in plain torch, with real loading code, checkpoints and ranks.

`python -m weft_workloads --model NAME` trains one. Jobs without a command get it through the entry points
`weft.workloads`. The dependencies are the extra `weft[workloads]`.
"""
