"""What all studies share: how a study is run, clocks, data, verdicts, processes."""
