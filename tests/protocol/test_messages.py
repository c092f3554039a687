"""Messages: typed, versioned, size-checked; whatever bytes arrive, only MessageError comes out."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.crypto.product import Contribution
from colonnade.foundation.errors import MessageError
from colonnade.mechanism.blocks import NoisyBlock
from colonnade.protocol.codes import Code
from colonnade.protocol.messages import (
    BODIES,
    LARGEST,
    MAGIC,
    Accept,
    Assembly,
    Body,
    Confirm,
    Done,
    End,
    Envelope,
    Go,
    Halt,
    Handed,
    Hello,
    Join,
    ParcelBody,
    Piece,
    Proposal,
    Ready,
    Refuse,
    Resumable,
    Signature,
    Step,
    Welcome,
    Withdraw,
    body_of,
    encode_body,
)
from colonnade.protocol.submissions import Masked, masked_from, submission, total_of

SAMPLES: dict[Step, Body] = {
    Step.HELLO: Hello(2, "ab", True, ["cd"]),
    Step.WELCOME: Welcome(bytes(32), bytes(32), {"cd": "void"}),
    Step.READY: Ready(),
    Step.JOIN: Join({"x": {"kind": "numeric", "low": 0, "high": 1}}, 10, bytes(32)),
    Step.PROPOSAL: Proposal({"name": "s"}, 10, [bytes(32)]),
    Step.ACCEPT: Accept("ab"),
    Step.REFUSE: Refuse(Code.POLICY, "plan"),
    Step.GO: Go("seal"),
    Step.PARCEL: ParcelBody("seal", b"payload"),
    Step.DONE: Done("seal"),
    Step.SUBMIT: Piece(0, 1, b"words"),
    Step.OPENED: Piece(0, 1, b"release"),
    Step.SIGNATURE: Signature("mask key", bytes(32), b"proof"),
    Step.CONFIRM: Confirm(),
    Step.RESUME: Resumable(bytes(32), "ab", 10, (bytes(32), bytes(32))),
    Step.HANDED: Handed("p1", b"piece"),
    Step.HALT: Halt(),
    Step.WITHDRAW: Withdraw((("p1", b"proof"),)),
    Step.END: End(Code.LOST, "p1", "submit", False),
}


def envelope(step: Step, body: bytes) -> Envelope:
    return Envelope(bytes(32), "digest", "p0", "p1", step, body)


@pytest.mark.parametrize("step", list(Step))
def test_round_trip(step: Step) -> None:
    sent = envelope(step, encode_body(SAMPLES[step]))
    got = Envelope.decode(sent.encode())
    assert got == sent
    assert body_of(got, BODIES[step]) == SAMPLES[step]


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused_as_messages(data: bytes) -> None:
    for candidate in (data, MAGIC + data):
        try:
            Envelope.decode(candidate)
        except MessageError:
            continue


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.sampled_from(list(Step)), st.binary(max_size=120))
def test_random_bodies_are_refused(step: Step, data: bytes) -> None:
    try:
        body_of(envelope(step, data), BODIES[step])
    except MessageError:
        return


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.sampled_from(list(Step)), st.integers(0, 10**6), st.integers(1, 255))
def test_an_altered_byte_decodes_or_is_refused(step: Step, at: int, flip: int) -> None:
    data = bytearray(envelope(step, encode_body(SAMPLES[step])).encode())
    data[at % len(data)] ^= flip
    try:
        got = Envelope.decode(bytes(data))
        body_of(got, BODIES[got.step])
    except MessageError:
        return


@pytest.mark.parametrize("step", list(Step))
def test_truncated_messages_are_refused(step: Step) -> None:
    data = envelope(step, encode_body(SAMPLES[step])).encode()
    for stop in range(len(data)):
        with pytest.raises(MessageError):
            Envelope.decode(data[:stop])


def test_deep_nesting_is_refused() -> None:
    deep = b"\x81\xa1x" * 100_000 + b"\xc0"
    body = b"\x83\xa7columns\x81\xa1x\x81\xa1k" + deep + b"\xa4rows\x01\xa8mask_key\xc4\x00"
    with pytest.raises(MessageError, match="the body of a join message cannot be decoded"):
        body_of(envelope(Step.JOIN, body), Join)


def test_unknown_fields_versions_and_bodies_are_refused() -> None:
    more = msgspec.msgpack.encode({"round": "seal", "scale": 0.1})
    with pytest.raises(MessageError, match="the body of a go message cannot be decoded"):
        body_of(envelope(Step.GO, more), Go)
    with pytest.raises(MessageError, match=r"a message must start with b'CLN1', got b'CLN2'"):
        Envelope.decode(b"CLN2" + envelope(Step.GO, b"").encode()[4:])
    with pytest.raises(MessageError, match="a go message must carry a Proposal"):
        body_of(envelope(Step.GO, encode_body(Go("seal"))), Proposal)


def test_size_limits() -> None:
    with pytest.raises(MessageError, match=f"a message must have at most {LARGEST} bytes"):
        envelope(Step.PARCEL, bytes(LARGEST)).encode()
    with pytest.raises(MessageError, match=f"a message must have at most {LARGEST} bytes"):
        Envelope.decode(MAGIC + bytes(LARGEST))


def test_pieces_come_in_order_and_within_bounds() -> None:
    assembly = Assembly(10)
    assert assembly.add(Piece(0, 2, b"12345")) is None
    assert assembly.add(Piece(1, 2, b"678")) == b"12345678"
    for pieces in (
        [Piece(1, 2, b"")],
        [Piece(0, 0, b"")],
        [Piece(0, 2, b""), Piece(0, 2, b"")],
        [Piece(0, 2, b""), Piece(2, 3, b"")],
        [Piece(0, 3, b"123456"), Piece(1, 3, b"123456")],
        [Piece(-1, 1, b"")],
    ):
        assembly = Assembly(10)
        with pytest.raises(MessageError, match="pieces must come in order and within 10 bytes"):
            for piece in pieces:
                assembly.add(piece)


def test_submission_round_trip_and_length() -> None:
    words = np.arange(5, dtype=np.uint64)
    pieces = submission(Masked(words, b"extra"))
    blob = b"".join(body_of(envelope(Step.SUBMIT, p), Piece).data for p in pieces)
    back = masked_from(blob, 5, len(b"extra"))
    assert np.array_equal(back.words, words) and back.payload == b"extra"
    for length in (4, 6):
        with pytest.raises(MessageError, match=f"a submission must have {length} words"):
            masked_from(blob, length, len(b"extra"))
    for payload in (0, 4, 6):
        with pytest.raises(MessageError, match="a submission must have 5 words"):
            masked_from(blob, 5, payload)
    with pytest.raises(MessageError):
        masked_from(b"", 0)


def test_a_large_submission_is_cut_and_put_together() -> None:
    words = np.arange((16 << 20) // 8 + 10, dtype=np.uint64)
    pieces = [body_of(envelope(Step.SUBMIT, p), Piece) for p in submission(Masked(words, b""))]
    assert [p.index for p in pieces] == [0, 1]
    assembly = Assembly(1 << 30)
    whole = [assembly.add(piece) for piece in pieces][-1]
    assert whole is not None and np.array_equal(masked_from(whole, words.size).words, words)


def test_masked_puts_everything_in_its_place() -> None:
    mask = np.full(5, 7, dtype=np.uint64)
    masked = Masked.of(
        {0: NoisyBlock(np.array([-1, 2]))},
        {0: np.array([1, 0])},
        Contribution(np.array([5, 6, 7], dtype=np.uint64)),
        mask,
        40,
    )
    minus = (1 << 40) + 7 - 1
    assert masked.words.tolist() == [7 + 2, minus % (1 << 40), 12, 13, 14]
    assert mask.tolist() == [7] * 5
    assert total_of([masked, masked], 40).tolist() == [(2 * int(v)) % (1 << 40) for v in masked.words]
