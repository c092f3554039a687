"""Seeded sessions over a wire give what one process gave when the goldens were written: release and scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from colonnade.analysis.solve import solve
from colonnade.mechanism.objective import Task
from colonnade.model import publish
from tests.goldens.test_goldens import CASES, DIGESTS, SEED, Case, digest_of, same_scores, scores_of, write_study
from tests.helpers.wires import run
from tests.network.test_predictions import run as run_prediction


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.parties > 1 and c.product == "lattice"], ids=lambda case: case.name
)
def test_a_seeded_run_over_a_wire_gives_what_one_process_gave(case: Case, tmp_path: Path) -> None:
    known = json.loads(DIGESTS.read_text())[case.name]
    study = write_study(tmp_path, case)
    out = run(study, tmp_path, SEED)
    names = study.agreement.schema.names
    assert set(out.releases) == set(names) and out.release is not None, out.errors
    assert {digest_of(release) for release in (out.release, *out.releases.values())} == {known["release"]}
    public = publish(out.release, solve(out.release.moments(), Task.LINEAR))
    scored = run_prediction(study, tmp_path, public, SEED, to=names[-1])
    assert scored.well and list(scored.kept) == [names[-1]], scored.errors
    assert same_scores(scores_of(scored.kept[names[-1]]), known["scores"])
