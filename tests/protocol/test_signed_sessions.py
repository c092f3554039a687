"""Signed sessions in one process: another party's signature, or none, ends the session before anything is spent."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from colonnade.foundation.errors import ColonnadeError, SignatureError
from colonnade.foundation.matching import NONE, PSI
from colonnade.mechanism.release import write_release
from colonnade.protocol.codes import Code
from colonnade.protocol.messages import Envelope, ParcelBody, Refuse, Signature, Step, body_of, encode_body
from colonnade.protocol.signatures import MASK_KEY, PASSED
from tests.helpers.sessions import (
    Scripted,
    TappedSession,
    agreement_of,
    altered,
    people_of,
    tables_of,
    tapped_session,
)
from tests.helpers.signers import proof_of, signers_of

NAMES = ("p0", "p1", "p2")


def signed(alignment: str = PSI, **more: Any) -> tuple[TappedSession, list[str]]:
    """A session of three who sign, and what their books were told."""
    agreement, books = agreement_of(3), list[str]()
    guards = {n: Scripted(book=lambda session: books.append("spent"), void=lambda reason: None) for n in NAMES}
    tables = people_of(tables_of(agreement, 16)) if alignment == PSI else tables_of(agreement)
    signers = {"signers": signers_of(*NAMES)} | more
    return tapped_session(agreement, tables=tables, alignment=alignment, guards=guards, **signers), books


@pytest.mark.parametrize("alignment", [PSI, NONE])
def test_signatures_of_all_change_no_byte_of_the_release(alignment: str) -> None:
    """Depth first: a peer's signatures about the session come before this party is told to join."""
    (with_all, books), (without, _) = signed(alignment), signed(alignment, signers={})
    with_all.run()
    without.run()
    assert with_all.release is not None and without.release is not None
    assert write_release(with_all.release) == write_release(without.release)
    assert books == ["spent"] * 3
    about = [body_of(e, Signature).about for e in with_all.sent(Step.SIGNATURE)]
    assert about.count(MASK_KEY) == 6 and about.count(PASSED) >= 6
    assert not without.sent(Step.SIGNATURE)
    # The context switches when ids are matched: a mask key is signed for this session and for no alignment.
    first = next(i for i, e in enumerate(with_all.seen) if e.step is Step.JOIN)
    assert any(e.step is Step.SIGNATURE for e in with_all.seen[:first])


def meddling(step: Step, number: int, change: Any) -> Any:
    """A wire that changes the so-manieth message of a kind on its way up."""
    seen = 0

    def meddle(envelope: Envelope, up: bool) -> tuple[Envelope, ...]:
        nonlocal seen
        if not up or envelope.step is not step:
            return (envelope,)
        seen += 1
        return change(envelope) if seen - 1 == number else (envelope,)

    return meddle


def resigned(envelope: Envelope, **changes: Any) -> tuple[Envelope, ...]:
    body = msgspec.structs.replace(body_of(envelope, Signature), **changes)
    return (altered(envelope, body=encode_body(body)),)


def bent(envelope: Envelope) -> tuple[Envelope, ...]:
    parcel = body_of(envelope, ParcelBody)
    payload = bytes([parcel.payload[0] ^ 1]) + parcel.payload[1:]
    return (altered(envelope, body=encode_body(ParcelBody(parcel.round, payload))),)


LIES = {
    "a proof by nobody": (Step.SIGNATURE, lambda e: resigned(e, proof=bytes(32))),
    "a proof by another": (Step.SIGNATURE, lambda e: resigned(e, proof=proof_of("p2", b"anything"))),
    "another value": (Step.SIGNATURE, lambda e: resigned(e, value=bytes(32))),
    "another subject": (Step.SIGNATURE, lambda e: resigned(e, about="everything")),
    "no signature": (Step.SIGNATURE, lambda e: ()),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize(("alignment", "number"), [(PSI, 0), (PSI, 9), (NONE, 0), (NONE, 5), (NONE, 8)])
def test_a_wrong_signature_is_refused_and_nothing_is_spent(lie: str, alignment: str, number: int) -> None:
    """Of the signatures of a session: about the matching, about keys and about products."""
    step, change = LIES[lie]
    wire, books = signed(alignment, meddle=meddling(step, number, change))
    with pytest.raises(SignatureError):
        wire.run()
    assert books == [] and wire.release is None and not wire.sent(Step.SUBMIT)
    assert [body_of(e, Refuse).code for e in wire.sent(Step.REFUSE)] == [Code.SIGNATURE]


def test_a_bent_column_is_refused_and_nothing_is_spent() -> None:
    wire, books = signed(NONE, meddle=meddling(Step.PARCEL, 0, bent))
    with pytest.raises(ColonnadeError):
        wire.run()
    assert books == [] and wire.release is None and not wire.sent(Step.SUBMIT)


def test_a_party_that_signs_nothing_takes_no_part_among_those_who_do() -> None:
    wire, books = signed(NONE, signers=signers_of("p0", "p2"))
    with pytest.raises(SignatureError, match="bears no signature of p1"):
        wire.run()
    assert books == []
