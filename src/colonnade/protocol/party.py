"""A party's role in any session: messages in, messages out, no I/O. Its states are those of `conversation.PARTY`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from colonnade.crypto.masks import SESSION_BYTES, MaskKeys
from colonnade.crypto.product import SERVER, Exchange, Words
from colonnade.foundation.errors import (
    BrokenError,
    ColonnadeError,
    LedgerError,
    MessageError,
    PolicyError,
    ProofError,
    ProtocolError,
    ReleaseError,
    StoppedError,
    StudyError,
)
from colonnade.foundation.matching import HYBRID
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import column_to
from colonnade.protocol.account import SessionAccount, listed
from colonnade.protocol.codes import Code, code_of, sentence_of
from colonnade.protocol.conversation import BOOKS, PARTY, SETTLED, SPENT, Books, Event, PartyState
from colonnade.protocol.evidence import HANDED_IN, WITHDRAWN, Kept
from colonnade.protocol.messages import (
    DIGESTS,
    IDENTITY_BYTES,
    SUBMIT,
    VERSION,
    Accept,
    Assembly,
    Body,
    Confirm,
    Done,
    End,
    Envelope,
    Go,
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
    party_event,
    versions,
    versions_in,
)
from colonnade.protocol.signatures import ALIGNMENT, COINS, OPENED, SESSION, SUBMISSION, SignedTraffic, Signer
from colonnade.protocol.submissions import Submissions
from colonnade.protocol.tasks import PartyTask, Records, SessionContext, Watch, unseen

if TYPE_CHECKING:
    from colonnade.crypto.alignment.party import AlignmentParty

MASK_BITS = 64  # any number does: the key alone is tried
MOST_OFFERS = 8
"""Of sessions that could be gone on with the latest are told: an entry stays small, whatever broke before."""
ENTRY = (Code.VERSION, Code.TERMS, Code.SEED)
"""Why a party is not let in."""


class PartyRole:
    """One organisation's side of one session; what the session is for is its task's matter."""

    def __init__(
        self,
        task: PartyTask,
        randomness: Randomness,
        signer: Signer | None = None,
        watch: Watch = unseen,
        account: SessionAccount | None = None,
    ) -> None:
        """With an account the session is accountable, for this party and for all."""
        self.task, self.name, self.state = task, task.name, PartyState.NEW
        self.phase, self.share = "wait", 0.0
        self.reason = ""
        """Why the session ended, for this party's own people: others are told a code."""
        self.end: End | None = None
        """The server's last word."""
        self.booking = self._becomes = Books.NONE
        """What the party's books say of the session, and by the table become."""
        self.server = ""  # What the server says of its versions when it ends the session.
        self.standing = ""
        """Why a booking stands though the server says that nothing was opened."""
        self.doubt = ""
        """What the server, or a peer, was found to have done otherwise than it should, once all is over."""
        self._randomness, self._watch, self._account = randomness, watch, account
        self._traffic = SignedTraffic(task.name, task.parties, signer, None if account is None else account.digest_of)
        self._identity, self._alignment_id, self._digest = b"", b"", ""
        self._code: Code | None = None
        self._records: Records | None = None
        self._aligner: AlignmentParty | None = None
        self._keys: MaskKeys | None = None
        self._peers: list[bytes] = []
        self._rows, self._moved, self._expected = 0, 0.0, 0.0
        self._submission: list[bytes] = []
        self._handed: Submissions | None = None
        self._opened = Assembly(0)

    @property
    def over(self) -> bool:
        """Whether nothing that this party would wait for can come any more."""
        released = self.state is PartyState.RELEASED and self._account is None
        return released or self.state in (PartyState.ENDED, PartyState.CLOSED)

    @property
    def handed_in(self) -> bool:
        """Whether a submission was made: from then on only the server can say that nothing was opened."""
        return self.booking in SPENT

    @property
    def released(self) -> bool:
        """Whether what was opened has come."""
        return self.booking is Books.RELEASED

    @property
    def identity(self) -> bytes:
        """The session's id; empty before the server has welcomed this party. Joint coins make it another."""
        return self._identity

    # What carriers tell.

    def start(self) -> Iterator[Envelope]:
        """Ask to be let in, unless the public terms alone are refused."""
        self._advance(Event.START)
        with self._refusing():
            self.task.judge()
            pending = self.task.pending()
        accountable = self._account is not None
        hello = Hello(VERSION, self.task.terms, self._randomness.seeded, pending, accountable, self._offers())
        yield Envelope(b"", versions(), self.name, SERVER, Step.HELLO, encode_body(hello))

    def _offers(self) -> tuple[Resumable, ...]:
        if self._account is None or not self._traffic.signs:
            return ()
        return tuple(o for o in self._account.offers() if self.task.resumes(o.session.hex()))[-MOST_OFFERS:]

    def receive(self, envelope: Envelope) -> Iterator[Envelope]:
        """Answer one message; answers are made lazily, so that rows can stream. What it raises goes to `fault`."""
        return self._answer(envelope) if self._account is None else self._account.witness(envelope, self._answer)

    def _answer(self, envelope: Envelope) -> Iterator[Envelope]:
        if envelope.session != self._identity and not self._may_differ(envelope.step):
            raise ProtocolError(f"party {self.name} ({self.state.value}) got a message of another session")
        event = party_event(self.name, self.state, envelope)
        if (self.state, event) not in PARTY:
            raise ProtocolError(f"party {self.name} is {self.state.value} and expects no {envelope.step.value} message")
        if self._digest and envelope.step is not Step.END and envelope.plan != self._digest:
            raise ProtocolError(
                f"party {self.name} ({self.state.value}) got a message of another {self.task.kind.agreed}"
            )
        self._advance(event)
        match event:
            case Event.WELCOME:
                yield from self._welcome(body_of(envelope, Welcome))
            case Event.GO_ALIGN | Event.GO_ROUND:
                yield from self._run_round(body_of(envelope, Go).round)
            case Event.PARCEL:
                self._take_parcel(envelope)
            case Event.SIGNATURE:
                self._take_signature(envelope.sender, body_of(envelope, Signature))
                yield from self._await_digests()
            case Event.GO_JOIN:
                yield from self._join()
            case Event.PROPOSAL:
                yield self._consider(body_of(envelope, Proposal, self.task.largest_proposal), envelope.plan)
            case Event.GO_DIGESTS:
                yield from self._fix()
                yield from self._await_digests()
            case Event.GO_SUBMIT:
                yield from self._submit()
            case Event.RESUME:
                yield from self._resume(body_of(envelope, Resumable))
            case Event.HALT:
                answer = self._to_server(Step.WITHDRAW, Withdraw(self._withdraw()))
                # Who is asked to go on with a session, and then to end it, may not have begun yet.
                yield msgspec.structs.replace(answer, session=envelope.session, plan=envelope.plan)
            case Event.HANDED:
                self._take_handed(body_of(envelope, Handed))
            case Event.PIECE:
                self._opened.add(body_of(envelope, Piece))
            case Event.OPENED:
                yield from self._open(body_of(envelope, Piece))
            case Event.END | Event.END_OPENED:
                self.server = versions_in(envelope)
                self._hear_end(body_of(envelope, End))

    def _may_differ(self, step: Step) -> bool:
        """Whether a message may bear another session's id than this party knows: by coins it gets one of its own."""
        before = self._account is not None and not self._account.identity
        return step is Step.WELCOME or not self._identity or (step is Step.END and before)

    def fault(self, error: BaseException) -> list[Envelope]:
        """This party cannot go on: its own people are told the error, and others a code."""
        if (self.state, Event.ERROR) not in PARTY:
            return []
        self._advance(Event.ERROR)
        if isinstance(error, ProofError):
            self._doubt(str(error))
        return [self._refuse(error)]

    def stop(self) -> list[Envelope]:
        """Somebody wants the session ended here."""
        live = (self.state, Event.ERROR) in PARTY and self.state is not PartyState.RELEASED
        self._advance(Event.STOP)
        return [self._refuse(StoppedError("this party was stopped"))] if live else []

    def lost(self) -> None:
        """The server is not heard any more."""
        live = not self.over
        self._advance(Event.LOST)
        if live:
            self.reason = self.reason or "the server was lost"
            if self._account is not None:
                self._account.note_end(None, self.handed_in)
            self._settle("the server was lost before a submission left")
            self._forget()

    # The way in.

    def _welcome(self, welcome: Welcome) -> Iterator[Envelope]:
        if len(welcome.session) != IDENTITY_BYTES or len(welcome.alignment) != SESSION_BYTES:
            raise MessageError(f"the server must name the session by ids of {IDENTITY_BYTES} bytes, got others")
        self._identity, self._alignment_id = welcome.session, welcome.alignment
        # Where it takes peers' signatures to void a session, a server's later word alone does not do it either.
        believed = {s: told for s, told in welcome.outcomes.items() if self._account is None or told == "opened"}
        self.task.settle(believed)
        self._begin_alignment(ALIGNMENT if self._account is None else COINS)
        self._show("read", 0.0)
        self._records = self.task.read()
        if self.task.aligned and self._records.ids is None:
            raise StudyError(f"party {self.name} has no ids to align by")
        with self._refusing():
            self.task.foresee(self._records.rows)
        if self._account is not None:
            own = (listed(self._records.ids), self.task.data_digest())
            self._account.begin(self._identity, self.name, self.task.parties, self._randomness, *own)
        elif not self.task.aligned:
            self._begin_session(b"")
        self._show("wait", 0.0)
        yield self._to_server(Step.READY, Ready())

    def _begin_alignment(self, stage: str = ALIGNMENT) -> None:
        self._traffic.begin(stage, self._signed_id, self._alignment_id, self.task.terms.encode())

    @property
    def _signed_id(self) -> bytes:
        """What is signed where nobody keeps evidence fits no session where all do, whatever id the server gives it."""
        return self._identity if self._account is not None else b"no evidence " + self._identity

    def _begin_session(self, common: bytes) -> None:
        # Who was served another alignment, or other terms, fits nobody's signature from here on.
        self._traffic.begin(SESSION, self._signed_id, self.task.terms.encode(), common)

    def _begin_derived(self, account: SessionAccount) -> None:
        """Coins are exchanged: from here on nothing is drawn that could not be drawn again by an auditor."""
        self._randomness, self._identity = account.source(), account.identity
        if self.task.aligned:
            self._begin_alignment()
        else:
            self._advance(Event.MATCHED)
            self._begin_session(b"")

    # Rounds of the alignment, then of the product.

    def _run_round(self, round: str) -> Iterator[Envelope]:
        self._traffic.require_all()
        exchange = self._exchange(round)
        self._show("align" if self.state is PartyState.ALIGNING else "products", self._progress())
        for parcel in exchange.send(round):
            body = encode_body(ParcelBody(round, parcel.payload))
            self._traffic.note_sent(parcel.recipient, Step.PARCEL, body)
            yield self._make(parcel.recipient, Step.PARCEL, body)
            self._count(len(body))
        yield from self._sign(self._traffic.sign_rounds())
        yield self._to_server(Step.DONE, Done(round))

    def _exchange(self, round: str) -> Exchange:
        """Whose round it is: that of coins or bindings, of the alignment, or of the product."""
        aligning = self.state is PartyState.ALIGNING
        if self._account is not None:
            if self._account.runs(round, aligning):
                return self._account
            if aligning:
                self._account.source()
            else:
                self._account.require_bound()
        return self._aligning() if aligning else self.task

    def _take_parcel(self, envelope: Envelope) -> None:
        parcel = body_of(envelope, ParcelBody)
        self._traffic.note_received(envelope.sender, Step.PARCEL, envelope.body)
        exchange = self._exchange(parcel.round)
        if self.state is not PartyState.ALIGNING:
            exchange.receive(parcel.round, envelope.sender, parcel.payload)
            self._count(len(envelope.body))
            return
        with self._refusing():
            exchange.receive(parcel.round, envelope.sender, parcel.payload)
        if isinstance(exchange, SessionAccount):
            if envelope.sender == SERVER:
                self._begin_derived(exchange)
        elif self._aligner is not None and self._aligner.complete:
            self._advance(Event.MATCHED)
            self._begin_session(self._aligner.common())

    def _take_signature(self, sender: str, signature: Signature) -> None:
        self._traffic.take(sender, signature)
        if self._account is not None:
            self._account.note_signature(sender, *self._traffic.stage, signature)

    def _aligning(self) -> AlignmentParty:
        if not self.task.aligned:
            raise ProtocolError(f"party {self.name} has nothing to align, and the server asks for an alignment")
        if self._aligner is None:
            from colonnade.crypto.alignment.party import AlignmentParty

            assert self._records is not None and self._records.ids is not None
            with self._refusing():
                self.task.note_matching(self._identity.hex())
            self._show("align", 0.0)
            self._aligner = AlignmentParty(
                self._alignment_id,
                self.task.parties,
                self.task.parties.index(self.name),
                self._records.ids,
                self._randomness.child("alignment").child(f"alignment {self.name}"),
                lambda done, total: self._show("align", done / max(1, total)),
                post_quantum=self.task.alignment == HYBRID,
                largest_list=self.task.largest_list,
            )
        return self._aligner

    # The session proper.

    def _join(self) -> Iterator[Envelope]:
        if self.task.aligned and self._aligner is None:
            raise ProtocolError(f"party {self.name} has not matched its ids, and the server asks it to join")
        if self._account is not None:
            self._account.source()
        self._show("plan", 0.0)
        self._rows = self.task.take(None if self._aligner is None else self._aligner.rows())
        self._records = self._aligner = None
        self._keys = MaskKeys(self._own().child("masks"))
        yield from self._sign(self._traffic.sign_key(self._keys.public))
        facts = {name: column_to(column) for name, column in self.task.columns.items()}
        yield self._to_server(Step.JOIN, Join(facts, self._rows, self._keys.public))

    def _own(self) -> Randomness:
        return self._randomness.child(self.task.label)

    def _consider(self, proposal: Proposal, announced: str) -> Envelope:
        """Believe no number that can be computed: compare the terms, compute the rest, then ask policy and ledger."""
        assert self._keys is not None
        self._show("plan", 0.0)
        self._traffic.require_keys(self.task.parties, proposal.mask_keys)
        index, accountable = self.task.parties.index(self.name), self._account is not None
        context = SessionContext(self._identity, index, announced, self._own(), accountable)
        with self._refusing_all(Code.PLAN):
            self.task.compare(proposal)
            agreed = self.task.kind.agreed
            if proposal.rows != self._rows:
                raise PolicyError(f"the {agreed} is for n={proposal.rows} records, this party aligned {self._rows}")
            keys = proposal.mask_keys
            if len(keys) != len(self.task.parties) or keys[context.index] != self._keys.public:
                raise PolicyError(
                    f"the {agreed} must list one mask key for each party, and the one that this party sent"
                )
            # A key that would hide nothing is refused now, and not when a submission is due.
            self._keys.mask(self._identity, context.index, keys, 0, MASK_BITS)
            digest = self.task.agree(proposal, context)
        with self._refusing_all():
            self.task.consent()
        self._digest, self._peers = digest, list(proposal.mask_keys)
        if self._account is not None:
            self._account.note("plan", {"digest": digest})
        self._opened = Assembly(self.task.largest_opened)
        self.task.prepare(context)
        if self._account is not None:
            self._account.bind(*self.task.bindings())
        self._moved, self._expected = 0.0, self.task.expected_bytes
        return self._to_server(Step.ACCEPT, Accept(digest))

    def _fix(self) -> Iterator[Envelope]:
        """Make the submission and sign to all what it is: it is fixed before anybody has seen another."""
        if self._account is None:
            raise ProtocolError(f"party {self.name} keeps no account, and the server asks for a digest")
        self._traffic.require_all()
        self._account.require_bound()
        self._show("submit", 0.0)
        self._submission = self.task.submit(self._mask)
        digest = self._account.digest(SUBMISSION, self._submission)
        yield from self._sign(self._traffic.sign_about(SUBMISSION, digest))

    def _await_digests(self) -> Iterator[Envelope]:
        """All peers have signed what they will hand in: nothing is handed in before."""
        account = self._account
        if account is None or self.state is not PartyState.FIXED or self._traffic.lacking(SUBMISSION):
            return
        sizes = self.task.added_up() if self._traffic.signs and account.live else None
        if sizes is None:
            account.keep_submission(None)
        else:
            told = {(SUBMISSION, self.name): account.digests[SUBMISSION], **self._traffic.told}
            digests = tuple(told[SUBMISSION, name] for name in self.task.parties)
            self._handed = Submissions(dict(zip(self.task.parties, digests, strict=True)), *sizes)
            offer, (stage, _, made_of) = (
                Resumable(self._identity, self._digest, self._rows, digests),
                self._traffic.stage,
            )
            account.keep_submission(Kept(offer, self._submission, stage, list(made_of)))
        self._advance(Event.DIGESTS)
        yield self._to_server(Step.DONE, Done(DIGESTS))

    def _resume(self, offer: Resumable) -> Iterator[Envelope]:
        """Hand in what was kept when the server died, the same bytes, under the same session's id."""
        if not self._submission:
            if self._account is None:
                raise ProtocolError(f"party {self.name} keeps no account, and the server goes on with a session")
            kept, parties = self._account.resume(offer, self.name, self.task.parties), self.task.parties
            self._identity, self._rows = offer.session, offer.rows
            with self._refusing_all(Code.PLAN):
                if self.task.resume(offer.session, offer.rows, self._randomness.seeded) != offer.plan:
                    raise StudyError("this version computes another plan than the session had: begin a new one")
                sizes = self.task.added_up()
            assert sizes is not None
            digests = dict(zip(parties, offer.digests, strict=True))
            told = {(SUBMISSION, name): digest for name, digest in digests.items() if name != self.name}
            self._traffic.restore(kept.stage, kept.made_of, told)
            self._digest, self._submission = offer.plan, kept.bodies
            self._handed, self._opened = Submissions(digests, *sizes), Assembly(self.task.largest_opened)
        yield from self._submit()

    def _submit(self) -> Iterator[Envelope]:
        """One masked message; asked again, the same bytes again. Alg. 1, lines 13-15."""
        self._traffic.require_all()
        self._show("submit", 0.5)
        if not self.handed_in:
            if self._account is None:
                self._submission = self.task.submit(self._mask)
            elif not self._account.digests.get(SUBMISSION):
                raise ProtocolError(f"not all parties have signed what they hand in, {self.name} does not go on")
            # The spend is booked, durably, before a byte leaves.
            self.task.book()
            if self._account is not None and not self._account.decide(HANDED_IN):
                raise ProtocolError(f"party {self.name} has withdrawn its submission, in another process")
            self.booking = self._becomes
        # The release may come, and all be forgotten, before the last piece has left the wire.
        bodies = self._submission
        for body in bodies:
            yield self._make(SERVER, Step.SUBMIT, body)
        if not bodies:
            yield self._to_server(Step.DONE, Done(SUBMIT))

    def _mask(self, length: int, modulus_bits: int) -> Words:
        assert self._keys is not None
        index = self.task.parties.index(self.name)
        return self._keys.mask(self._identity, index, self._peers, length, modulus_bits)

    def _take_handed(self, handed: Handed) -> None:
        """What each party handed in passes, so that this party can add it up for itself."""
        if self._handed is None or self._account is None:
            raise ProtocolError(f"party {self.name} adds nothing up, and the server shows it submissions")
        party = self._handed.add(handed)
        if party is not None:
            self._account.note("handed", {"from": party, "digest": self._handed.digest(party).hex()})

    def _open(self, piece: Piece) -> Iterator[Envelope]:
        self._show("open", 0.0)
        whole = self._opened.add(piece)
        assert whole is not None
        try:
            total = None if self._handed is None else self._handed.total()
            self.task.open(self._identity.hex(), whole, total)
        except ReleaseError as error:
            self._doubt(str(error))
            raise
        finally:
            # It was opened, whatever becomes of it here.
            self._settle()
            self._finish()
        self._show("open", 1.0)
        if self._account is not None and self.task.opens_alike:
            yield from self._sign(self._traffic.sign_about(OPENED, self._account.digest(OPENED, [whole])))
        yield self._to_server(Step.CONFIRM, Confirm())

    # How it ends.

    def _hear_end(self, end: End) -> None:
        self.end = end
        if self._account is not None:
            self._account.note_end(end, self.handed_in)
            if self._traffic.signs and not self.doubt:
                self._doubt(self._account.compare_opened(self.task.parties, self._traffic.told))
        known = end.party in self.task.parties
        if end.code is not None:
            self.reason = self.reason or sentence_of(end.code, end.party if known else "")
        if end.opened or not self._stands_in_spite_of(end):
            self._settle(self.reason, told=True)
        self._finish()

    def _stands_in_spite_of(self, end: End) -> bool:
        """Whether the server's word that nothing was opened is not enough to take a booking back."""
        if self._account is None or not self.handed_in or not (self._traffic.signs and self.task.kind.spends):
            return False
        peers = self._traffic.withdrawals(end.withdrawn)
        self.standing = self._account.standing(peers, self.task.collusion + 1)
        return bool(self.standing)

    def _doubt(self, sentence: str) -> None:
        self.doubt = sentence
        if sentence and self._account is not None:
            self._account.note("doubt", {"sentence": sentence})

    def _withdraw(self) -> tuple[tuple[str, bytes], ...]:
        """To each peer its signature that this party has not handed in and never will, where it has not."""
        if self._account is None or not self._digest or self.handed_in or not self._account.decide(WITHDRAWN):
            return ()
        return tuple((peer, signed.proof) for peer, signed in self._traffic.sign_about(WITHDRAWN, b""))

    def _refuse(self, error: BaseException) -> Envelope:
        self.reason = str(error) if isinstance(error, ColonnadeError) else f"{type(error).__name__}: {error}"
        self._settle(self.reason if isinstance(error, ColonnadeError) else type(error).__name__)
        self._forget()
        refuse = self._to_server(Step.REFUSE, Refuse(self._code or code_of(error), self.phase, self._withdraw()))
        if self._account is not None:
            self._account.keep_sent(refuse)
            self._account.finish()
        return refuse

    def _settle(self, reason: str = "", told: bool = False) -> None:
        """The books become what the table says; what has left is void once the server has `told` so."""
        becomes = self._becomes
        if self.booking in SETTLED or becomes not in SETTLED:
            return
        if becomes is Books.VOID and self.handed_in and not told:
            return
        self.booking = becomes
        if becomes is Books.VOID:
            self.task.void(reason)
        else:
            self.task.release()

    def _finish(self) -> None:
        """Nobody goes on with this session."""
        self._forget()
        if self._account is not None:
            self._account.finish()

    def _forget(self) -> None:
        self.task.forget()
        self._submission, self._handed = [], None
        self._aligner = None

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """A refusal of policy, ledger or person as one sentence that says whose it is."""
        try:
            yield
        except (PolicyError, LedgerError) as error:
            raise type(error)(f"{self.name} refuses: {error}") from None

    @contextmanager
    def _refusing_all(self, code: Code | None = None) -> Iterator[None]:
        """The same of any error while a proposal is considered."""
        try:
            yield
        except ColonnadeError as error:
            self._code = code or code_of(error)
            raise PolicyError(f"{self.name} refuses: {error}") from None

    # Small things.

    def _advance(self, event: Event) -> None:
        try:
            becomes = BOOKS.get((self.state, event), self.booking)
            self.state, self._becomes = PARTY[self.state, event], becomes
        except KeyError:
            raise BrokenError(f"party {self.name} is {self.state.value}, and {event.value} has no place") from None

    def _sign(self, signatures: Iterator[tuple[str, Signature]]) -> Iterator[Envelope]:
        for peer, signature in signatures:
            yield self._make(peer, Step.SIGNATURE, encode_body(signature))

    def _count(self, size: int) -> None:
        self._moved += size
        if self.phase == "products":
            self._show("products", self._progress())

    def _progress(self) -> float:
        return min(1.0, self._moved / self._expected) if self._expected else 0.0

    def _show(self, phase: str, share: float) -> None:
        self.phase, self.share = phase, share
        self._watch(phase, share)

    def _to_server(self, step: Step, body: Body) -> Envelope:
        return self._make(SERVER, step, encode_body(body))

    def _make(self, recipient: str, step: Step, body: bytes) -> Envelope:
        return Envelope(self._identity, self._digest, self.name, recipient, step, body)

    def __repr__(self) -> str:
        return f"PartyRole({self.name!r}, {self.state.value})"


def refusal(name: str, error: BaseException) -> Envelope:
    """What a party sends whose own files keep it from even beginning."""
    code = Code.SITE if isinstance(error, StudyError) else code_of(error)
    return Envelope(b"", "", name, SERVER, Step.REFUSE, encode_body(Refuse(code, "wait")))
