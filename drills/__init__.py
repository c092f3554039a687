"""Long trials of a deployment that nobody runs on each change: kills, restarts, load, and what signing costs."""
