"""Hostile inputs for every reader: whatever arrives, only the package's own tree of errors may come out."""
