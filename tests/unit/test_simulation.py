"""What is for tests and teaching has one module, says so in release, page and text, and its old spellings warn."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import colonnade as cn
from colonnade import simulation
from colonnade.foundation.errors import StudyError

ROWS = 120


def study(**terms: object) -> cn.Study:
    draw = np.random.default_rng(3)
    x, z = draw.uniform(-1, 1, ROWS), draw.uniform(-1, 1, ROWS)
    y = np.where(x + z + draw.normal(size=ROWS) / 2 > 0, "yes", "no")
    parties = {
        "a": cn.Party(pl.DataFrame({"x": x, "y": y}), {"x": cn.Numeric(-1, 1, [0.0]), "y": cn.Binary(["no", "yes"])}),
        "b": cn.Party(pl.DataFrame({"z": z}), {"z": cn.Numeric(-1, 1)}),
    }
    return cn.Study("y", parties, **{"epsilon": 5.0, **terms})  # type: ignore[arg-type]


def quiet(what: object) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        what()  # type: ignore[operator]
    return [str(one.message) for one in found if one.category is FutureWarning]


@pytest.mark.filterwarnings("ignore")
def test_old_spellings_give_the_same_and_warn() -> None:
    found: dict[str, str] = {}

    def old() -> None:
        found["old"] = study().fit(seed=7, progress=False).digest

    def new() -> None:
        found["new"] = simulation.fit(study(), 7, progress=False).digest

    def clear() -> None:
        found["clear"] = simulation.fit(simulation.in_the_clear(study()), 7, progress=False).digest

    def plain() -> None:
        found["plain"] = simulation.fit(study(product="plain"), 7, progress=False).digest

    told = quiet(old)
    assert len(told) == 1 and "colonnade.simulation.fit" in told[0]
    assert not quiet(new) and not quiet(clear)
    assert "colonnade.simulation.in_the_clear" in quiet(plain)[0]
    assert found["old"] == found["new"] != found["clear"] == found["plain"]


@pytest.mark.filterwarnings("ignore")
def test_other_old_spellings_warn(tmp_path: Path) -> None:
    release = simulation.fit(study(), 7, progress=False)
    release.solve().save(tmp_path / "m.json")
    assert "called read" in quiet(lambda: cn.Model.load(tmp_path / "m.json"))[0]
    rows: list[pl.DataFrame] = []
    assert "called force" in quiet(lambda: rows.append(release.synthesize(9, anyway=True).frame))[0]
    assert not quiet(lambda: rows.append(release.synthesize(9, force=True).frame))
    assert rows[0].equals(rows[1])


@pytest.mark.filterwarnings("ignore")
def test_a_seed_is_a_number_bytes_or_a_text_of_either() -> None:
    drawn = {seed: simulation.seeded(seed).bytes(16) for seed in (7, "7", b"7", "01", b"\x01", 1, "0a", b"\n", "12")}
    assert drawn[7] == drawn["7"] == drawn[b"7"]
    # What is hexadecimal has always been so on the command line.
    assert drawn["01"] == drawn[b"\x01"] != drawn[1] and drawn["0a"] == drawn[b"\n"]
    assert drawn["12"] == simulation.seeded(b"\x12").bytes(16)
    for wrong in ("", "x", b"", True, 1.5, "-3"):
        with pytest.raises(StudyError, match="a seed is a whole number or hexadecimal digits"):
            simulation.seeded(wrong)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: simulation.fit(study(), "01", progress=False), "came from a seed"),
        (lambda: simulation.in_the_clear(study()).fit(progress=False), "columns in the clear"),
        (lambda: study(epsilon=1e5).fit(progress=False), "epsilon=100000 hides nobody"),
    ],
    ids=["seed", "plain", "huge epsilon"],
)
def test_what_is_simulated_says_so_in_release_page_and_text(made: object, says: str, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    release = made()  # type: ignore[operator]
    release.save(tmp_path / "r.json")
    release = cn.Release.read(tmp_path / "r.json")
    release.report(tmp_path / "page.html")
    assert any(says in flaw for flaw in release.flaws)
    for text in (repr(release), repr(release.summary()), repr(release.tables()), (tmp_path / "page.html").read_text()):
        assert says in " ".join(text.split())
    assert any(says in note for note in release.synthesize(5, force=True).notes)


@pytest.mark.filterwarnings("ignore")
def test_a_plan_warns_of_what_hides_nobody() -> None:
    assert any("hides nobody" in note for note in study(epsilon=701.0).plan(rows=500).warnings)
    assert not any("hides nobody" in note for note in study(epsilon=200.0).plan(rows=500).warnings)
    assert any("in the clear" in note for note in simulation.in_the_clear(study()).plan(rows=500).warnings)
