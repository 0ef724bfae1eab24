"""Forecasts: the real scheduler, run forward from a present state over sampled remaining times.

`history` has the durations of finished jobs, `remaining` draws how long the present ones still take, and `arrivals` the
jobs that users submit later. `forward` lets the scheduler decide what follows, `branches` does that in copies of the
process, and `samples` says which of them have arrivals. `quantiles` collects the results per job, `calibration`
corrects them by the outcomes of earlier forecasts, and `whatif` compares them with those of a change.
"""
