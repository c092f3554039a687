"""`python -m colonnade.cli` is the command `colonnade`."""

from colonnade.cli.entry import main

main()
