"""The studio's pages. Each takes its numbers from the functions that the command line calls."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from copy import deepcopy
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from jinja2 import Environment, FileSystemLoader
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from colonnade.check import check_study
from colonnade.foundation.errors import ColonnadeError, StudyError
from colonnade.foundation.kinds import Missing
from colonnade.foundation.schema import KINDS
from colonnade.foundation.shown import number_of
from colonnade.mechanism.release import digest
from colonnade.planning.query import ASKED
from colonnade.report.html import TEMPLATES, environment, page_footer, style
from colonnade.report.spending import booked_spending
from colonnade.report.text import flaws_of
from colonnade.studio.explorer import MOST_ROWS, SHOWN_ROWS, Explorer
from colonnade.studio.form import Content, from_fields, to_form, to_toml
from colonnade.studio.panel import (
    KEPT,
    PRESENT,
    choices,
    compared,
    curve_context,
    panel_context,
    planned,
    with_present_split,
)
from colonnade.studio.request_check import content_policy
from colonnade.studio.started import Run, without_ledger
from colonnade.studio.workspace import DATA, Workspace, edit_study
from colonnade.study import LARGEST_STUDY

VERSION = version("colonnade")
KEPT_RELEASES = 8  # memory: each keeps what was made of it
DRAWN_ROWS = 1000  # proposed in the form
HERE = Path(__file__).parent / "templates"
Fields = dict[str, str]
Answer = Callable[[Request, Fields], Response]
Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


def _endpoint(answer: Answer, refuse: Callable[[str], Response]) -> Endpoint:
    """An answer computed in a thread; a refusal is one sentence on a page with a way on."""

    async def called(request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LARGEST_STUDY:
                return PlainTextResponse(f"a study must have at most {LARGEST_STUDY} bytes\n", 413)
        fields = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
        try:
            return await run_in_threadpool(answer, request, fields)
        except ColonnadeError as error:
            return refuse(str(error))
        except RecursionError:
            return refuse("the study's values are nested too deeply")

    return called


def _printable(page: str, footer: str) -> Response:
    """A report, whose footer on paper is a style sheet of its own."""
    return HTMLResponse(page, headers={"Content-Security-Policy": content_policy(footer)})


class Studio:
    """One workspace, at most one run at a time, and the pages that show them."""

    def __init__(self, workspace: Workspace, token: str) -> None:
        self._workspace, self._base = workspace, f"/{token}"
        self._run: Run | None = None
        self._notice = ""
        self._explorers: dict[str, Explorer] = {}
        self._templates: Environment = environment().overlay(loader=FileSystemLoader([HERE, TEMPLATES]))
        read: list[tuple[str, Answer]] = [
            ("/", self._study),
            ("/style.css", self._style),
            ("/studio.js", self._script),
            ("/curve", self._curve),
            ("/curve/part", self._curve_part),
            ("/check", self._check),
            ("/compare", self._compare),
            ("/plan.html", self._plan_html),
            ("/run", self._running),
            ("/run/state", self._state),
            ("/releases", self._releases),
            ("/releases/{name}", self._model),
            ("/releases/{name}/tables", self._tables),
            ("/releases/{name}/rows", self._rows),
            ("/releases/{name}/rows.csv", self._rows_csv),
            ("/releases/{name}/rows.parquet", self._rows_parquet),
            ("/releases/{name}/page", self._report),
            ("/ledgers", self._ledgers),
        ]
        write: list[tuple[str, Answer]] = [
            ("/plan", self._plan),
            ("/edit", self._edit),
            ("/open", self._open),
            ("/export", self._export),
            ("/run/ask", self._ask),
            ("/run", self._start),
            ("/run/cancel", self._cancel),
        ]
        routes = [Route(path, _endpoint(answer, self._refused), methods=["GET"]) for path, answer in read]
        routes += [Route(path, _endpoint(answer, self._refused), methods=["POST"]) for path, answer in write]
        self.app = Starlette(routes=routes)

    def _page(self, template: str, **context: Any) -> Response:
        notice, self._notice = self._notice, ""
        return HTMLResponse(self._render(template, notice=notice, **context))

    def _render(self, template: str, **context: Any) -> str:
        known = {"base": self._base, "here": template, "folder": self._workspace.folder, "version": VERSION}
        return self._templates.get_template(template).render({**known, **context})

    def _part(self, template: str, **context: Any) -> Response:
        page = self._templates.get_template(template)
        return HTMLResponse(page.render(base=self._base, **context))

    def _refused(self, sentence: str) -> Response:
        return HTMLResponse(self._render("refused.html", notice="", sentence=sentence), 422)

    def _to(self, path: str) -> Response:
        return RedirectResponse(self._base + path, 303)

    def _doors(self) -> list[tuple[str, str]]:
        """Ways back from a page that one signs."""
        pages = ("Check", "Compare", "Run", "Releases", "Ledgers")
        return [(f"{self._base}/", "Study"), *((f"{self._base}/{name.lower()}", name) for name in pages)]

    def _study(self, request: Request, fields: Fields) -> Response:
        with self._workspace.lock:
            return self._page(
                "study.html",
                form=to_form(self._workspace.content),
                kinds=[name for name in KINDS if name != Missing.kind],
                releases=tuple(ASKED),
                opened=self._workspace.opened,
                studies=self._workspace.files(".toml"),
                data=self._workspace.files(*DATA),
                offers={},
                **panel_context(self._workspace),
            )

    def _style(self, request: Request, fields: Fields) -> Response:
        own = (HERE / "studio.css").read_text(encoding="utf-8")
        return Response(f"{style()}\n{own}", media_type="text/css")

    def _script(self, request: Request, fields: Fields) -> Response:
        return Response((HERE / "studio.js").read_bytes(), media_type="text/javascript")

    def _taken(self, fields: Fields) -> Content:
        """The study that the form describes; parties that have yet to say what they offer start from the present."""
        content = from_fields(fields)
        if fields.get("budget") != "parties":
            return content
        return with_present_split(self._workspace, content, number_of(fields.get("study.epsilon", "")))

    def _plan(self, request: Request, fields: Fields) -> Response:
        """The plan of the form as it stands, as a part of the page, with what empty fields should say."""
        with self._workspace.lock:
            self._workspace.content = self._taken(fields)
            parties = to_form(self._workspace.content)["parties"]
            offers = {f"p{i}.epsilon": p["epsilon"] for i, p in enumerate(parties) if p["epsilon"]}
            return self._part("panel.html", offers=offers, **panel_context(self._workspace))

    def _curve(self, request: Request, fields: Fields) -> Response:
        return self._page("curve.html", **curve_context(self._workspace))

    def _curve_part(self, request: Request, fields: Fields) -> Response:
        return self._part("curve_part.html", **curve_context(self._workspace))

    def _compare(self, request: Request, fields: Fields) -> Response:
        with self._workspace.lock:
            known = choices(self._workspace)
            usual = KEPT if KEPT in known else next((c for c in known if c == self._workspace.opened), PRESENT)
            first, second = request.query_params.get("a", usual), request.query_params.get("b", PRESENT)
            found = compared(self._workspace, first, second)
            return self._page("compare.html", choices=known, first=first, second=second, **found)

    def _plan_html(self, request: Request, fields: Fields) -> Response:
        with self._workspace.lock:
            plan = planned(self._workspace)
            return _printable(plan.page(self._doors()), page_footer("Terms", plan.digest))

    def _edit(self, request: Request, fields: Fields) -> Response:
        """A button of the form: it takes the form's fields along, and may add or remove something."""
        space = self._workspace
        with space.lock:
            space.content = self._taken(fields)
            what = fields.get("do", "plan")
            try:
                if what == "draft":
                    space.add_draft(fields.get("draft.file", ""), fields.get("draft.party", ""))
                elif what == "header":
                    space.add_header(fields.get("draft.header", ""), fields.get("draft.party", ""))
                elif what == "save":
                    space.save(fields.get("save.name", ""))
                    self._notice = f"Saved as {space.opened}."
                elif what == "keep":
                    space.kept = deepcopy(space.content)
                    self._notice = "Kept. Change the study, then compare the two plans."
                else:
                    space.content = edit_study(space.content, what)
            except ColonnadeError as error:
                self._notice = f"Refused: {error}."
        return self._to("/")

    def _open(self, request: Request, fields: Fields) -> Response:
        with self._workspace.lock:
            try:
                if "text" in fields:
                    self._workspace.load(fields["text"])
                else:
                    self._workspace.open(fields.get("name", ""))
            except ColonnadeError as error:
                self._notice = f"Refused: {error}."
        return self._to("/")

    def _export(self, request: Request, fields: Fields) -> Response:
        with self._workspace.lock:
            self._workspace.content = self._taken(fields)
            text = to_toml(self._workspace.content)
        headers = {"Content-Disposition": 'attachment; filename="study.toml"'}
        return Response(text, media_type="application/toml", headers=headers)

    def _ask(self, request: Request, fields: Fields) -> Response:
        """The question before spending: what it costs, of whose budget, what nobody books, and what would refuse it."""
        with self._workspace.lock:
            context = panel_context(self._workspace)
            if context["refused"]:
                return self._to("/run")
            self._workspace.new_place(fields.get("release", ""), ".json")
            study = self._workspace.guarded_study()
        checked, unkept = check_study(study), without_ledger(study)
        return self._page("ask.html", asked=fields, unkept=unkept, checked=checked, **context)

    def _check(self, request: Request, fields: Fields) -> Response:
        with self._workspace.lock:
            study = self._workspace.guarded_study()
        return self._page("check.html", checked=check_study(study))

    def _start(self, request: Request, fields: Fields) -> Response:
        """Spend: the one button that does."""
        with self._workspace.lock:
            if self._run is not None and not self._run.done:
                raise StudyError("a run is under way in this studio already")
            try:
                place = self._workspace.new_place(fields.get("release", ""), ".json")
                approved = tuple(fields.get("approved", "").split())
                run = Run(self._workspace.guarded_study(), place, approved, bool(fields.get("unbooked")))
                run.start()
                self._run = run
            except ColonnadeError as error:
                self._notice = f"Refused: {error}."
        return self._to("/run")

    def _cancel(self, request: Request, fields: Fields) -> Response:
        if self._run is not None and not self._run.done:
            self._run.cancel()
        return self._to("/run")

    def _running(self, request: Request, fields: Fields) -> Response:
        taken = set(self._workspace.files(".json"))
        free = next(name for k in range(1, len(taken) + 2) if (name := f"release-{k}.json") not in taken)
        with self._workspace.lock:
            context = panel_context(self._workspace)
            unkept = [] if context["refused"] else without_ledger(self._workspace.study())
            return self._page("run.html", run=self._run, free=free, unkept=unkept, **context)

    def _state(self, request: Request, fields: Fields) -> Response:
        page = self._templates.get_template("state.html")
        done = self._run is None or self._run.done
        return HTMLResponse(page.render(base=self._base, run=self._run), headers={"X-Done": str(done).lower()})

    def _releases(self, request: Request, fields: Fields) -> Response:
        found = [(name, release, flaws_of(release)) for name, release in self._workspace.releases()]
        return self._page("releases.html", releases=found)

    def _explorer(self, request: Request) -> tuple[str, Explorer]:
        """The release of the address; its digest decides it, so that what is slow is computed once."""
        name = request.path_params["name"]
        release = self._workspace.release(name)
        key = digest(release.to())
        if key not in self._explorers:
            kept = dict(list(self._explorers.items())[1 - KEPT_RELEASES :])
            self._explorers = {**kept, key: Explorer(release)}
        return name, self._explorers[key]

    def _explore(self, template: str, name: str, explorer: Explorer, **context: Any) -> Response:
        return self._page(template, name=name, plan=explorer.release.plan, flaws=explorer.asked.flaws, **context)

    def _model(self, request: Request, fields: Fields) -> Response:
        name, explorer = self._explorer(request)
        query = dict(request.query_params)
        label = query.get("label", "")
        found = {**explorer.model(label), **explorer.guess(label, query)}
        return self._explore("model.html", name, explorer, labels=explorer.labels(), label=label, **found)

    def _tables(self, request: Request, fields: Fields) -> Response:
        name, explorer = self._explorer(request)
        query = request.query_params
        found = explorer.table(query.get("a", ""), query.get("b", ""))
        return self._explore("crosses.html", name, explorer, **found)

    def _rows(self, request: Request, fields: Fields) -> Response:
        name, explorer = self._explorer(request)
        count = _count(request) if "count" in request.query_params else None
        found = None if count is None else explorer.drawn(count).first(SHOWN_ROWS)
        return self._explore("rows.html", name, explorer, found=found, count=count, usual=DRAWN_ROWS, most=MOST_ROWS)

    def _rows_csv(self, request: Request, fields: Fields) -> Response:
        return self._download(request, True)

    def _rows_parquet(self, request: Request, fields: Fields) -> Response:
        return self._download(request, False)

    def _download(self, request: Request, csv: bool) -> Response:
        content = self._explorer(request)[1].drawn(_count(request)).to_bytes(csv)
        ending, kind = ("csv", "text/csv") if csv else ("parquet", "application/octet-stream")
        headers = {"Content-Disposition": f'attachment; filename="rows.{ending}"'}
        return Response(content, media_type=kind, headers=headers)

    def _report(self, request: Request, fields: Fields) -> Response:
        """The page that one signs, with what the folder's ledgers booked."""
        name, explorer = self._explorer(request)
        ledgers = self._workspace.readable_ledgers()
        doors = [*self._doors(), (f"{self._base}/releases/{quote(name)}", f"Explore {name}")]
        spending = booked_spending(explorer.release, ledgers)
        return _printable(explorer.asked.page(spending, doors), page_footer("Release", explorer.asked.digest))

    def _ledgers(self, request: Request, fields: Fields) -> Response:
        return self._page("ledgers.html", ledgers=self._workspace.ledgers())


def _count(request: Request) -> int:
    text = request.query_params.get("count", str(DRAWN_ROWS))
    if not text.isascii() or not text.isdigit():
        raise StudyError(f"the number of rows is a whole number, got {text!r}")
    return int(text[:12])
