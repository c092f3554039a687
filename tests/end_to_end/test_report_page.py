"""The page of a plan and of a release: what it says, that it needs nothing, and that a browser and axe-core like it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.browser import browser, keep, new_page, violations
from tests.helpers.cli_study import Run, runner, write_study

VIEWS = ("outsider", "server", "party", "coalition")
WIDTHS = (390, 768, 1280, 1680)
POLICY = """[policy]
party = "bank"
partners = ["works"]
[session]
epsilon = 50.0
[total]
epsilon = 90.0
"""


class Tags(HTMLParser):
    """Every tag with its attributes, and the text in between."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study that was run, and its two pages."""
    folder = tmp_path_factory.mktemp("page")
    write_study(folder)
    return folder


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capfd)


def pages(folder: Path, run: Run) -> tuple[Path, Path]:
    plan, release = folder / "plan.html", folder / "report.html"
    if not release.exists():
        assert run("plan", folder / "study.toml", "--rows", 230, "--html", plan).code == 0
        assert run("fit", folder / "study.toml", "--out", folder / "release.json").code == 0
        assert run("report", folder / "release.json", "--html", release).code == 0
    return plan, release


def test_pages_need_nothing(made: Path, run: Run) -> None:
    for page in pages(made, run):
        text = page.read_text(encoding="utf-8")
        assert len(text.encode()) < 2_000_000
        tags = Tags(text)
        assert not [t for t, _ in tags.tags if t in ("script", "iframe", "object", "embed", "img")]
        for _, attributes in tags.tags:
            assert not [name for name in attributes if name.startswith("on")], "no inline handlers"
            for name in ("href", "src", "action"):
                target = attributes.get(name)
                assert target is None or target.startswith(("#", "data:,")), target
        assert "url(" not in text and "@import" not in text


def test_numbers_are_those_of_the_machine(made: Path, run: Run) -> None:
    plan, release = pages(made, run)
    told = run("plan", made / "study.toml", "--rows", 230, "--json").json
    opened = run("report", made / "release.json", "--json").json
    for page, content in ((plan, told), (release, opened)):
        for view in VIEWS:
            by_party = {name: content["parties"][name]["epsilon"][view] for name in ("works", "bank")}
            assert values(page, view) == {**by_party, "a whole record": content["record"][view]}


def values(page: Path, kind: str) -> dict[str, float]:
    """The exact numbers behind what a page shows, by what they are of."""
    tags = Tags(page.read_text(encoding="utf-8")).tags
    return {str(a[f"data-{kind}"]): float(str(a["data-value"])) for _, a in tags if f"data-{kind}" in a}


def all_values(page: Path, kind: str) -> list[str]:
    tags = Tags(page.read_text(encoding="utf-8")).tags
    return [str(a["data-value"]) for _, a in tags if f"data-{kind}" in a]


def test_coefficients_are_those_of_the_machine(made: Path, run: Run) -> None:
    release = pages(made, run)[1]
    told = run("report", made / "release.json", "--json").json
    assert values(release, "encoded") == {**told["coefficients"], "intercept": told["intercept"]}
    # A reduced model's columns have names of their own.
    ratios = {i["feature"] for i in told["conf_int"] if i["reliable"]}
    assert ratios
    every = [i["estimate"] for i in (*told["params"], *told["conf_int"]) if i["estimate"] is not None]
    assert set(every) <= {float(v) for v in all_values(release, "estimate")}


