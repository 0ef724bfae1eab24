"""Runs many simulations: one workload under several policies and seeds, each trial in its own process.

    workload = Workload("trace.csv", "8x8", seed=1)
    comparison = compare_policies(workload, ["fifo", "srsf"], seeds=5)
    comparison.outcomes[0].figures["avg_jct_s"].mean

Nothing here prints or reads flags: warnings and progress go to what the caller passes in."""
