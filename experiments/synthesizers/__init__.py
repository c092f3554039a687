"""Synthesizers of others (AIM, MST), run in an environment of their own: nothing of the project imports this."""
