"""Private id alignment: K parties find the ids that all of them have, and show no others."""

from colonnade.crypto.alignment.in_process import align_in_process
from colonnade.crypto.alignment.party import AlignmentParty
from colonnade.crypto.alignment.server import AlignmentServer

__all__ = ["AlignmentParty", "AlignmentServer", "align_in_process"]
