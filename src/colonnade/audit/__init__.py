"""Attacks on our own promises: lower bounds on epsilon from the transcripts of real sessions."""
