"""Products of three owners and more in the clear: the same stages and shares, for simulation and tests only."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from colonnade.crypto.chains.last import LastStep
from colonnade.crypto.chains.stages import Meeting, Shares, check_chains, column_words, meetings, prefixes, stages
from colonnade.crypto.frames import HEADER, check_round, pack, unpack
from colonnade.crypto.product import ChainParty, ChainSpec, Columns, Integers, Parcel, Words
from colonnade.foundation.errors import MessageError, ProductError, ProtocolError
from colonnade.foundation.randomness import Randomness

SEAL, MULTIPLY = "chain seal", "chain multiply"


class PlainChain(ChainParty):
    """One party's side: a holder shows its share to the next owner, who multiplies and gives a new share back."""

    @staticmethod
    def rounds(spec: ChainSpec) -> tuple[str, ...]:
        told = (f"chain {what} {stage}" for stage in range(1, stages(spec) + 1) for what in ("show", "share"))
        return (*told, SEAL, MULTIPLY)

    @staticmethod
    def planned_bytes(spec: ChainSpec, me: int) -> int:
        total, last = 0, LastStep(spec)
        for stage in range(1, stages(spec) + 1):
            for meeting in meetings(spec, stage):
                shown, given = len(_shown(meeting)), meeting.words
                total += (HEADER.size + 8 * spec.rows * shown) * (meeting.holder == me)
                total += (HEADER.size + 8 * spec.rows * given) * (meeting.owner == me)
        for (holder, owner), keys in _last_meetings(spec, last).items():
            total += (HEADER.size + 8 * spec.rows * len(keys)) * (holder == me)
            total += (HEADER.size + 8 * spec.values) * (owner == me)
        return total

    def __init__(self, spec: ChainSpec, me: int, columns: Columns, noise: Integers, randomness: Randomness) -> None:
        check_chains(spec, me, columns, noise)
        self._spec, self._me, self._columns, self._name = spec, me, columns, spec.parties[me]
        self._randomness, self._rounds = randomness, self.rounds(spec)
        self._vector: Words = np.array(noise, dtype=np.int64).view(np.uint64)
        self._last_step = LastStep(spec)
        self._last = _last_meetings(spec, self._last_step)
        self._stages = [[m for m in meetings(spec, s) if me in (m.holder, m.owner)] for s in range(1, stages(spec) + 1)]
        self._shares: Shares = {}
        self._back: list[tuple[int, Words]] = []
        self._counts: dict[tuple[str, int], int] = {}
        self._sent: list[str] = []
        self._done = False
        for number, chain in enumerate(spec.chains):
            if chain.owners[0] == me:
                found = column_words(columns, [p[0] for p in prefixes(chain, 1)], spec.bound, self._name)
                self._shares |= {(number, (place,)): words for place, words in found.items()}

    def send(self, round: str) -> Iterator[Parcel]:
        check_round(self._rounds, round)
        if self._done or round in self._sent or round != self._rounds[len(self._sent)]:
            raise ProtocolError(f"party {self._name} answers each round once and in order, got round {round}")
        if self._sent:
            self._require_all(self._sent[-1])
        self._sent.append(round)
        return self._parcels(round)

    def _parcels(self, round: str) -> Iterator[Parcel]:
        numbers: dict[int, int] = {}
        for recipient, words in self._bodies(round):
            name, number = self._spec.parties[recipient], numbers.get(recipient, 0)
            numbers[recipient] = number + 1
            yield Parcel(name, pack(self._spec, round, self._name, name, number, words.astype("<u8").tobytes()))

    def _bodies(self, round: str) -> Iterator[tuple[int, Words]]:
        if round == SEAL:
            for (holder, owner), keys in self._last.items():
                if holder == self._me:
                    yield owner, self._last_step.words(self._me, self._shares)[:, keys].T.ravel()
        elif round == MULTIPLY or " share " in round:
            yield from self._back
            self._back = []
        else:
            for meeting in self._stages[int(round.split()[2]) - 1]:
                if meeting.holder == self._me:
                    yield meeting.owner, np.concatenate([self._shares[meeting.chain, p] for p in _shown(meeting)])

    def _due(self, round: str, peer: int) -> list[int]:
        """The sizes, in words, of all parcels of a round from a peer."""
        if round in (SEAL, MULTIPLY):
            pair = (peer, self._me) if round == SEAL else (self._me, peer)
            size = self._spec.rows * len(self._last.get(pair, ())) if round == SEAL else self._spec.values
            return [size] if pair in self._last else []
        what, stage = round.split()[1:]
        found = [m for m in self._stages[int(stage) - 1] if peer == (m.holder if what == "show" else m.owner)]
        return [self._spec.rows * (len(_shown(m)) if what == "show" else m.words) for m in found]

    def _require_all(self, round: str) -> None:
        for peer, name in enumerate(self._spec.parties):
            due = len(self._due(round, peer)) if peer != self._me else 0
            if self._counts.get((round, peer), 0) < due:
                raise ProductError(f"party {self._name} needs {due} parcels of round {round} from {name}, got fewer")

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        check_round(self._rounds, round)
        peer = self._spec.parties.index(sender) if sender in self._spec.parties else -1
        due = self._due(round, peer) if peer >= 0 else []
        number = self._counts.get((round, peer), 0)
        if self._done or number >= len(due):
            raise MessageError(f"party {self._name} expects no parcel of round {round} from {sender!r}")
        body = unpack(self._spec, round, sender, self._name, number, payload)
        if len(body) != 8 * due[number]:
            raise MessageError(f"a parcel of round {round} must have {due[number]} words, got {len(body)} bytes")
        self._counts[round, peer] = number + 1
        self._take(round, peer, number, np.frombuffer(body, "<u8").astype(np.uint64))

    def _take(self, round: str, peer: int, number: int, words: Words) -> None:
        if round == MULTIPLY:
            self._vector += words
        elif round == SEAL:
            self._multiply(peer, words.reshape(-1, self._spec.rows))
        else:
            what, stage = round.split()[1:]
            mine = self._stages[int(stage) - 1]
            meeting = [m for m in mine if peer == (m.holder if what == "show" else m.owner)][number]
            if what == "show":
                self._answer(meeting, words.reshape(-1, self._spec.rows))
            else:
                for key, share in zip(_made(meeting), words.reshape(-1, self._spec.rows), strict=True):
                    self._shares[key] = share

    def _answer(self, meeting: Meeting, shown: Words) -> None:
        """Shares of the products: random words are kept, and the holder gets the rest."""
        own = column_words(self._columns, [c for c, _ in meeting.wanted], self._spec.bound, self._name)
        places = {prefix: i for i, prefix in enumerate(_shown(meeting))}
        given = []
        for column, found in meeting.wanted:
            for prefix in found:
                kept = self._randomness.words(self._spec.rows)
                given.append(shown[places[prefix]] * own[column] - kept)
                key = meeting.chain, (*prefix, column)
                self._shares[key] = self._shares.get(key, np.zeros_like(kept)) + kept
        self._back.append((meeting.holder, np.concatenate(given)))

    def _multiply(self, holder: int, words: Words) -> None:
        """Sums of the last products, split anew."""
        sums = np.zeros(self._spec.values, np.uint64)
        keys = {self._last_step.held[holder][k]: row for row, k in enumerate(self._last[holder, self._me])}
        value = 0
        for number, chain in enumerate(self._spec.chains):
            mine = chain.owners[-1] == self._me and holder in chain.holders
            own = (
                column_words(self._columns, sorted({t[-1] for t in chain.terms}), self._spec.bound, self._name)
                if mine
                else {}
            )
            for term in chain.terms:
                if mine:
                    sums[value] = (words[keys[number, term[:-1]]] * own[term[-1]]).sum(dtype=np.uint64)
                value += 1
        kept = self._randomness.words(self._spec.values)
        self._vector += kept
        self._back.append((holder, sums - kept))

    def contribute(self) -> Words:
        if self._done or len(self._sent) < len(self._rounds):
            raise ProductError(f"party {self._name} contributes once, after its rounds {', '.join(self._rounds)}")
        self._require_all(MULTIPLY)
        vector = self._vector.copy() & np.uint64((1 << self._spec.modulus_bits) - 1)
        self.wipe()
        return vector

    def wipe(self) -> None:
        self._done = True
        self._vector.fill(0)
        for share in self._shares.values():
            share.fill(0)


def _shown(meeting: Meeting) -> list[tuple[int, ...]]:
    """The holder's prefixes, each once."""
    return list(dict.fromkeys(prefix for _, found in meeting.wanted for prefix in found))


def _made(meeting: Meeting) -> list[tuple[int, tuple[int, ...]]]:
    return [(meeting.chain, (*prefix, column)) for column, found in meeting.wanted for prefix in found]


def _last_meetings(spec: ChainSpec, last: LastStep) -> dict[tuple[int, int], list[int]]:
    """Who shows which of its shares to which last owner."""
    out: dict[tuple[int, int], list[int]] = {}
    for holder, held in enumerate(last.held):
        for place, (number, _) in enumerate(held):
            out.setdefault((holder, spec.chains[number].owners[-1]), []).append(place)
    return out
