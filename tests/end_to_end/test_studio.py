"""The studio in a real browser, and what it refuses."""

from __future__ import annotations

import http.client
import re
import tomllib
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.foundation.errors import StudyError
from colonnade.studio.form import from_fields, to_form, to_toml
from colonnade.studio.panel import negotiation, planned
from colonnade.studio.workspace import Workspace, edit_study
from colonnade.study import LARGEST_STUDY
from tests.helpers.browser import browser, keep, new_page, violations
from tests.helpers.cli_study import STUDY, Run, runner
from tests.helpers.studio import Server, studio_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A studio in a process of its own, stopped by its process id."""
    with studio_server(tmp_path_factory.mktemp("studio")) as opened:
        yield opened


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capfd)


def test_change_epsilon_run_and_read_the_report(server: Server, run: Run, tmp_path: Path) -> None:
    complaints: list[str] = []
    with browser() as opened:
        page = new_page(opened, complaints, viewport={"width": 1400, "height": 1000})
        page.goto(server.address)
        assert page.input_value('input[name="study.name"]') == "pay"
        page.fill('input[name="study.rows"]', "230")
        page.fill('input[name="study.epsilon"]', "7.5")
        told = plan_of(run, server.folder, tmp_path, "epsilon = 40.0", "epsilon = 7.5\nrows = 230")
        page.wait_for_selector(f'#epsilon[data-value="{told["epsilon"]}"]')
        for shown, number in (
            ("#ratio", told["forecast"]["noise_to_signal"]),
            ("#explained", told["forecast"]["explained"]),
            ("#bytes", sum(told["expected"]["sent"].values()) + told["expected"]["fewest_ids_sends_more"]),
            ("#seconds", sum(told["expected"]["seconds"].values())),
            ('[data-server="bank"]', told["parties"]["bank"]["epsilon"]["server"]),
            ('[data-coalition="works"]', told["parties"]["works"]["epsilon"]["coalition"]),
        ):
            assert float(page.get_attribute(shown, "data-value")) == number

        page.check('input[name="budget"][value="parties"]')
        page.fill('input[name="p0.epsilon"]', "30")
        page.fill('input[name="p1.epsilon"]', "12")
        page.wait_for_selector("#negotiation")
        offers = "epsilon = 30\n[party.works.columns]", "epsilon = 12\n[party.bank.columns]"
        changed = STUDY.replace("epsilon = 40.0", "rows = 230")
        for party, offer in zip(("works", "bank"), offers, strict=True):
            changed = changed.replace(f"[party.{party}.columns]", offer)
        (tmp_path / "bottom.toml").write_text(changed)
        below = run("plan", tmp_path / "bottom.toml", "--json").json
        page.wait_for_selector(f'#epsilon[data-value="{below["epsilon"]}"]')
        planned = [float(cell.get_attribute("data-planned")) for cell in page.query_selector_all("[data-planned]")]
        expected = [b["sensitivity"] / b["scale"] for b in below["blocks"]]
        assert planned == pytest.approx(expected, rel=0.01), "a block's epsilon is its sensitivity by its scale"
        keep(page, "studio-negotiation")
        assert violations(page) == []

        page.click('nav a:text-is("Run")')
        page.wait_for_selector("button.next")
        page.fill('input[name="release"]', "first.json")
        page.click("button.next")
        assert not (server.folder / "first.json").exists(), "a question comes first"
        page.check('input[name="unbooked"]')
        page.click("button.spend")
        page.wait_for_selector("#finished")
        keep(page, "studio-finished")
        page.click("text=read its report")
        page.wait_for_selector("h1:has-text('Release of')")

        told = run("report", server.folder / "first.json", "--json").json
        assert float(page.get_attribute('[data-outsider="a whole record"]', "data-value")) == told["epsilon"]
        assert told["digest"] in page.content()

        for path, name in (("releases", "first.json"), ("ledgers", "bank.ledger")):
            page.goto(server.address + path)
            assert name in page.content()
        booked = run("ledger", "show", server.folder / "bank.ledger", "--json")
        assert booked.code == 0 and "released" in page.content()
    assert complaints == []


def plan_of(run: Run, folder: Path, place: Path, old: str, new: str) -> dict[str, object] | object:
    (place / "changed.toml").write_text((folder / "study.toml").read_text().replace(old, new))
    return run("plan", place / "changed.toml", "--json").json


def test_works_without_script(server: Server, run: Run, tmp_path: Path) -> None:
    with browser() as opened:
        page = new_page(opened, [], java_script_enabled=False)
        page.goto(server.address)
        page.select_option('select[name="name"]', "study.toml")
        page.click('button:text-is("Open")')
        page.fill('input[name="study.rows"]', "230")
        page.fill('input[name="study.epsilon"]', "3")
        page.click("text=Compute the plan")
        told = plan_of(run, server.folder, tmp_path, "epsilon = 40.0", "epsilon = 3\nrows = 230")
        assert float(page.get_attribute("#epsilon", "data-value")) == told["epsilon"]  # type: ignore[index]
        page.fill('input[name="p1.c0.high"]', "-5")
        page.click("text=Compute the plan")
        assert "low must be below high" in page.inner_text("#refused")


def test_listens_on_loopback_only(server: Server) -> None:
    lines = Path("/proc/net/tcp").read_text().splitlines() + Path("/proc/net/tcp6").read_text().splitlines()
    local = [line.split()[1] for line in lines[1:] if line.split()[3] == "0A"]
    assert [a.rpartition(":")[0] for a in local if a.endswith(f":{server.port:04X}")] == ["0100007F"]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://127.0.0.1"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1"}, 421),
        ({"Host": "127.0.0.1.evil.example:80"}, 421),
    ],
    ids=str,
)
def test_foreign_request_is_refused(server: Server, method: str, headers: dict[str, str], status: int) -> None:
    answer = server.ask(server.at("/"), headers=headers, method=method)
    assert answer[0] == status
    assert "pay" not in answer[1] and len(answer[1].splitlines()) == 1


@pytest.mark.parametrize("path", ["/", "/style.css", "/{}0/", "/{}", "//{}/", "/x/{}/", "/favicon.ico", "/..//{}/"])
def test_missing_token_is_refused(server: Server, path: str) -> None:
    other = server.token[:-1] + ("0" if server.token[-1] != "0" else "1")
    assert server.ask(path.format(other))[0] == 403


def test_own_page_is_answered_with_a_strict_policy(server: Server) -> None:
    for path in ("/", "/style.css", "/studio.js", "/releases", "/nothing"):
        status, _, headers = server.ask(server.at(path), headers={"Origin": f"http://127.0.0.1:{server.port}"})
        assert status == (404 if path == "/nothing" else 200)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "name",
    ["../study.toml", "..%2f..%2fetc%2fpasswd", "/etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "..\\x.json", "a.json%00"],
)
def test_path_traversal_is_refused(server: Server, name: str) -> None:
    outside = server.folder.parent / "secret.json"
    outside.write_text("the secret")
    status, text, _ = server.ask(server.at(f"/releases/{name}"))
    assert status in (404, 422) and "root:" not in text and "secret" not in text.replace(name, "")
    for kind in ("open", "edit"):
        fields = {"name": name, "do": "save", "save.name": name.replace("%2f", "/")}
        server.ask(server.at(f"/{kind}"), fields)
    status, text, _ = server.ask(server.at("/"))
    assert "Refused" in text
    assert not list(server.folder.parent.glob("*.toml"))
    server.ask(server.at("/run"), {"release": name})
    assert "Refused" in server.ask(server.at("/run"))[1]
    server.ask(server.at("/open"), {"name": "study.toml"})


def test_data_outside_the_folder_is_not_read(server: Server) -> None:
    (server.folder.parent / "other.csv").write_text("person,savings\np1,5\n")
    text = STUDY.replace('data = "bank.csv"', 'data = "../other.csv"')
    server.ask(server.at("/open"), {"text": text})
    server.ask(server.at("/run"), {"release": "outside.json"})
    assert "reads files of its own folder only" in server.ask(server.at("/run"))[1]
    server.ask(server.at("/open"), {"name": "study.toml"})


def test_large_study_is_refused(server: Server, run: Run) -> None:
    huge = 100 * 1000 * 1000
    status, text, _ = server.ask(server.at("/open"), headers={"Content-Length": str(huge)}, method="POST")
    assert status == 413 and str(LARGEST_STUDY) in text
    # A body without a declared length is cut off as soon as it is too long.
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    part = b"text=" + bytes(1 << 20).replace(b"\0", b"a")
    try:
        connection.request("POST", server.at("/open"), iter([part] * 30), encode_chunked=True)
        assert connection.getresponse().status == 413
    except (BrokenPipeError, ConnectionResetError):
        pass
    connection.close()
    big = server.folder / "big.toml"
    with big.open("wb") as file:
        file.truncate(huge)
    try:
        server.ask(server.at("/open"), {"name": "big.toml"})
        assert f"at most {LARGEST_STUDY} bytes, got {huge}" in server.ask(server.at("/"))[1]
        refused = run("studio", big, "--no-browser")
        assert refused.code == 1 and f"at most {LARGEST_STUDY} bytes" in refused.err
    finally:
        big.unlink()


def test_draft_takes_names_and_no_values(server: Server) -> None:
    (server.folder / "clinic.csv").write_text("patient,weight,ward\n1,431.75,rareward\n2,12.5,rareward2\n")
    server.ask(server.at("/edit"), {**fields_of(server), "do": "draft", "draft.file": "clinic.csv"})
    page = unescape(server.ask(server.at("/"))[1]).replace(server.token, "")
    assert 'value="weight"' in page and 'value="clinic"' in page
    status, text, headers = server.ask(server.at("/export"), fields_of(server))
    assert status == 200 and "attachment" in headers["content-disposition"]
    assert tomllib.loads(text)["party"]["clinic"]["columns"]["weight"] == {"kind": "numeric"}
    for seen in ("431", "12.5", "rareward"):
        assert seen not in page and seen not in text
    assert "a numeric column needs" in page or "low" in page
    server.ask(server.at("/open"), {"name": "study.toml"})


def test_export_is_what_was_opened(server: Server) -> None:
    server.ask(server.at("/open"), {"name": "study.toml"})
    text = server.ask(server.at("/export"), fields_of(server))[1]
    assert tomllib.loads(text) == tomllib.loads((server.folder / "study.toml").read_text())


def fields_of(server: Server) -> dict[str, str]:
    """The form's fields as a browser would send them."""
    page = server.ask(server.at("/"))[1]
    form = page[page.index('id="study"') :]
    out: dict[str, str] = {}
    for tag in re.findall(r"<input[^>]*>", form):
        name, value = re.search(r' name="([^"]*)"', tag), re.search(r' value="([^"]*)"', tag)
        if name and ("checked" in tag or not re.search(r'type="(radio|checkbox)"', tag)):
            out[name[1]] = unescape(value[1]) if value else ""
    for name, text in re.findall(r'<textarea name="([^"]*)"[^>]*>(.*?)</textarea>', form, re.DOTALL):
        out[name] = unescape(text)
    for name, options in re.findall(r'<select name="([^"]*)"[^>]*>(.*?)</select>', form, re.DOTALL):
        chosen = re.search(r'value="([^"]*)" selected', options)
        out[name] = unescape(chosen[1]) if chosen else ""
    return out


