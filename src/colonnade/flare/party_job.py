"""A party's job on NVIDIA FLARE: an executor that takes nothing from the server but the session's messages."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import Shareable, make_reply

from colonnade.consent.guard import ConsentGuard, PolicyGuard
from colonnade.flare.process import ParentWatch
from colonnade.flare.signing import CertificateSigner
from colonnade.flare.status import FRAME, TOPIC, Spend, StatusFile, job_name
from colonnade.foundation.errors import ColonnadeError, LedgerError
from colonnade.mechanism.composition import charge_of
from colonnade.planning.session_plan import SessionPlan
from colonnade.protocol.account import SessionAccount
from colonnade.protocol.codes import code_of
from colonnade.protocol.party import PartyRole, refusal
from colonnade.sites.recipes import Recipe, open_evidence
from colonnade.sites.site import NOT_PRIVATE, PARTY, STATUS, read_site
from colonnade.transport.client import Call, Client, send_refusal
from colonnade.transport.wire import Timeouts, Unreachable

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class WatchedGuard(ConsentGuard):
    """Books for a party whose site still runs."""

    parent: ParentWatch
    status: StatusFile

    def consent(self, session: SessionPlan) -> None:
        self.status.session = session.identity.hex()
        super().consent(session)

    def book(self, session: SessionPlan) -> None:
        self.parent.require()
        super().book(session)
        self.parent.booked = True
        charge = charge_of(session.plan, self.party)
        self.status.note(Spend("booked", charge.epsilon, charge.delta, self.spent().epsilon, self.policy.cap.epsilon))

    def release(self) -> None:
        super().release()
        self._show()

    def void(self, reason: str) -> None:
        super().void(reason)
        self._show()

    def _show(self) -> None:
        """What the book itself says: it may be that it could not be written to."""
        with suppress(LedgerError):
            mine = (self.status.session, self.party)
            kinds = [e.kind for e in self.ledger.entries() if (e.booking.session, e.booking.party) == mine]
            if kinds:
                self.status.settle(kinds[-1].value)


def watched(guard: ConsentGuard | PolicyGuard, parent: ParentWatch, status: StatusFile) -> ConsentGuard | PolicyGuard:
    """The same guard, watched; a simulation books nothing that could be shown."""
    if not isinstance(guard, ConsentGuard):
        return guard
    known = {f.name: getattr(guard, f.name) for f in fields(guard) if f.init}
    return WatchedGuard(**known, parent=parent, status=status)


def answer_seconds(folder: Path) -> float:
    """How long one request may take; a folder that cannot be read is complained of later."""
    try:
        return read_site(folder).patience.silence
    except ColonnadeError:
        return Timeouts().silence


class PartyJob(Executor):  # type: ignore[misc]
    """Whatever a site takes part in comes from its own folder; exceptions stay here."""

    @property
    @abstractmethod
    def recipe(self) -> type[Recipe]:
        """What this site does in a session of the kind."""

    def execute(self, task_name: str, shareable: Any, fl_ctx: Any, abort_signal: Any) -> Any:
        engine = fl_ctx.get_engine()
        folder = Path(engine.get_workspace().get_root_dir())
        status = StatusFile(folder / STATUS, str(fl_ctx.get_job_id()), self.recipe.kind)
        parent = ParentWatch(folder)
        seconds = answer_seconds(folder)

        def call(data: bytes) -> bytes:
            parent.require()
            status.bytes["sent"] += len(data)
            request = Shareable()
            request[FRAME] = data
            with engine.new_context() as context:
                replies = engine.send_aux_request(
                    targets=None, topic=TOPIC, request=request, timeout=seconds, fl_ctx=context
                )
            reply = next(iter(replies.values()), None) if replies else None
            if reply is None or reply.get_return_code() != ReturnCode.OK or FRAME not in reply:
                raise Unreachable
            status.bytes["received"] += len(reply[FRAME])
            return bytes(reply[FRAME])

        if task_name != self.recipe.task:
            return make_reply(ReturnCode.TASK_UNKNOWN)
        name = job_name(Path(engine.get_workspace().get_job_meta_path(status.job)))
        self.take_part(folder, str(fl_ctx.get_identity_name()), status, call, parent, name)
        # Others are told a code by the session itself, and never by the engine.
        return make_reply(ReturnCode.OK)

    def take_part(
        self, folder: Path, name: str, status: StatusFile, call: Call, parent: ParentWatch, job: str = ""
    ) -> None:
        """The site's session, to its end; the status file has the last word on it."""
        closing = f"; {self.recipe.kind.unspent}"
        client: Client | None = None
        try:
            with ExitStack() as opened:
                try:
                    site = self.recipe.open_site(folder, job, PARTY)
                    recipe = self.recipe(site)
                    own, randomness = site.guard()
                    guard = watched(recipe.prepare(own), parent, status)
                    signer = CertificateSigner(folder, site.party, read_site(folder).signing_agent)
                    workers = opened.enter_context(site.open_workers())
                    task = recipe.party_task(guard, workers)
                    # What a simulation draws anybody can draw again: there is nothing to commit to.
                    account = None if randomness.seeded else SessionAccount(open_evidence(site, task, time.time()))
                except Exception as error:
                    send_refusal(call, refusal(name, error))
                    raise
                status.seeded = randomness.seeded
                if randomness.seeded:
                    log.warning(NOT_PRIVATE)

                def watch(phase: str, share: float) -> None:
                    status.session = role.identity.hex()
                    status(phase, share)

                role = PartyRole(task, randomness, signer, watch, account)
                client = Client(role, call, site.patience)
                client.run()
        except Exception as error:
            closing = closing if client is None else client.closing
            ended = None if client is None else client.role.end
            code = code_of(error) if ended is None or ended.code is None else ended.code
            if isinstance(error, ColonnadeError):
                log.error("the session ended: %s", error)
                status.end(f"{error}{closing}", code=code.value)
            else:
                log.exception("the session failed")
                status.end(f"unexpected {type(error).__name__}, see {status.job}/log.txt{closing}", code=code.value)
            return
        status.end("; ".join(filter(None, (recipe.sentence(), role.doubt))), True, recipe.file)
