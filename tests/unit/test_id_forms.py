"""Ids that organisations write differently: matched in a declared form as another program joins them, or refused."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import colonnade as cn
from colonnade.data.ids import IdColumns, in_form
from colonnade.data.sources import FileSource, Source
from colonnade.foundation.errors import ColonnadeError, DataError, StudyError
from colonnade.foundation.matching import FORMS, IdTerms
from colonnade.foundation.schema import Numeric
from colonnade.planning.agreement import Agreement
from colonnade.sites.site import read_site
from colonnade.study import read_study
from tests.helpers.cli_study import Run, runner

PEOPLE = 300
STUDY = """[study]
name = "ids"
task = "linear"
label = "a.y"
epsilon = 50.0
product = "plain"
{form}
[party.a]
data = "a.csv"
id = {one}
[party.a.columns]
y = {{ kind = "numeric", low = 0, high = 1 }}
[party.b]
data = "b.csv"
id = {two}
[party.b.columns]
x = {{ kind = "numeric", low = 0, high = 1 }}
"""


def by_hand(text: str, form: tuple[str, ...]) -> str:
    """The form of an id, by Python's own functions on one text."""
    if "strip" in form:
        text = text.strip()
    if "unaccent" in form:
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
        text = text.replace("ß", "ss").replace("Ł", "L").replace("ł", "l")
    if "case" in form:
        text = text.lower()
    if "dates" in form and text[2:3] + text[5:6] == ".." and len(text) == 10:
        text = f"{text[6:]}-{text[3:5]}-{text[:2]}"
    if "digits" in form:
        text = "".join(c for c in text if c in "0123456789")
    if "zeros" in form and text:
        text = text.lstrip("0") or "0"
    return text


def written(draw: np.random.Generator, core: str) -> str:
    """One id as somebody may write it."""
    text = core.zfill(int(draw.integers(3, 9))) if draw.random() < 0.4 else core
    if draw.random() < 0.5:
        text = f"{'Łążü'[int(draw.integers(0, 4))]}-{text}"
    if draw.random() < 0.2:
        text = "03.07.1990"
    text = text.upper() if draw.random() < 0.3 else text
    return f" {text}" if draw.random() < 0.2 else f"{text} " if draw.random() < 0.2 else text


def write(folder: Path, one: list[str], two: list[str], form: str = "") -> Path:
    for name, column, ids in (("a", "y", one), ("b", "x", two)):
        pl.DataFrame({"id": ids, column: np.linspace(0, 1, len(ids))}).write_csv(folder / f"{name}.csv")
    path = folder / "study.toml"
    path.write_text(STUDY.format(form=form, one='"id"', two='"id"'), encoding="utf-8")
    return path


@pytest.mark.parametrize("seed", range(20))
def test_ids_in_a_form_match_as_another_program_joins_them(seed: int, tmp_path: Path) -> None:
    draw = np.random.default_rng([52, seed])
    form = tuple(name for name in FORMS if draw.random() < 0.5)
    lists: list[list[str]] = []
    for _ in range(2):
        # No two of a party's become one: that is refused, which another test shows.
        found = {by_hand(text, form): text for text in (written(draw, str(k)) for k in range(PEOPLE))}
        found.pop("", None)
        lists.append([found[key] for key in draw.permutation(sorted(found))])
    one, two = (pl.DataFrame({"key": [by_hand(text, form) for text in own]}) for own in lists)
    common = one.join(two, on="key").height
    listed = ", ".join(f'"{name}"' for name in draw.permutation(list(form)))
    study = cn.Study.read(write(tmp_path, *lists, f"id_form = [{listed}]"))
    assert common > 1 and study.fit(seed=1).released.n == common


def test_the_order_of_the_list_and_its_absence_say_nothing(tmp_path: Path) -> None:
    ids = [f"p{k}" for k in range(9)]
    plain = read_study(write(tmp_path, ids, ids)).agreement
    assert "ids" not in plain.to() and Agreement.of(plain.to()) == plain
    empty = read_study(write(tmp_path, ids, ids, "id_form = []")).agreement
    assert empty.to() == plain.to()
    one, two = (
        read_study(write(tmp_path, ids, ids, f"id_form = {f}")).agreement
        for f in ('["zeros", "strip"]', '["strip", "zeros"]')
    )
    assert one.to() == two.to() and one.to()["ids"] == {"form": ["strip", "zeros"]} and Agreement.of(one.to()) == one


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capfd)


HOSPITAL = [f"{k:07d}" for k in range(1, 400)]
INSURER = [f"{k}" + (" " if k % 20 == 0 else "") for k in range(100, 500)]


