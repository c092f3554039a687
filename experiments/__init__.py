"""The evidence: data, baselines and the runs behind docs/results; not part of the wheel."""
