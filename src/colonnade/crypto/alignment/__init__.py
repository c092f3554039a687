"""Private id alignment: K parties find the ids that all of them have, and show no others."""