def test_ids_that_match_in_another_form_are_refused_and_nothing_is_spent(run: Run, tmp_path: Path) -> None:
    """16% of a hospital's people were lost without a word."""
    path = write(tmp_path, HOSPITAL, INSURER)
    out = ("--out", tmp_path / "r.json")
    refused = run("fit", path, *out)
    says = "ids are written differently at a, b: 0 match as they are, 285 with zeros, 300 with strip and zeros; write "
    says += 'id_form = ["strip", "zeros"]'
    assert refused.code == 1 and says in refused.err and not (tmp_path / "r.json").exists()
    with pytest.raises(
        DataError, match=r"0 match as they are, 285 with zeros, 300 with strip and zeros; write id_form"
    ):
        cn.Study.read(path).fit(seed=1)
    write(tmp_path, HOSPITAL, INSURER, 'id_form = ["zeros"]')
    # A form that is stated is not doubted; what it leaves unmatched is for `check` to say.
    assert run("fit", path, *out, "--json").json["n"] == 285
    write(tmp_path, HOSPITAL, INSURER, 'id_form = ["zeros", "strip"]')
    assert run("fit", path, *out, "--json", "--force").json["n"] == 300
    # Some match as they are, and more in a form: meant, or refused.
    write(tmp_path, [*HOSPITAL, "150"], INSURER, "id_form = []")
    assert "at least 2 common records, got n=1" in run("fit", path, *out, "--force").err
    write(tmp_path, HOSPITAL[150:], INSURER)
    assert "0 match as they are, 237 with zeros, 249 with strip and zeros" in run("fit", path, *out, "--force").err


def test_numbers_that_a_program_made_floats_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, [f"{k:04d}" for k in range(50)], [f"{k}.0" for k in range(50)])
    found = cn.Study.read(path).check()
    fault = next(f for f in found.findings if f.fault)
    assert (
        fault.write == 'id_form = ["zeros"]; ids as whole numbers, 123 and not 123.0'
        and "50 with point and" in fault.told
    )
    with pytest.raises(DataError, match="50 with point and zeros"):
        cn.Study.read(path).fit(seed=1)
    # Of 12.0 the digits are 12: 120 is another person's.
    path = write(tmp_path, ["12", "120", "7"], ["12.0", "7.00", "9"], 'id_form = ["digits"]')
    assert cn.Study.read(path).fit(seed=1).released.n == 2


def test_each_part_of_an_id_is_compared_in_other_forms(tmp_path: Path) -> None:
    """Of two columns the second has zeros at one party: some people match as they are, and all in a form."""
    path = write(tmp_path, ["1"], ["1"])
    text = path.read_text(encoding="utf-8").replace('id = "id"', 'id = ["ward", "id"]')
    path.write_text(text, encoding="utf-8")
    wards = ["Nord", "Süd:2"]
    for name, column, ids in (
        ("a", "y", [(wards[k % 2], f"{k:03d}") for k in range(300)]),
        ("b", "x", [(wards[k % 2].upper() if k % 3 == 0 else wards[k % 2], str(k)) for k in range(300)]),
    ):
        ward, number = zip(*ids, strict=True)
        pl.DataFrame({"ward": ward, "id": number, column: np.linspace(0, 1, 300)}).write_csv(tmp_path / f"{name}.csv")
    # By hand: 200 numbers have three digits, 66 of these another ward; of all 300 wards 200 are the same.
    says = r"134 match as they are, 200 with case, 200 with zeros, 300 with case and zeros; write id_form = ..case"
    with pytest.raises(DataError, match=says):
        cn.Study.read(path).fit(seed=1)
    path.write_text(text.replace("\n\n", '\nid_form = ["case", "zeros"]\n', 1), encoding="utf-8")
    assert cn.Study.read(path).fit(seed=1).released.n == 300


def test_a_form_that_makes_two_people_one_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, ["7", "007", "8", "9", "10"], ["7", "8", "9", "10", "11"], 'id_form = ["zeros"]')
    with pytest.raises(DataError, match=r"party a: id_form makes 1 pair of ids of id the same, in rows 1 and 2"):
        cn.Study.read(path).fit(seed=1)
    # Such a form is not proposed either.
    path = write(tmp_path, ["7", "007", "8", "9", "10"], ["07", "8", "9", "10", "11"])
    assert cn.Study.read(path).fit(seed=1).released.n == 3


