"""A prediction under a server that meddles: parts of scores are exact, and masks are all that hides them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from colonnade.transport.score_hub import ScoreHub
from colonnade.transport.vouching import Voucher

from colonnade.crypto.masks import MaskKeys
from colonnade.foundation.randomness import Randomness, Stream
from colonnade.model import partial_scores, prediction_of
from colonnade.protocol.messages import Envelope, Masked, Piece, Proposal, Step, body_of, encode_body, masked_from
from colonnade.protocol.prediction import scores_of
from colonnade.study import Study
from colonnade.transport.wire import Item, Push, decode_item, decode_request
from tests.helpers.authority import Authority
from tests.helpers.wires import PARTIES, Wire, write_study
from tests.network.test_predictions import SEED, embedded, model_of, run, same, table_of


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return write_study(tmp_path, 40)


@pytest.fixture
def vouchers(tmp_path: Path) -> dict[str, Voucher]:
    authority = Authority()
    return {name: authority.voucher(tmp_path / "sites", name) for name in PARTIES}


class Middleman:
    """A server that agrees with works on masks, in the names of all others, and takes them off what works submits."""

    def __init__(self) -> None:
        self._keys = [MaskKeys(Randomness(f"middleman {place}".encode())) for place in range(3)]
        self._public, self._place, self._session = b"", 0, b""
        self.opened: list[Masked] = []

    def wire(self, hub: ScoreHub) -> Wire:
        post, self._place = hub._post, hub.parties.index("works")

        def post_others(name: str, item: Item) -> None:
            post(name, self._meddled(item) if name == "works" else item)

        def carry(name: str, data: bytes) -> bytes:
            request = decode_request(data)
            item = decode_item(request.item) if isinstance(request, Push) else None
            if name == "works" and isinstance(item, Envelope) and item.step is Step.SUBMIT:
                blob = body_of(item, Piece).data
                self._unmask(masked_from(blob, int.from_bytes(blob[:8], "little")))
            return hub.handle(name, data)

        hub._post = post_others  # type: ignore[method-assign]
        return carry

    def _meddled(self, item: Item) -> Item:
        if not isinstance(item, Envelope) or item.step is not Step.PLAN:
            return item
        plan, keys = body_of(item, Proposal), [key.public for key in self._keys]
        keys[self._place] = self._public = plan.mask_keys[self._place]
        self._session = item.session
        return msgspec.structs.replace(item, body=encode_body(msgspec.structs.replace(plan, mask_keys=keys)))

    def _unmask(self, masked: Masked) -> None:
        words = masked.words.copy()
        for place, keys in enumerate(self._keys):
            if place != self._place:
                stream = Stream(keys._pair_key(self._session, place, self._place, self._public)).words(len(words))
                words += -stream if self._place < place else stream
        self.opened.append(Masked(words, b""))


def parts(study: Study) -> Sequence[float]:
    """What works adds to each of its records' scores."""
    public = model_of(study)
    table = table_of(study, prediction_of(public, study.agreement.schema, "bank"), "works")
    return sorted(np.round(partial_scores(table, public.model), 9))


def test_signatures_change_no_score(study: Study, tmp_path: Path, vouchers: dict[str, Voucher]) -> None:
    public = model_of(study)
    same(run(study, tmp_path, public, SEED, vouchers=vouchers), embedded(study, public))


def test_unsigned_keys_show_the_server_one_partys_exact_parts(study: Study, tmp_path: Path) -> None:
    middleman = Middleman()
    run(study, tmp_path, model_of(study), wire=middleman.wire)
    (opened,) = middleman.opened
    seen = np.round(scores_of(opened.words), 9)
    assert len(seen) > 30 and set(seen) <= set(parts(study))


def test_signed_keys_do_not(study: Study, tmp_path: Path, vouchers: dict[str, Voucher]) -> None:
    middleman = Middleman()
    out = run(study, tmp_path, model_of(study), wire=middleman.wire, vouchers=vouchers)
    out.nothing_was_opened()
    assert not middleman.opened
    assert " in the plan is not the one that " in out.sentence("works")
    for told in (out.sentence("bank"), out.sentence("town"), out.told()):
        assert told.startswith("the session ended at works (signature)") and "no score was opened" in told
