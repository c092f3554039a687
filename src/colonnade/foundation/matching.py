"""How ids are matched, by name."""

PSI = "psi"
HYBRID = "psi+ml-kem"
"""The same, and what was recorded stays closed to a quantum computer: post_quantum = true in a study."""
NONE = "none"
"""Equal row order is trusted."""