def test_the_sheet_names_organisations_and_what_they_spent(run: Run, tmp_path: Path) -> None:
    write_study(tmp_path, people=60)
    study = (tmp_path / "study.toml").read_text()
    study = study.replace('name = "pay"', 'name = "pay"\nreason = "To see <b>who</b> earns what."')
    kept = 'organisation = "Savings & Co"\ncontact = "officer@bank.example"\npolicy = "p.toml"\nledger = "bank.ledger"'
    study = study.replace("[party.bank]", f"[party.bank]\n{kept}")
    (tmp_path / "study.toml").write_text(study)
    (tmp_path / "p.toml").write_text(POLICY)
    for name in ("one", "two"):
        assert run("fit", tmp_path / "study.toml", "--out", tmp_path / f"{name}.json").code == 0
    page, ledger = tmp_path / "two.html", tmp_path / "bank.ledger"
    told = run("report", tmp_path / "two.json", "--html", page, "--ledger", ledger, "--json").json
    plan = run("plan", tmp_path / "study.toml", "--html", tmp_path / "plan.html", "--rows", 54, "--json").json
    booked = run("ledger", "show", ledger, "--json").json["accounts"][0]
    spent = told["spending"]["bank"]
    assert spent["after"] == booked["spent"]["epsilon"] and spent["cap"] == booked["cap"]["epsilon"] == 90.0
    assert 0 < spent["before"] < spent["after"] and spent["sessions"] == 2 and spent["time"]
    assert values(page, "before") == {"bank": spent["before"]} and values(page, "after") == {"bank": spent["after"]}
    assert plan["spending"]["bank"]["before"] == spent["after"], "what is spent now is there before the next run"
    assert values(tmp_path / "plan.html", "after") == {"bank": plan["spending"]["bank"]["after"]}
    tags = Tags(page.read_text(encoding="utf-8"))
    text = " ".join(tags.text.split())
    for said in ("To see <b>who</b> earns what.", "Savings & Co", "officer@bank.example", "Within budget."):
        assert said in text
    assert text.count("Name and role, for") == 2, "a line to sign on for each organisation"
    assert "Name and role, for Savings & Co" in text and not [t for t, _ in tags.tags if t == "b"]
    refused = run("report", tmp_path / "two.json", "--ledger", tmp_path / "no.ledger")
    assert refused.code == 1 and "there is no ledger" in refused.err


def test_a_plan_over_the_cap_says_so(run: Run, tmp_path: Path) -> None:
    write_study(tmp_path, people=60)
    study = (tmp_path / "study.toml").read_text()
    (tmp_path / "study.toml").write_text(
        study.replace("[party.bank]", '[party.bank]\npolicy = "p.toml"\nledger = "bank.ledger"')
    )
    (tmp_path / "p.toml").write_text(POLICY.replace("90.0", "5.0").replace("50.0", "5.0"))
    assert run("plan", tmp_path / "study.toml", "--html", tmp_path / "p.html", "--rows", 54).code == 0
    assert "Over the cap." in Tags((tmp_path / "p.html").read_text(encoding="utf-8")).text


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ('reason = "a\\nb"', "reason must be a text of at most 4096 characters, all of them visible"),
        ("reason = 3", "reason must be a non-empty text"),
        (f'reason = "{"x" * 1001}"', "a study's reason must be a text of at most 1000 characters"),
    ],
)
def test_a_reason_that_nobody_can_read_is_refused(run: Run, tmp_path: Path, wrong: str, said: str) -> None:
    write_study(tmp_path, people=60)
    study = (tmp_path / "study.toml").read_text().replace('name = "pay"', f'name = "pay"\n{wrong}')
    (tmp_path / "study.toml").write_text(study)
    refused = run("plan", tmp_path / "study.toml", "--rows", 60)
    assert refused.code == 1 and said in refused.err, refused.err


def test_release_page_says_what_it_must(made: Path, run: Run) -> None:
    content = run("report", made / "release.json", "--json").json if pages(made, run) else {}
    text = " ".join(Tags(pages(made, run)[1].read_text(encoding="utf-8")).text.split())
    for digest in (content["digest"], content["provenance"]["transcript_digest"], content["provenance"]["plan_digest"]):
        assert digest in text
    for word in ("works", "bank", "hours", "savings", "0 to 1000", "clerk, smith, baker", "95% interval"):
        assert word in text
    headings = ("What was computed", "each view learned", "Epsilon per party", "how much noise", "The model")
    for heading in (*headings, "Privacy against utility", "What this does not protect", "Evidence", "Signature"):
        assert heading in text


def test_missing_guarantee_is_no_number(made: Path, run: Run, tmp_path: Path) -> None:
    write_study(tmp_path)
    study = (tmp_path / "study.toml").read_text().replace("collusion = 1", "collusion = 0")
    (tmp_path / "study.toml").write_text(study)
    assert run("plan", tmp_path / "study.toml", "--rows", 230, "--html", tmp_path / "plan.html").code == 0
    tags = Tags((tmp_path / "plan.html").read_text(encoding="utf-8"))
    assert values(tmp_path / "plan.html", "party") == {} and len(values(tmp_path / "plan.html", "outsider")) == 3
    assert "no guarantee" in tags.text
    assert "no guarantee against a party" in tags.text, "the warning is on the page"


