"""Benchmarks of skpmd: run one with ``python -m examples.benchmarks NAME``."""
