"""Synthesizers of others (AIM, MST), run in an environment of their own: of the project only a test imports this."""
