"""The tree of errors. Each message is one sentence that names the thing, the rule and the value.

ColonnadeError
├ SchemaError       a declared public fact is wrong
├ StudyError        a study file or an argument is wrong
│ └ MistakesError   several things are wrong in one study file, each on a line of the message
├ DataError         a party's file does not fit its schema
│ ├ NoDataError     it is not there, or cannot be read
│ └ MissingError    a column without a fill lacks values
├ SiteError         an organisation's own files and places are not as a session needs them
├ PrivacyError      a promise cannot be made as asked
├ PolicyError       a party does not agree
│ ├ ConsentError    no person approved
│ └ SignatureError  what came in a party's name does not bear its signature
│   └ LapsedError   it does, by a certificate that did not count at that time
├ LedgerError       a budget is spent, or its book is damaged
├ ProtocolError     a peer's fault: a message came at the wrong time or from the wrong session
│ └ MessageError    a message is malformed
│   └ ProofError    a partner has not proved that its words are made of numbers within their bounds
├ ProductError      a secure product cannot be formed
├ AlignmentError    ids cannot be matched
├ StoppedError      a person stopped a session
├ BrokenError       what a promise rests on does not hold inside the program: a defect of it, never of a value
│ └ BrokenColumns   coded records are not as every sensitivity assumes
└ ReleaseError      a release file is damaged or lacks what was asked of it
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

KeyPath = tuple[str | int, ...]
"""Keys from the top; a number is a place in a list of tables."""


class ColonnadeError(Exception):
    """Anything this package refuses; the text is fit to be shown to a user."""

    path: KeyPath = ()
    """The key that it is about, in the table whose reader raised it."""

    party: str = ""
    """Whose records it is about, where it is about one party's: the text then begins with it."""

    advice: str = ""
    """What the party may write, at the end of the sentence."""

    def __str__(self) -> str:
        return f"party {self.party}: {self.told}" if self.party else self.told

    @property
    def what(self) -> str:
        """The sentence without the party and without advice."""
        return super().__str__()

    @property
    def told(self) -> str:
        """The sentence without the party, whose section it names as [party.NAME."""
        text = f"{self.what}; {self.advice}" if self.advice else self.what
        return text.replace("[party.NAME.", f"[party.{self.party}.") if self.party else text

    def of(self, party: str) -> Self:
        """The same refusal, of this party's records."""
        self.party = party
        return self

    def advise(self, advice: str) -> Self:
        """The same refusal, with what may be written."""
        self.advice = advice
        return self

    def at(self, *path: str | int) -> Self:
        """The same refusal, of a key of this name or of one below it."""
        self.path = (*path, *self.path)
        return self


class SchemaError(ColonnadeError):
    """A declared public fact is wrong."""


class StudyError(ColonnadeError):
    """A study file or an argument is wrong."""


class MistakesError(StudyError):
    """Several things are wrong in one study file; the message counts them, and has a line for each."""

    def __init__(self, told: str, lines: Sequence[str] = (), paths: Sequence[KeyPath] = ()) -> None:
        super().__init__("\n".join([told, *lines]))
        self.lines, self.paths = tuple(lines), tuple(paths)


class DataError(ColonnadeError):
    """A party's file does not fit its schema."""


class NoDataError(DataError):
    """A party's file is not there, or cannot be read."""


class MissingError(DataError):
    """A column lacks values, and its declaration does not say what stands for them."""


class SiteError(ColonnadeError):
    """An organisation's own files and places are not as a session needs them."""


class PrivacyError(ColonnadeError):
    """A promise cannot be made as asked."""


class PolicyError(ColonnadeError):
    """A party does not agree to a plan."""


class ConsentError(PolicyError):
    """A plan that a person must approve was approved by nobody."""


class SignatureError(PolicyError):
    """What came in a party's name does not bear that party's signature."""


class LapsedError(SignatureError):
    """A signature is a party's own, by a certificate that did not count at that time."""


class LedgerError(ColonnadeError):
    """A budget is spent, or its book is damaged."""


class ProtocolError(ColonnadeError):
    """A message came at the wrong time or from the wrong session."""


class MessageError(ProtocolError):
    """A message is malformed."""


class ProofError(MessageError):
    """A partner has not proved, or not checked, by the rules that words are made of numbers within their bounds."""


class ProductError(ColonnadeError):
    """A secure product cannot be formed."""


class AlignmentError(ColonnadeError):
    """Ids cannot be matched."""


class StoppedError(ColonnadeError):
    """A person stopped a session."""


class BrokenError(ColonnadeError):
    """What a promise rests on does not hold, which only a defect of the program brings about; no data decides it."""

    def __init__(self, told: str) -> None:
        super().__init__(f"{told}: this is a defect of the program, not of the data; please report it")


class BrokenColumns(BrokenError):
    """Coded records, or sums of them, are not as every sensitivity assumes."""


class ReleaseError(ColonnadeError):
    """A release file is damaged or lacks what was asked of it."""
