"""Options together: a result or a sentence, one digest for one study, and a form that keeps every key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from jinja2 import ChoiceLoader, DictLoader, FileSystemLoader

import colonnade as cn
from colonnade.crypto.backends import BACKENDS
from colonnade.foundation.canonical import canonical_json
from colonnade.foundation.errors import ColonnadeError, StudyError
from colonnade.foundation.schema import KINDS
from colonnade.planning.query import ASKED
from colonnade.report.html import environment
from colonnade.studio.form import from_fields, to_form, to_toml
from colonnade.studio.pages import HERE
from colonnade.study import study_from
from drills.combinations import FIXED, draw, search
from tests.helpers.cli_study import Run, runner

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capfd)


@pytest.mark.parametrize(("studies", "seed"), [(10, 0), (10, 1000)])
def test_random_combinations_end_in_results_or_sentences(studies: int, seed: int) -> None:
    """Twenty of what `python -m drills combinations` draws; the fixed ones, which ended in tracebacks, among them."""
    out = search(studies, seed, quick=True)
    assert out["found"] == {} and out["accepted"] == studies


def test_levels_in_interactions_are_refused_as_in_the_paper_before_anything_is_spent(tmp_path: Path, run: Run) -> None:
    content, _ = draw(-4)
    assert content["study"]["calibration"] == "paper" and FIXED[3]["interactions"] == [["a.c", "b.u"]]
    with pytest.raises(StudyError, match=r"takes interactions of numbers alone, got c, which has levels"):
        study_from(content, tmp_path)
    (tmp_path / "study.toml").write_text(to_toml(content))
    told = run("plan", tmp_path / "study.toml")
    assert told.code == 1 and "takes interactions of numbers alone" in told.err


def test_a_number_in_the_place_of_its_bins_is_refused_with_traces_before_anything_is_spent(
    tmp_path: Path, run: Run
) -> None:
    """A trace has no counts, so that no bin's mean is known; `solve` said so when the release was made."""
    content, _ = draw(279)
    terms, columns = content["study"], content["party"]["b"]["columns"]
    assert terms["release"] == "trace" and columns["b2"]["model"] == "number"
    says = 'column b2 has bins and model = "number", which needs counts of the bins, and release = "trace" has none'
    with pytest.raises(StudyError, match=says):
        study_from(content, tmp_path).session(400)
    (tmp_path / "study.toml").write_text(to_toml(content))
    told = run("plan", tmp_path / "study.toml")
    assert told.code == 1 and says in " ".join(told.err.split())
    # The paper's calibration has none either, and took the bins in silence.
    del terms["release"]
    study_from(content, tmp_path).session(400)
    terms["calibration"] = "paper"
    with pytest.raises(StudyError, match='calibration = "paper" has none'):
        study_from(content, tmp_path).session(400)
    del columns["b2"]["model"]
    study_from(content, tmp_path).session(400)


# One digest: rows in the file, --rows, Python's rows, rehearsals and the studio.


def test_rows_in_the_file_and_by_a_flag_are_one_study(tmp_path: Path, run: Run) -> None:
    text = (ROOT / "tests" / "studies" / "income" / "study.toml").read_text()
    stated = text.replace("epsilon = 1.0", "epsilon = 1.0\nrows = 14146")
    bare, with_rows = tmp_path / "bare.toml", tmp_path / "rows.toml"
    bare.write_text(text)
    with_rows.write_text(stated)
    digests = {
        run("plan", bare, "--rows", 14146, "--json").json["terms_digest"],
        run("plan", with_rows, "--json").json["terms_digest"],
        cn.Study.read(bare).plan(rows=14146).digest,
        cn.Study.read(with_rows).plan().digest,
    }
    assert len(digests) == 1
    # Who approves a digest is told which runs have it: the demo's bins depend on rows.
    known = run("plan", bare, "--rows", 14146, "--html", tmp_path / "plan.html", "--json").json["terms_digest_note"]
    assert "exactly 14,146 records" in known and "rows = 14146 in [study]" in known
    assert known in " ".join(run("plan", bare, "--rows", 14146, "--full").out.split())
    assert known in (tmp_path / "plan.html").read_text()
    assert known == cn.Study.read(bare).plan(rows=14146).to_dict()["terms_digest_note"]
    assert "assumed" in run("plan", bare, "--json").json["terms_digest_note"]
    flagged, filed = cn.Study.read(bare).plan(rows=14146), cn.Study.read(with_rows).plan()
    assert flagged.session.agreement == filed.session.agreement
    assert flagged.to_dict() == filed.to_dict() and len(flagged.session.plan.layout.features) == 72


def test_a_fit_with_rows_runs_the_plan_that_was_shown(tmp_path: Path, run: Run) -> None:
    parties: dict[str, Any] = {"a": {"data": "a.csv", "columns": {"m": {"kind": "numeric", "low": 0, "high": 100000}}}}
    parties["a"]["columns"]["y"] = {"kind": "boolean"}
    content = {"study": {"name": "s", "task": "logistic", "label": "y", "epsilon": 100.0}, "party": parties}
    frame = "m,y\n" + "".join(f"{1000 * (k % 90)},{k % 3 == 0}\n" for k in range(400))
    (tmp_path / "a.csv").write_text(frame)
    file = tmp_path / "study.toml"
    file.write_text(to_toml(content))
    shown = run("plan", file, "--rows", 400, "--json").json
    ran = run("fit", file, "--rows", 400, "--out", tmp_path / "r.json", "--model", tmp_path / "m.json", "--json")
    assert ran.code == 0, ran.err
    release = cn.Release.read(tmp_path / "r.json")
    assert release.released.provenance["agreement"]["schema"]["a"]["m"]["bins"]
    assert cn.Study.read(file).plan(rows=400).digest == shown["terms_digest"]
    stated = tmp_path / "stated.toml"
    stated.write_text(to_toml({**content, "study": {**content["study"], "rows": 400}}))
    foretold = [run("rehearse", file, "--records", 400, "--json"), run("rehearse", stated, "--json")]
    assert foretold[0].code == 0 and foretold[0].json == foretold[1].json
    own = cn.Study.read(file).fit(seed=1, rows=400, progress=False)
    assert own.released.provenance["agreement"] == release.released.provenance["agreement"]
    assert "bins" not in cn.Study.read(file).fit(seed=1).released.provenance["agreement"]["schema"]["a"]["m"]


