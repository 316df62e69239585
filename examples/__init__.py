"""Examples and benchmarks of skpmd."""
