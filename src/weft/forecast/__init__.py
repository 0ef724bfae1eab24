"""Forecasts: the real scheduler, run forward from a present state over sampled remaining times.

`remaining` draws how long jobs still take, `forward` lets the scheduler decide what follows, `branches` does that in
copies of the process, `quantiles` collects the results per job, `calibration` corrects them by the
outcomes of earlier forecasts, and `whatif` compares them with those of a change.
"""
