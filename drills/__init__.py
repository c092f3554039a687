"""Long trials of a deployment that nobody runs on each change: kills, restarts, load, and what signing costs."""

MANY_SESSIONS = {
    "epsilon": "100000.0",
    "largest_alignments": "100000",
    "largest_attempts": "100000",
    "largest_bits_told": "1000000000",
}
"""What a policy must allow for a drill: as deployed it is for one session."""
