"""The command line: parse, call, print. One module for each group of commands; heavy imports stay inside commands."""

import sys

try:
    from colonnade.cli.entry import app, main
except KeyboardInterrupt:
    # While modules load no session has begun.
    sys.stderr.write("Stopped; nothing was spent.\n")
    raise SystemExit(1) from None

__all__ = ["app", "main"]
