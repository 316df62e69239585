"""What estimators share: parameters, rows, streams, results, weights, threads, progress."""
