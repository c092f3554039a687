"""The command line: parse, call, print. One module for each group of commands; heavy imports stay inside commands."""

from colonnade.cli.entry import app, main

__all__ = ["app", "main"]
