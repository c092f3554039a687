"""A party's job on NVIDIA FLARE: an executor that takes nothing from the server but the session's messages."""

from __future__ import annotations

import logging
from abc import abstractmethod
from pathlib import Path
from typing import Any

from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import Shareable, make_reply

from colonnade.data.table import Table
from colonnade.flare.readiness import clipping, try_releases
from colonnade.flare.server_job import FRAME, TASK, TOPIC
from colonnade.flare.signing import CertificateSigner
from colonnade.flare.site import NOT_PRIVATE, PARTY, STATUS, read_site
from colonnade.flare.standing import Standing, watched
from colonnade.flare.status import StatusFile
from colonnade.foundation.errors import ColonnadeError, SiteError, StudyError
from colonnade.foundation.files import keep_release
from colonnade.mechanism.release import write_release
from colonnade.transport.member import Member
from colonnade.transport.seat import Call, decline
from colonnade.transport.wire import Patience, Unreachable

log = logging.getLogger(__name__)


def answer_seconds(folder: Path) -> float:
    """How long one request may take; a folder that cannot be read is complained of later."""
    try:
        return read_site(folder).patience.silence
    except ColonnadeError:
        return Patience().silence


class SiteJob(Executor):  # type: ignore[misc]
    """Whatever a site takes part in comes from its own folder; exceptions stay here."""

    task, what = TASK, "a release"

    def execute(self, task_name: str, shareable: Any, fl_ctx: Any, abort_signal: Any) -> Any:
        engine = fl_ctx.get_engine()
        folder = Path(engine.get_workspace().get_root_dir())
        board = StatusFile(folder / STATUS, str(fl_ctx.get_job_id()), what=self.what)
        standing = Standing(folder)
        seconds = answer_seconds(folder)

        def call(data: bytes) -> bytes:
            standing.require()
            request = Shareable()
            request[FRAME] = data
            with engine.new_context() as context:
                replies = engine.send_aux_request(
                    targets=None, topic=TOPIC, request=request, timeout=seconds, fl_ctx=context
                )
            reply = next(iter(replies.values()), None) if replies else None
            if reply is None or reply.get_return_code() != ReturnCode.OK or FRAME not in reply:
                raise Unreachable
            return bytes(reply[FRAME])

        if task_name != self.task:
            return make_reply(ReturnCode.TASK_UNKNOWN)
        try:
            self._take_part(folder, board, call, standing)
        except ColonnadeError as error:
            log.error("the session ended: %s", error)
            board.end(standing.closing(str(error), board))
        except Exception as error:
            log.exception("the session failed")
            board.end(standing.closing(f"unexpected {type(error).__name__}, see {board.job}/log.txt", board))
        # Others are told a code by the session itself, and never by the engine.
        return make_reply(ReturnCode.OK)

    @abstractmethod
    def _take_part(self, folder: Path, board: StatusFile, call: Call, standing: Standing) -> None:
        """The site's session, to its end."""


class PartyJob(SiteJob):
    """Data, policy, ledger and study of one session."""

    def _take_part(self, folder: Path, board: StatusFile, call: Call, standing: Standing) -> None:
        try:
            site = read_site(folder, PARTY)
            kept, randomness = site.guard()
            guard = watched(kept, standing, board)
            try_releases(site)
            voucher = CertificateSigner(folder, site.party)
        except Exception as error:
            decline(call, error)
            raise
        board.seeded = randomness.seeded
        if randomness.seeded:
            log.warning(NOT_PRIVATE)
        study, told = site.study, [""]

        def read() -> Table:
            table = site.table()
            told[0] = clipping(table)
            return table

        member = Member(
            site.party,
            study.agreement,
            study.alignment,
            read,
            call,
            randomness,
            guard,
            site.patience,
            board,
            voucher=voucher,
            # A simulation has no ledger to keep; the policy's rules hold all the same.
            policy=site.policy(),
        )
        release = member.run()
        board.session = str(release.provenance["session"])
        place = site.releases / f"{release.provenance['session'][:16]}.json"
        try:
            place = keep_release(place, write_release(release))
        except StudyError as error:
            raise SiteError(
                f"the release was opened and could not be kept here: {error}; the session counts as spent, and the "
                "server and the other parties have the release"
            ) from None
        board.end("; ".join(["the release was opened", *filter(None, told)]), True, place)