def test_seeded_release_says_that_nothing_holds(run: Run, tmp_path: Path) -> None:
    write_study(tmp_path, people=60)
    done = run("fit", tmp_path / "study.toml", "--out", tmp_path / "r.json", "--seed", "00")
    assert done.code == 0, done.err
    assert run("report", tmp_path / "r.json", "--html", tmp_path / "r.html").code == 0
    assert "The epsilons on this page do not hold" in (tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("epsilon = 40.0", "epsilon = 0.01"),
            "There are no intervals: the noise is as large as the features' covariance in",
        ),
        (("epsilon = 40.0", 'epsilon = 40.0\nrelease = "trace"'), "There are no intervals: the release holds traces"),
        (("delta = 0", "delta = 1e-6"), "failure allowance of delta = 1e-06"),
        (
            ('task = "logistic"\nlabel = "works.rich"', 'task = "linear"\nlabel = "works.hours"'),
            "hours, from 0 to 80",
        ),
        (('product = "lattice"', 'product = "plain"'), "This was a simulation: product"),
        (('id = "person"\n[party.bank', 'id = "person"\nnorm = 0.5\n[party.bank'), "bank clips its numeric features"),
    ],
    ids=["drowned", "trace", "gaussian", "linear", "plain", "norm"],
)
def test_other_kinds_of_study(run: Run, tmp_path: Path, change: tuple[str, str], said: str) -> None:
    write_study(tmp_path, people=80)
    study = (tmp_path / "study.toml").read_text()
    assert change[0] in study
    (tmp_path / "study.toml").write_text(study.replace(*change, 1))
    assert run("fit", tmp_path / "study.toml", "--out", tmp_path / "r.json").code == 0
    assert run("report", tmp_path / "r.json", "--html", tmp_path / "r.html").code == 0
    text = " ".join(Tags((tmp_path / "r.html").read_text(encoding="utf-8")).text.split())
    assert said in text and " nan" not in text


def test_one_party_has_no_other_party(run: Run, tmp_path: Path) -> None:
    write_study(tmp_path, people=80)
    study = (tmp_path / "study.toml").read_text()
    (tmp_path / "study.toml").write_text(study[: study.index("[party.bank]")].replace("collusion = 1\n", ""))
    assert run("plan", tmp_path / "study.toml", "--html", tmp_path / "p.html").code == 0
    text = Tags((tmp_path / "p.html").read_text(encoding="utf-8")).text
    assert "another party" not in text and "server" in text and "in the clear" not in text


def test_names_are_escaped(run: Run, tmp_path: Path) -> None:
    write_study(tmp_path)
    study = (tmp_path / "study.toml").read_text().replace('name = "pay"', 'name = "<script>alert(1)</script>"')
    study = study.replace("savings = {", '"<b>savings</b>" = {')
    (tmp_path / "study.toml").write_text(study)
    assert run("plan", tmp_path / "study.toml", "--html", tmp_path / "p.html").code == 0
    tags = Tags((tmp_path / "p.html").read_text(encoding="utf-8"))
    assert not [t for t, _ in tags.tags if t in ("script", "b")]
    assert "<script>alert(1)</script>" in tags.text and "<b>savings</b>" in tags.text


def test_page_goes_nowhere_unwritable(made: Path, run: Run, tmp_path: Path) -> None:
    refused = run("plan", made / "study.toml", "--html", tmp_path / "no" / "p.html")
    assert refused.code == 1 and "cannot write" in refused.err


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """One browser for all tests of this module."""
    with browser() as opened:
        yield opened


def test_browser_and_axe_find_nothing_wrong(made: Path, run: Run, chromium: Any) -> None:
    complaints: list[str] = []
    for path in pages(made, run):
        page = new_page(chromium, complaints)
        page.goto(path.as_uri())
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert sticks_out(page) == [], f"{path.stem} at {width} px"
        for width, scheme in ((390, "light"), (1280, "dark")):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            assert violations(page) == []
            keep(page, f"{path.stem}-{width}-{scheme}")
        page.close()
    assert complaints == []


def sticks_out(page: Any) -> list[str]:
    """Elements that reach past the window, or past their frame without a way to scroll there."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("main *")].filter((e) => {
          if (e.closest("svg") && e.tagName !== "svg") return false;
          const frame = e.closest(".scroll, .skip");
          return !frame && e.getBoundingClientRect().right > innerWidth + 1;
        }).map((e) => `${e.tagName} ${e.className} ${e.textContent.slice(0, 40)}`)"""
    )
    wide = page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")
    return found if wide <= 0 else [*found, f"the page is {wide} px too wide"]


