"""A prediction's jobs on NVIDIA FLARE, at the server and at a party; they have no arguments and ship no code."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from colonnade.data.table import Table
from colonnade.flare.party_job import SiteJob
from colonnade.flare.prediction_request import read_prediction_request
from colonnade.flare.readiness import try_folder
from colonnade.flare.server_job import HallJob, JobAccount
from colonnade.flare.signing import CertificateSigner
from colonnade.flare.site import NOT_PRIVATE, PARTY, SCORES, Site, read_site
from colonnade.flare.standing import Standing
from colonnade.flare.status import StatusFile
from colonnade.foundation.errors import SiteError, StudyError
from colonnade.foundation.files import places
from colonnade.foundation.randomness import Randomness
from colonnade.transport.journal import Journal
from colonnade.transport.score_hub import ScoreHub
from colonnade.transport.score_member import ScoreMember
from colonnade.transport.scores import Opened
from colonnade.transport.seat import Call, decline

TASK, WHAT = "prediction", "scores"
log = logging.getLogger(__name__)


def file_of(session: str) -> str:
    """Where the receiver's scores lie in its folder."""
    return f"{SCORES}/{session[:16]}.csv"


class ScoreServerJob(HallJob):
    """One prediction, as the server's own folder states it; it hands on a masked sum and sees no score."""

    task, what = TASK, WHAT
    _hall: ScoreHub

    def _open(self, site: Site, randomness: Randomness, name: str) -> ScoreHub:
        asked = read_prediction_request(site)
        if name != asked.job:
            raise StudyError(
                "the coordinator's model, receiver of scores, columns or alignment is not the server's; "
                "no part of a score was made"
            )
        journal = Journal(site.journal)
        return ScoreHub(asked.prediction, site.study.alignment, randomness, journal, site.patience, self._board)

    def _conduct(self, stop: Callable[[], bool]) -> JobAccount:
        handed = self._hall.run(stop)
        traffic = {"sent": handed.sent, "received": handed.received}
        if not handed.kept:
            return JobAccount(handed.sentence, False, traffic)
        place = file_of(handed.session)
        facts = {"session": handed.session, "receiver": handed.receiver, "rows": handed.rows, "scores": place}
        facts["seeded"] = self._board.seeded
        return JobAccount(f"{handed.sentence}: they are at {handed.receiver}, in {place}", True, traffic, facts)


class ScorePartyJob(SiteJob):
    """Model, records, policy and receiver of one prediction."""

    task, what = TASK, WHAT

    def _take_part(self, folder: Path, board: StatusFile, call: Call, standing: Standing) -> None:
        try:
            site = read_site(folder, PARTY)
            asked = read_prediction_request(site)
            guarding, randomness = site.guard()
            guard = asked.guard(guarding)
            if site.party == asked.prediction.receiver:
                # Exact scores of people: for this organisation's eyes alone.
                try_folder(site.scores, f"the folder {SCORES}", 0o700)
            voucher = CertificateSigner(folder, site.party)
        except Exception as error:
            decline(call, error)
            raise
        board.seeded = randomness.seeded
        if randomness.seeded:
            log.warning(NOT_PRIVATE)
        kept: list[Path] = []

        def keep(session: str, table: Table, opened: Opened) -> None:
            board.session = session
            place = site.folder / file_of(session)
            try:
                with places(place) as (file,):
                    file.write(asked.csv(table, opened))
            except StudyError as error:
                raise SiteError(f"the scores were opened and could not be kept here: {error}") from None
            kept.append(place)

        def note(session: str) -> None:
            if guard is not None:
                guard.align(session, f"{asked.public.study} scores", asked.prediction.parties)

        member = ScoreMember(
            site.party,
            asked.prediction,
            site.study.alignment,
            asked.table,
            asked.part,
            call,
            randomness,
            asked.consent(guard),
            keep,
            site.patience,
            board,
            voucher=voucher,
            judge=lambda: asked.judge(guard),
            matching=note,
            largest_list=site.policy().largest_list,
        )
        rows = member.run()
        if kept:
            board.end(f"{rows:,} scores were opened, and lie in {SCORES}/{kept[0].name}", True, kept[0])
        else:
            board.end(f"the parts of {rows:,} scores were handed in for {asked.prediction.receiver}", True)
