"""Digests of public terms, by which server and parties see at once whether they hold the same study or prediction."""

from __future__ import annotations

from colonnade.foundation.canonical import canonical_digest
from colonnade.protocol.agreement import Agreement
from colonnade.protocol.prediction import Prediction


def study_digest(agreement: Agreement, alignment: str) -> str:
    """SHA-256 of a study's terms in one canonical form."""
    return canonical_digest({"agreement": agreement.to(), "alignment": alignment})


def prediction_digest(prediction: Prediction, alignment: str) -> str:
    """The same of a prediction; n is not known before the records are matched."""
    # Parties stand in mask order, which sorted keys would not tell.
    terms = {**prediction.to(), "parties": list(prediction.parties)}
    return canonical_digest({"prediction": terms, "alignment": alignment})
