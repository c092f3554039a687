"""The command line: parse, call, print. One module for each group of commands; heavy imports stay inside commands."""

try:
    from colonnade.cli.entry import app, main
except KeyboardInterrupt:
    # A person who stops a command while it loads needs no traceback.
    raise SystemExit(130) from None

__all__ = ["app", "main"]