# The studio's form.


class Fields(HTMLParser):
    """What a browser sends of a form that nobody touched."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self.area: str | None = None
        self.choice: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        a = dict(attrs)
        if tag == "input" and a.get("name") and (a.get("type") not in ("checkbox", "radio") or "checked" in a):
            self.found[str(a["name"])] = a.get("value") or ""
        elif tag == "textarea":
            self.area = str(a["name"])
            self.found[self.area] = ""
        elif tag == "select":
            self.choice = a.get("name")
        elif tag == "option" and self.choice and ("selected" in a or self.choice not in self.found):
            self.found[self.choice] = a.get("value") or ""

    def handle_data(self, data: str) -> None:
        if self.area:
            # A browser drops the first line break of an area and sends the others as two characters.
            self.found[self.area] += data.replace("\n", "\r\n")

    def handle_endtag(self, tag: str) -> None:
        self.area = None if tag == "textarea" else self.area
        self.choice = None if tag == "select" else self.choice


LOADER = ChoiceLoader(
    [DictLoader({"panel.html": "", "frame.html": "{% block content %}{% endblock %}"}), FileSystemLoader(HERE)]
)
PAGE = environment().overlay(loader=LOADER).get_template("study.html")


def fields_of(content: dict[str, Any]) -> dict[str, str]:
    """What a browser sends of the page's form of a study."""
    form = Fields()
    known = {"kinds": list(KINDS), "releases": list(ASKED), "backends": BACKENDS, "base": "", "faults": {}}
    form.feed(PAGE.render(form=to_form(content), studies=[], data=[], opened="", **known))
    return form.found


def sent_back(content: dict[str, Any]) -> dict[str, Any]:
    """The study that comes back from a form that nobody touched."""
    return tomllib.loads(to_toml(from_fields(fields_of(content))))


def same_study(content: dict[str, Any]) -> bool:
    """Whether the form keeps a study: the same sentence, or the same agreement, alignment, rows and sources."""

    def told(found: dict[str, Any]) -> object:
        try:
            study = study_from(found, ROOT)
        except ColonnadeError as error:
            return str(error)
        return canonical_json(study.agreement.to()), study.alignment, study.rows, study.sources

    return told(content) == told(sent_back(content))


def test_the_form_keeps_who_may_audit() -> None:
    content, _ = draw(0)
    content["audit"] = {"auditors": ["ab" * 32]}
    assert same_study(content) and sent_back(content)["audit"] == content["audit"]


def studies_of_the_repository() -> Iterator[dict[str, Any]]:
    texts = [path.read_text() for path in ROOT.glob("*demo*/**/*.toml")]
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        texts += re.findall(r"```toml\n(.*?)```", page.read_text(), re.S)
    for text in texts:
        try:
            content = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            continue
        if "study" in content and "party" in content:
            yield content


def test_the_form_keeps_every_study_of_the_repository() -> None:
    found = list(studies_of_the_repository())
    assert found and all(same_study(content) for content in found)


def test_the_form_keeps_random_studies() -> None:
    for seed in range(200):
        content, _ = draw(seed)
        kept = sent_back(content)
        assert kept["study"] == content["study"] and kept["party"] == content["party"], seed


def test_the_form_keeps_what_it_has_no_field_for() -> None:
    text = """
[study]
name = "s"
task = "logistic"
label = "a.y"
epsilon = 1.0
post_quantum = true
numeric = "declared"
[party.a]
dataset = "people"
[party.a.columns]
y = { kind = "boolean" }
b = { kind = "boolean", fill = true }
d = { kind = "date", earliest = "2020-01-01", latest = "2024-01-01", bins = ["2021-01-01"] }
x = { kind = "numeric", low = 0.1234567, high = 12345678.9, bins = [10, 20], model = "number", fill = 11 }
n = { kind = "numeric", low = 1, high = 9, integer = true }
z = { kind = "categorical", levels = ["1", "2", "03", " blank"], drop = "03", fill = "03" }
" spaced " = { kind = "binary", levels = ["a", "b "] }
[party.a.derived]
x2 = "x^2"
"""
    content = tomllib.loads(text)
    assert sent_back(content) == content


def test_what_is_edited_in_the_form_changes() -> None:
    content, _ = draw(-1)
    edited = fields_of(content) | {
        "study.epsilon": "2.5",
        "study.release": "full",
        "p0.c1.high": "12",
        "p0.c0.drop": "",
    }
    back = from_fields(edited | {"p0.c0.kind": "categorical", "p1.c0.kind": "binary", "p1.c0.levels": "no\nyes"})
    assert back["study"] == content["study"] | {"epsilon": 2.5, "release": "full"}
    assert back["party"]["a"]["columns"]["x"] == {"kind": "numeric", "low": 0, "high": 12}
    assert "drop" not in back["party"]["a"]["columns"]["c"]
    assert back["party"]["b"]["columns"]["u"] == {"kind": "binary", "levels": ["no", "yes"]}
