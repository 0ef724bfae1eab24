"""The device page: what the runs on one GPU tell each other, so that training gives way to inference.

`layout` and `rules` are pure. `page` opens the file, `gate` paces training, `batches` marks inference. The room imports
nothing of the rest of Weft: it works inside jobs.
"""
