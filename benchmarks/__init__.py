"""Performance claims, measured: `python -m benchmarks`. Ratios of medians of interleaved repeats, in one process."""