WORD = (
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
    .map(str.strip)
    .filter(lambda word: word not in ("", "?"))
)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        WORD.filter(lambda name: "." not in name),
        st.dictionaries(
            WORD,
            st.one_of(
                st.fixed_dictionaries({"kind": st.just("numeric"), "low": st.integers(), "high": st.floats(1, 9)}),
                st.fixed_dictionaries({"kind": st.just("binary"), "levels": st.lists(WORD, min_size=2, max_size=2)}),
                st.fixed_dictionaries({"kind": st.just("numeric"), "low": st.just(0), "strange": WORD}),
            ),
            min_size=1,
            max_size=3,
        ).map(lambda columns: {"id": "person", "columns": columns}),
        max_size=3,
    )
)
def test_study_survives_form_and_file(parties: dict[str, object]) -> None:
    content = {"study": {"name": "a", "task": "linear", "label": "b", "epsilon": 1.5, "rows": 7}, "party": parties}
    assert tomllib.loads(to_toml(content)) == content
    form = to_form(content)
    fields = {"budget": "record", **{f"study.{k}": v for k, v in form["study"].items()}, "study.rest": form["rest"]}
    for i, party in enumerate(form["parties"]):
        fields |= {f"p{i}.{k}": v for k, v in party.items() if k != "columns"}
        for j, column in enumerate(party["columns"]):
            fields |= {f"p{i}.c{j}.{k}": v for k, v in column.items() if k != "other"}
    assert from_fields(fields) == content


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_negotiation_takes_the_least_offer(tmp_path: Path, delta: float) -> None:
    """With equal weights a block's budget is its sensitivity by its scale; no party gives more than it allows."""
    content = tomllib.loads(STUDY)
    content["study"] |= {"delta": delta, "rows": 230, "product": "plain"}
    del content["study"]["epsilon"]
    content["party"]["works"]["epsilon"], content["party"]["bank"]["epsilon"] = 3.0, 1.0
    workspace = Workspace(tmp_path, content)
    session = planned(workspace).session
    rows = negotiation(session)
    assert [row["block"] for row in rows] == [item.block.name for item in session.plan.blocks]
    for row, item in zip(rows, session.plan.blocks, strict=True):
        assert set(row["offers"]) == set(item.block.owners)
        assert row["taken"] == min(row["offers"].values()) and row["offers"][row["by"][0]] == row["taken"]
        ratio = float(item.sensitivity / item.scale)
        assert row["planned"] == pytest.approx(ratio if delta == 0 else ratio**2 / 2, rel=1e-5)
        # Together blocks move less than one by one: what that leaves of the offers is spent as well.
        assert row["planned"] >= row["taken"] * (1 - 1e-5)
    if delta == 0:
        for name, total in (("works", 3.0), ("bank", 1.0)):
            assert sum(row["offers"].get(name, 0.0) for row in rows) <= total


def test_buttons_of_the_form(tmp_path: Path) -> None:
    content = tomllib.loads(STUDY)
    more = edit_study(content, "column:1")
    assert list(more["party"]["bank"]["columns"]) == ["savings", "column1"]
    assert list(edit_study(more, "drop-column:1:0")["party"]["bank"]["columns"]) == ["column1"]
    assert list(edit_study(more, "drop-party:0")["party"]) == ["bank"]
    assert list(edit_study(more, "party")["party"]) == ["works", "bank", "party3"]
    with pytest.raises(StudyError, match="no such party or column"):
        edit_study(more, "drop-column:1:9")


def test_a_link_out_of_the_folder_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / "outside.toml").write_text(STUDY)
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "link.toml").symlink_to(tmp_path / "outside.toml")
    workspace = Workspace(tmp_path / "workspace")
    assert workspace.files(".toml") == []
    with pytest.raises(StudyError, match="no such file"):
        workspace.open("link.toml")
