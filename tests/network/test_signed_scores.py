"""A prediction under a server that meddles: parts of scores are exact, and masks are all that hides them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from colonnade.crypto.masks import MaskKeys
from colonnade.foundation.randomness import Randomness, Stream
from colonnade.model import partial_scores, prediction_of
from colonnade.planning.prediction import scores_of
from colonnade.protocol.messages import Envelope, Piece, Proposal, Step, body_of, encode_body
from colonnade.protocol.signatures import Signer
from colonnade.protocol.submissions import Masked, masked_from
from colonnade.study import StudySpec
from colonnade.transport.relay import Relay
from tests.helpers.authority import Authority
from tests.helpers.wires import PARTIES, Wire, deviating, message_in, write_study
from tests.network.test_predictions import SEED, embedded, model_of, run, same, table_of


@pytest.fixture
def study(tmp_path: Path) -> StudySpec:
    return write_study(tmp_path, 40)


@pytest.fixture
def signers(tmp_path: Path) -> dict[str, Signer]:
    authority = Authority()
    return {name: authority.signer(tmp_path / "sites", name) for name in PARTIES}


class Middleman:
    """A server that agrees with works on masks, in the names of all others, and takes them off what works submits."""

    def __init__(self) -> None:
        self._keys = [MaskKeys(Randomness(f"middleman {place}".encode())) for place in range(3)]
        self._public, self._place, self._session = b"", 0, b""
        self.opened: list[Masked] = []

    def wire(self, relay: Relay) -> Wire:
        self._place = relay.role.parties.index("works")
        deviates = deviating(self._meddled)(relay)

        def carry(name: str, data: bytes) -> bytes:
            message = message_in(data)
            if name == "works" and message is not None and message.step is Step.SUBMIT:
                blob = body_of(message, Piece).data
                self._unmask(masked_from(blob, int.from_bytes(blob[:8], "little")))
            return deviates(name, data)

        return carry

    def _meddled(self, name: str, message: Envelope) -> Sequence[Envelope]:
        if name != "works" or message.step is not Step.PROPOSAL:
            return [message]
        plan, keys = body_of(message, Proposal), [key.public for key in self._keys]
        keys[self._place] = self._public = plan.mask_keys[self._place]
        self._session = message.session
        return [msgspec.structs.replace(message, body=encode_body(msgspec.structs.replace(plan, mask_keys=keys)))]

    def _unmask(self, masked: Masked) -> None:
        words = masked.words.copy()
        for place, keys in enumerate(self._keys):
            if place != self._place:
                stream = Stream(keys._pair_key(self._session, place, self._place, self._public)).words(len(words))
                words += -stream if self._place < place else stream
        self.opened.append(Masked(words, b""))


def parts(study: StudySpec) -> Sequence[float]:
    """What works adds to each of its records' scores."""
    public = model_of(study)
    table = table_of(study, prediction_of(public, study.agreement.schema, "bank"), "works")
    return sorted(np.round(partial_scores(table, public.model, public.factors), 9))


def test_signatures_change_no_score(study: StudySpec, tmp_path: Path, signers: dict[str, Signer]) -> None:
    public = model_of(study)
    same(run(study, tmp_path, public, SEED, signers=signers), embedded(study, public))


def test_unsigned_keys_show_the_server_one_partys_exact_parts(study: StudySpec, tmp_path: Path) -> None:
    middleman = Middleman()
    run(study, tmp_path, model_of(study), wire=middleman.wire)
    (opened,) = middleman.opened
    seen = np.round(scores_of(opened.words), 9)
    assert len(seen) > 30 and set(seen) <= set(parts(study))


def test_signed_keys_do_not(study: StudySpec, tmp_path: Path, signers: dict[str, Signer]) -> None:
    middleman = Middleman()
    out = run(study, tmp_path, model_of(study), wire=middleman.wire, signers=signers)
    out.nothing_was_opened()
    assert not middleman.opened
    assert " in the plan is not the one that " in out.sentence("works")
    for told in (out.sentence("bank"), out.sentence("town"), out.told):
        assert told.startswith("the session ended at works (signature)") and "no score was opened" in told
