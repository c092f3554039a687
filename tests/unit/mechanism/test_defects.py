"""Which releases of 0.1.0 a defect touches, and the epsilon that holds in spite of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from colonnade import simulation
from colonnade.data.table import table_from
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Schema
from colonnade.mechanism.defects import defects_of
from colonnade.mechanism.objective import Task
from colonnade.mechanism.release import ReleaseRecord, write_release
from colonnade.planning.agreement import Agreement
from colonnade.report.html import release_page

NUMBER = {"kind": "numeric", "low": -1, "high": 1}
ROWS = 30


def released(
    version: str = "0.1.0", release: str = "trace", norm: float | None = None, derived: bool = False, **terms: Any
) -> ReleaseRecord:
    columns: dict[str, Any] = {f"x{j}": NUMBER for j in range(8)}
    if derived:
        columns["z"] = {"kind": "derived", "of": "x0 + x1", "low": -2, "high": 2}
    schema = Schema.of({"a": {"y": NUMBER}, "b": columns}, {} if norm is None else {"b": norm})
    agreement = Agreement.from_terms("touched", schema, "a.y", Task.LINEAR, 1.0, release=release, **terms)
    rng = np.random.default_rng(7)
    tables = {
        party: table_from(
            party, pl.DataFrame({c: rng.uniform(-1, 1, ROWS) for c in names if c != "z"}), schema.parties[party]
        )
        for party, names in schema.parties.items()
    }
    found = simulation.run_unguarded(agreement, tables, "none", Randomness(b"defects")).release
    return replace(found, provenance={**found.provenance, "colonnade": version})


def test_only_traces_and_derived_columns_of_0_1_0_are_touched() -> None:
    assert defects_of(released("0.2.0.dev1", norm=1.0, derived=True)) == []
    assert defects_of(released(release="full")) == []
    assert [d.name for d in defects_of(released())] == ["traces"]
    (normed,) = defects_of(released(norm=1.0))
    assert normed.name == "norms" and normed.bound is not None and normed.bound > normed.stated
    found = defects_of(released(release="full", derived=True))
    assert [(d.name, d.bound) for d in found] == [("derived", None)] and "no epsilon holds" in found[0].sentence
    # The part of the other party is not touched by what is wrong with this one's columns.
    assert defects_of(released(derived=True, norm=1.0), "a") == []


def test_a_page_works_out_nothing_from_an_epsilon_that_does_not_hold() -> None:
    old, new = (replace(r, provenance={**r.provenance, "seeded": False}) for r in (released(), released("0.2.0.dev1")))
    assert "Take Ann" in release_page(new)
    page = release_page(old)
    assert "Take Ann" not in page and "The stated epsilon does not hold:" in page


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_bound_counts_the_roundings_that_the_plan_left_out(delta: float) -> None:
    release = released(delta=delta)
    (defect,) = defects_of(release, "b")
    (block,) = [b for b in release.blocks if b.summed and b.owners == ("b",)]
    # Eight columns round eight times, a quarter for each and one rounding were counted: 8 - 3 steps of 1/unit.
    steps = 5 / block.unit
    if delta == 0:
        assert defect.bound == pytest.approx(defect.stated + steps / (block.std[0] / np.sqrt(2)), rel=1e-9)
    assert defect.bound is not None and defect.stated < defect.bound < 1.05 * defect.stated
    assert f"epsilon {defect.bound:.6g} holds" in defect.sentence


def test_the_studio_says_it_of_a_release_that_is_touched(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    from colonnade.studio.pages import Studio
    from colonnade.studio.workspace import Workspace

    for name, version in (("old", "0.1.0"), ("new", "0.2.0.dev1")):
        own = released(version)
        honest = replace(own, provenance={**own.provenance, "seeded": False, "simulation": False})
        (tmp_path / f"{name}.json").write_bytes(write_release(honest))
    studio = Studio(Workspace(tmp_path), "t")
    listed = bytes(studio._releases(None, {}).body).decode()  # type: ignore[arg-type]
    (defect,) = defects_of(released())
    assert listed.count("<td>holds</td>") == 1 and listed.count(defect.sentence) == 1
    for name, told in (("old", 1), ("new", 0)):
        asked = SimpleNamespace(path_params={"name": f"{name}.json"}, query_params={})
        assert bytes(studio._model(asked, {}).body).decode().count(defect.sentence) == told  # type: ignore[arg-type]
