"""What the numbers of ids decide: who is the hub, how many bins there are, and how large every message is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property

from colonnade.crypto.alignment.base_ot import CHOICE_BYTES
from colonnade.crypto.alignment.code import LENGTH, PROOF_BYTES
from colonnade.crypto.alignment.kem_ot import KEM_CHOICE_BYTES, KEM_REPLY_BYTES
from colonnade.crypto.alignment.kernels import SUMS
from colonnade.crypto.alignment.oblivious import slots_of
from colonnade.foundation.proven import proven

BIN = 1 << 17
"""Ids of the longest list in a bin, on average."""
LARGEST_COUNT = 1 << 32  # ids of one list: what a greeting states must be possible
LARGEST_ROWS = 1 << 18
"""Work that nobody minds, about 2 CPU seconds and 20 MB at a hub: a list of 2^26 ids makes so much for a short one."""
ROWS_AN_ID = 8
"""Rows that a party may have to work on for each of its own ids; lists of like length need 1.3."""
STATISTICAL = 40  # 2^-40: what may go wrong by chance alone
SLOT_BYTES = 16
"""A slot of a partner's table, and a value that the hub announces."""
GROUP_BYTES = 32  # 256 bits that the hub draws
GREETING_BYTES = 72  # a key of 32 bytes, a count of 8 and a point of 32
_ROWS = 512  # a matrix has whole multiples of these rows; transposing takes squares of 64


@dataclass(frozen=True)
class Sizes:
    """The public sizes of an alignment, from each party's number of ids."""

    counts: tuple[int, ...]

    @cached_property
    def hub(self) -> int:
        """The party with the fewest ids, the first of them."""
        return self.counts.index(min(self.counts))

    @cached_property
    def bins(self) -> int:
        return bins_of(max(self.counts))

    def capacity(self, party: int) -> int:
        """Ids of a party that a bin has room for."""
        return capacity_of(self.counts[party], self.bins)

    def slots(self, party: int) -> int:
        """Slots of a party's table of one bin."""
        return slots_of(self.capacity(party))

    def testable(self, party: int) -> int:
        """Ids that a party which does not keep to its list can bring at most: the slots of its tables."""
        return self.bins * self.slots(party)

    def rows(self, party: int) -> int:
        """Rows of all that a party makes for another: the hub's matrices, or a partner's tables."""
        return self.bins * (self.matrix_rows if party == self.hub else self.slots(party))

    def bearable(self, party: int) -> bool:
        """Whether the others' numbers of ids leave a party with work that is in proportion to its own list."""
        return self.rows(party) <= max(LARGEST_ROWS, ROWS_AN_ID * self.counts[party])

    @cached_property
    def matrix_rows(self) -> int:
        """Rows of the hub's matrix of one bin."""
        return -(-(self.slots(self.hub) + blinding_rows(len(self.counts))) // _ROWS) * _ROWS

    @cached_property
    def matrix_bytes(self) -> int:
        """The hub's matrix of one bin, with its proof."""
        return LENGTH * self.matrix_rows // 8 + PROOF_BYTES

    def table_bytes(self, party: int) -> int:
        return SLOT_BYTES * self.slots(party)

    def sent(self, party: int, common: int, post_quantum: bool = False) -> int:
        """Bytes that a party sends to others, but for heads and seals of parcels."""
        others = len(self.counts) - 1
        greetings = GREETING_BYTES * (others + 1)
        if party != self.hub:
            choices = CHOICE_BYTES + (KEM_CHOICE_BYTES if post_quantum else 0)
            return greetings + choices + self.bins * self.table_bytes(party)
        reply = KEM_REPLY_BYTES if post_quantum else 0
        said = GROUP_BYTES + 4 * self.bins + SLOT_BYTES * common
        return greetings + others * (reply + self.bins * self.matrix_bytes + said)


@proven("alignment")
def blinding_rows(parties: int) -> int:
    """Random rows that hide the sums of one matrix's rows, of which the partners hold 128 each.

    Domain: parties: all of the session, the hub among them, at least 2.
    Unit: rows of 85 bits.
    Guarantee: the checks' sums are uniform to all partners together, but for 2^-40. Proof: alignment, 3.
    """
    return SUMS * (parties - 1) + STATISTICAL


def bins_of(longest: int) -> int:
    """Bins for lists of which the longest has so many ids."""
    return max(1, round(longest / BIN))


@cache
def capacity_of(count: int, bins: int) -> int:
    """The least room that no bin exceeds but for a chance of 2^-40, by Chernoff's bound on the binomial tail."""
    if bins == 1:
        return count
    low, high = count // bins, count
    while low < high:
        middle = (low + high) // 2
        if math.log(bins) - _divergence(count, middle + 1, bins) <= -STATISTICAL * math.log(2):
            high = middle
        else:
            low = middle + 1
    return low


def _divergence(count: int, reached: int, bins: int) -> float:
    """-log of the bound on the chance that at least `reached` of `count` ids fall into one of so many bins."""
    share, chance = reached / count, 1 / bins
    if share <= chance:
        return 0.0
    rest = 0.0 if reached >= count else (1 - share) * math.log((1 - share) / (1 - chance))
    return count * (share * math.log(share / chance) + rest)