def test_ids_of_several_columns_are_told_apart(tmp_path: Path) -> None:
    """("a", "bc") and ("ab", "c") are two people, also where a part holds a mark of another's length."""
    parts = [
        ("a", "bc"),
        ("ab", "c"),
        ("1:a", "1"),
        ("1", "1:a"),
        ("", "x"),
        ("x", None),
        ("a", "1:b"),
        ("a1:", "b"),
        ("ł", "9"),
    ]
    frame = pl.DataFrame(parts, schema=["p", "q"], orient="row")
    texts, _ = IdColumns(("p", "q")).texts(frame)
    assert texts.null_count() == 2 and texts.drop_nulls().n_unique() == len(parts) - 2
    clinics = ["north", "south"]
    one = pl.DataFrame(
        [(c, k, 0.5) for c in clinics for k in range(50)], schema=["clinic", "number", "y"], orient="row"
    )
    two = pl.DataFrame(
        [(f"{k:03d}", c.upper(), 0.5) for c in clinics for k in range(30, 80)],
        schema=["nr", "klinik", "x"],
        orient="row",
    )
    one.write_csv(tmp_path / "a.csv")
    two.write_csv(tmp_path / "b.csv")
    text = STUDY.format(form='id_form = ["case", "zeros"]', one='["clinic", "number"]', two='["klinik", "nr"]')
    (tmp_path / "study.toml").write_text(text)
    study = cn.Study.read(tmp_path / "study.toml")
    assert study.study.agreement.to()["ids"] == {"form": ["case", "zeros"], "parts": 2}
    fitted = study.fit(seed=1)
    assert fitted.released.n == 40
    scores = study.predict(fitted.solve(), "a")
    assert scores.columns == ["clinic+number", "score"] and scores.height == 40
    parties = {"a": cn.Party(one, {"y": Numeric(0, 1)}, id=["clinic", "number"]),
               "b": cn.Party(two, {"x": Numeric(0, 1)}, id=["klinik", "nr"])}  # fmt: skip
    made = cn.Study("a.y", parties, epsilon=50.0, product="plain", id_form=["case", "zeros"])
    assert made.fit(seed=1).released.n == 40


@pytest.mark.parametrize(
    ("form", "one", "says"),
    [
        ('id_form = ["zero"]', '"id"', r"study.toml:7: id_form lists each of strip, unaccent, .* got 'zero'"),
        ('id_form = ["zeros", "zeros"]', '"id"', "at most once, got 'zeros'"),
        ('id_form = "zeros"', '"id"', "id_form must be a list of texts"),
        ("", '["id", "y"]', "the same number of columns at all parties, got a 2, b 1"),
        ("", '["id", "id"]', r"\[party.a\] id must list different columns"),
        ("", "[]", r"\[party.a\] id must list different columns"),
    ],
)
def test_wrong_declarations_are_one_sentence(form: str, one: str, says: str, tmp_path: Path) -> None:
    path = write(tmp_path, ["1", "2", "3"], ["1", "2", "3"])
    path.write_text(STUDY.format(form=form, one=one, two='"id"'))
    with pytest.raises(ColonnadeError, match=says):
        read_study(path)
    with pytest.raises(StudyError, match="1 to 8 columns"):
        IdTerms(parts=9)


HOSTILE = [
    "",
    " ",
    "\u00a0",
    "0",
    "000",
    "١٢",
    "a\u0301",
    "á",
    "ǅ",
    "İ",
    "\u200b1",
    "1.0",
    "1e3",
    "-5",
    "💡",
    "x" * 5000,
]


@pytest.mark.parametrize("form", [(), *[(name,) for name in FORMS], FORMS])
def test_hostile_ids_become_texts_or_none(form: tuple[str, ...]) -> None:
    found = in_form(pl.Series(HOSTILE), form).to_list()
    for text, made in zip(HOSTILE, found, strict=True):
        assert made is None or (isinstance(made, str) and made)
        if made is None:
            assert by_hand(text, form) == "" or "digits" in form
    again = in_form(pl.Series(found, dtype=pl.String), form).to_list()
    assert again == found, "a form of a form is itself"


def test_across_machines_a_party_hears_of_its_own_ids_alone(tmp_path: Path) -> None:
    path = write(tmp_path, HOSPITAL, INSURER, 'id_form = ["zeros"]')
    (tmp_path / "site.toml").write_text('[site]\nrole = "party"\nparty = "b"\ndata = "b.csv"\nid = "id"\n')
    site = read_site(tmp_path)
    table = site.table()
    assert "20 ids have spaces around them" in table.notes() and list(table.ids or ())[:2] == ["100 ", "101"]
    (tmp_path / "site.toml").write_text('[site]\nrole = "party"\nparty = "b"\ndata = "b.csv"\nid = ["id", "x"]\n')
    with pytest.raises(StudyError, match=r"id must name 1 columns, as the study does, got 2"):
        read_site(tmp_path).source  # noqa: B018 - it is read
    own = replace(read_study(path).sources["b"], data=FileSource(tmp_path / "a.csv"))
    assert own.read("b", {"y": Numeric(0, 1)}).notes()[-1] == "399 ids have leading zeros"
    assert Source(FileSource(tmp_path / "a.csv")).read("b", {"y": Numeric(0, 1)}).notes() == []
