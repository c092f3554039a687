"""The audit of this repository: every view of many plans, planted bugs, and attacks on the paper's own protocol."""
