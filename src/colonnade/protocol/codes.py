"""Why a session ended, as others are told: one of a few fixed codes, never a party's own sentence and its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from colonnade.foundation.errors import (
    AlignmentError,
    BrokenError,
    ColonnadeError,
    ConsentError,
    DataError,
    LedgerError,
    NoDataError,
    PolicyError,
    PrivacyError,
    SchemaError,
    SignatureError,
    SiteError,
    StoppedError,
    StudyError,
)

BOOKED_COUNTS = (
    "what is booked counts as spent; once more than `collusion` other parties show ledgers in which the session is "
    "void or missing, its data protection officer may take it back: "
    "colonnade ledger settle LEDGER --session ID --as void --reason TEXT"
)
"""Of a booking whose end nobody has said: a party books before it submits, so that such ledgers prove that too little
was submitted to be opened. Terminal, doctor and docs have this text."""


class Code(StrEnum):
    """What a refusal or an abort says on the wire."""

    VERSION = "version-differs"
    TERMS = "study-differs"
    SEED = "seed-differs"
    PLAN = "plan-differs"
    POLICY = "policy"
    BUDGET = "budget"
    CONSENT = "consent"
    SIGNATURE = "signature"
    SITE = "site"
    DATA = "data"
    NO_MATCH = "no-match"
    ROWS = "rows-differ"
    PROTOCOL = "protocol-error"
    LOST = "party-lost"
    TIMEOUT = "timeout"
    STOPPED = "stopped"
    INTERNAL = "internal-error"


MEANING: Mapping[Code, str] = {
    Code.VERSION: "it speaks another version of the protocol than the server",
    Code.TERMS: "its own files state other terms than the server's",
    Code.SEED: "server and parties must all be seeded for a simulation, or none",
    Code.PLAN: "the plan cannot be made, or differs from what was declared or computed",
    Code.POLICY: "a rule of a policy does not allow the plan",
    Code.BUDGET: "a ledger has no room for the spend, or cannot be written",
    Code.CONSENT: "no person approved the plan",
    Code.SIGNATURE: "what came in a party's name does not bear that party's signature",
    Code.SITE: "files of an organisation's own are missing, cannot be read or cannot be written",
    Code.DATA: "a data file does not fit its schema",
    Code.NO_MATCH: "ids cannot be matched: none are common to all, or a list of them is unfit",
    Code.ROWS: "the parties hold different numbers of records",
    Code.PROTOCOL: "a message was malformed or came out of turn",
    Code.LOST: "a party is no longer there",
    Code.TIMEOUT: "a step took longer than allowed",
    Code.STOPPED: "a person stopped the session",
    Code.INTERNAL: "an unexpected error, which is told where it happened only",
}
# The first kind that fits; whatever is no error of this package says nothing of itself.
_KINDS: tuple[tuple[type[BaseException], Code], ...] = (
    (ConsentError, Code.CONSENT),
    (SignatureError, Code.SIGNATURE),
    (PolicyError, Code.POLICY),
    (LedgerError, Code.BUDGET),
    (SiteError, Code.SITE),
    (NoDataError, Code.SITE),
    (DataError, Code.DATA),
    (AlignmentError, Code.NO_MATCH),
    (SchemaError, Code.PLAN),
    (StudyError, Code.PLAN),
    (PrivacyError, Code.PLAN),
    (StoppedError, Code.STOPPED),
    (BrokenError, Code.INTERNAL),
    (ColonnadeError, Code.PROTOCOL),
    (KeyboardInterrupt, Code.STOPPED),
)


def code_of(error: BaseException) -> Code:
    """What others are told of an error; its text stays where it happened."""
    return next((code for kind, code in _KINDS if isinstance(error, kind)), Code.INTERNAL)


def sentence_of(code: Code, party: str = "") -> str:
    """A code in words, the same for everybody; `party` is where it arose, if at one."""
    where = f" at {party}" if party else ""
    return f"the session ended{where} ({code.value}): {MEANING[code]}"