def test_judges_can_say_no(chromium: Any) -> None:
    complaints: list[str] = []
    page = new_page(chromium, complaints)
    page.set_content('<html lang="en"><title>t</title><img src="data:,"><p style="color: #ddd">pale</p></html>')
    assert {found.partition(":")[0] for found in violations(page)} >= {"image-alt", "color-contrast"}
    page.set_content('<html lang="en"><main><p style="width: 3000px">wide</p></main></html>')
    assert sticks_out(page)
    page.evaluate("() => console.error('broken')")
    page.set_content('<img alt="from elsewhere" src="http://elsewhere.invalid/x.png">')
    page.wait_for_timeout(200)
    page.close()
    assert any("broken" in c for c in complaints) and any("elsewhere.invalid" in c for c in complaints)


def test_a_table_that_scrolls_shows_it(made: Path, run: Run, chromium: Any) -> None:
    page = new_page(chromium, [], viewport={"width": 390, "height": 900})
    page.goto(pages(made, run)[1].as_uri())
    frames = page.query_selector_all(".scroll")
    wider = [f for f in frames if f.evaluate("e => e.scrollWidth > e.clientWidth")]
    assert wider, "some table is wider than a phone"
    for frame in wider:
        assert frame.evaluate("e => e.tabIndex") == 0, "the keyboard reaches it"
        assert frame.evaluate("e => getComputedStyle(e).overflowX") == "auto"
        # The shadow at the side where there is more, and a bar that is drawn.
        assert "radial-gradient" in frame.evaluate("e => getComputedStyle(e).backgroundImage")
        assert frame.evaluate("e => getComputedStyle(e).scrollbarWidth") == "thin"
    page.close()


def test_prints_on_a4(made: Path, run: Run, tmp_path: Path, chromium: Any) -> None:
    page = new_page(chromium, [], color_scheme="dark")
    page.goto(pages(made, run)[1].as_uri())
    page.pdf(path=str(tmp_path / "report.pdf"), prefer_css_page_size=True)
    page.emulate_media(media="print", color_scheme="dark")
    ground = page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor")
    page.close()
    pdf = (tmp_path / "report.pdf").read_bytes()
    sizes = {tuple(float(v) for v in m.split()) for m in re.findall(rb"/MediaBox \[([\d. ]+)\]", pdf)}
    assert sizes and all(abs(s[2] - 595.3) < 1.5 and abs(s[3] - 841.9) < 1.5 for s in sizes), sizes
    assert ground == "rgb(255, 255, 255)", "paper is white, whatever the screen is"


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="no pdftotext: apt-get install poppler-utils")
def test_paper_has_whole_words_numbers_and_full_pages(made: Path, run: Run, tmp_path: Path, chromium: Any) -> None:
    content = run("report", made / "release.json", "--json").json if pages(made, run) else {}
    page = new_page(chromium, [])
    page.goto(pages(made, run)[1].as_uri())
    page.pdf(path=str(tmp_path / "report.pdf"), prefer_css_page_size=True)
    page.close()
    subprocess.run(["pdftotext", "-bbox", "report.pdf", "report.html"], cwd=tmp_path, check=True)
    sheets = re.split(r"<page ", (tmp_path / "report.html").read_text(encoding="utf-8"))[1:]
    digest = content["digest"][:32]
    for k, sheet in enumerate(sheets):
        words = re.findall(r'yMax="([\d.]+)">([^<]*)<', sheet)
        texts = [word for _, word in words]
        assert digest in texts and texts[-3:] == [str(k + 1), "/", str(len(sheets))], "digest and number at the foot"
        body = [float(y) for y, word in words if float(y) < 780]
        if k < len(sheets) - 1:
            assert max(body) > 842 * 0.6, f"page {k + 1} is half empty"
    first = {word for _, word in re.findall(r'yMax="([\d.]+)">([^<]*)<', sheets[0])}
    assert {"Signature", "works", "bank", "regression", "works.rich,"} <= first, "one sheet, and no word is broken"


def test_json_stays_alone(made: Path, run: Run, tmp_path: Path) -> None:
    answer = run("plan", made / "study.toml", "--rows", 230, "--html", tmp_path / "p.html", "--json")
    assert json.loads(answer.out)["n"] == 230 and answer.err == ""
    assert (tmp_path / "p.html").stat().st_size > 10_000
