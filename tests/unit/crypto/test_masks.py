"""Masks are uniform alone and nothing in the sum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from colonnade.crypto.masks import MaskKeys, fingerprint
from colonnade.foundation.errors import ProtocolError
from colonnade.foundation.randomness import Randomness

SESSION = bytes(range(32))


def keys(count: int) -> list[MaskKeys]:
    return [MaskKeys(Randomness(b"mask %d" % k)) for k in range(count)]


def masks(
    parties: Sequence[MaskKeys], length: int = 1000, bits: int = 64, session: bytes = SESSION
) -> list[np.ndarray]:
    publics = [party.public for party in parties]
    return [party.mask(session, k, publics, length, bits) for k, party in enumerate(parties)]


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("bits", [1, 40, 63, 64])
def test_all_masks_cancel(count: int, bits: int) -> None:
    given = masks(keys(count), bits=bits)
    total = np.sum(given, axis=0, dtype=np.uint64) & np.uint64((1 << bits) - 1)
    assert not total.any()
    assert all(int(mask.max()) < 1 << bits for mask in given)


def test_one_party_has_no_mask() -> None:
    assert not masks(keys(1))[0].any()


def test_all_but_one_do_not_cancel_and_stay_uniform() -> None:
    given = masks(keys(3), length=400_000, bits=44)
    for total in (given[0], given[1] + given[2]):
        top = (total & np.uint64((1 << 44) - 1)) >> np.uint64(36)
        assert stats.chisquare(np.bincount(top.astype(np.int64), minlength=256)).pvalue > 1e-6


def test_the_mask_depends_on_session_keys_and_place() -> None:
    parties = keys(3)
    publics = [party.public for party in parties]
    first = parties[0].mask(SESSION, 0, publics, 50, 64)
    assert np.array_equal(first, parties[0].mask(SESSION, 0, publics, 50, 64))
    assert np.array_equal(first[:20], parties[0].mask(SESSION, 0, publics, 20, 64))
    assert not (first == parties[0].mask(bytes(32), 0, publics, 50, 64)).any()
    assert not (first == parties[0].mask(SESSION, 1, [publics[1], publics[0], publics[2]], 50, 64)).any()
    other = MaskKeys(Randomness(b"another"))
    assert not (first == parties[0].mask(SESSION, 0, [publics[0], publics[1], other.public], 50, 64)).any()


def test_a_third_party_cannot_compute_the_mask_of_a_pair() -> None:
    parties = keys(3)
    pair = [parties[0].public, parties[1].public]
    assert not (parties[0].mask(SESSION, 0, pair, 50, 64) == masks(keys(3), 50)[0]).any()


@pytest.mark.parametrize(
    ("publics", "words"),
    [
        (lambda own, peer: [own, own], "must differ"),
        (lambda own, peer: [own, peer[:31]], "must have 32 bytes, got 31"),
        (lambda own, peer: [own, bytes(32)], "small order"),
        (lambda own, peer: [own, b"\x01" + bytes(31)], "small order"),
        (lambda own, peer: [peer, peer], "own key at place 0"),
        (lambda own, peer: [], "own key at place 0"),
    ],
)
def test_bad_keys_are_refused(publics: object, words: str) -> None:
    own, peer = keys(2)
    with pytest.raises(ProtocolError, match=words):
        own.mask(SESSION, 0, publics(own.public, peer.public), 4, 64)  # type: ignore[operator]


@pytest.mark.parametrize(("session", "bits"), [(b"short", 64), (SESSION, 0), (SESSION, 65)])
def test_bad_sizes_are_refused(session: bytes, bits: int) -> None:
    party = keys(1)[0]
    with pytest.raises(ProtocolError):
        party.mask(session, 0, [party.public], 4, bits)


def test_fingerprint_names_the_key() -> None:
    first, second = keys(2)
    assert first.fingerprint == fingerprint(first.public) != second.fingerprint
    assert len(bytes.fromhex(first.fingerprint)) == 16
    assert first.public.hex() not in repr(first)
    assert len(first.public) == 32
