"""The studio's pages. Each takes its numbers from the functions that the command line calls."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from jinja2 import Environment, FileSystemLoader
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from colonnade.foundation.errors import ColonnadeError, StudyError
from colonnade.mechanism.release import digest
from colonnade.report.cost import expected_cost
from colonnade.report.html import TEMPLATES, environment, page_footer, plan_page, release_page, style
from colonnade.studio.form import from_fields, to_form, to_toml
from colonnade.studio.panel import panel_context, planned
from colonnade.studio.request_check import content_policy
from colonnade.studio.runs import Run, without_ledger
from colonnade.studio.workspace import DATA, Workspace, edit_study
from colonnade.study import LARGEST_STUDY

KEPT_REPORTS = 8
HERE = Path(__file__).parent / "templates"
Fields = dict[str, str]
Answer = Callable[[Request, Fields], Response]
Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


def _endpoint(answer: Answer) -> Endpoint:
    """An answer computed in a thread; a refusal is one sentence."""

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
            return PlainTextResponse(f"{error}\n", 422)
        except RecursionError:
            return PlainTextResponse("the study's values are nested too deeply\n", 422)

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
        self._reports: dict[str, str] = {}
        self._templates: Environment = environment().overlay(loader=FileSystemLoader([HERE, TEMPLATES]))
        read: list[tuple[str, Answer]] = [
            ("/", self._study),
            ("/style.css", self._style),
            ("/studio.js", self._script),
            ("/plan.html", self._plan_html),
            ("/run", self._running),
            ("/run/state", self._state),
            ("/releases", self._releases),
            ("/releases/{name}", self._release),
            ("/ledgers", self._ledgers),
        ]
        write: list[tuple[str, Answer]] = [
            ("/plan", self._plan),
            ("/edit", self._edit),
            ("/open", self._open),
            ("/export", self._export),
            ("/run", self._start),
        ]
        routes = [Route(path, _endpoint(answer), methods=["GET"]) for path, answer in read]
        routes += [Route(path, _endpoint(answer), methods=["POST"]) for path, answer in write]
        self.app = Starlette(routes=routes)

    def _page(self, template: str, **context: Any) -> Response:
        notice, self._notice = self._notice, ""
        page = self._templates.get_template(template)
        return HTMLResponse(page.render(base=self._base, notice=notice, here=template, **context))

    def _to(self, path: str) -> Response:
        return RedirectResponse(self._base + path, 303)

    def _study(self, request: Request, fields: Fields) -> Response:
        with self._workspace.lock:
            return self._page(
                "study.html",
                form=to_form(self._workspace.content),
                opened=self._workspace.opened,
                studies=self._workspace.files(".toml"),
                data=self._workspace.files(*DATA),
                **panel_context(self._workspace),
            )

    def _style(self, request: Request, fields: Fields) -> Response:
        own = (HERE / "studio.css").read_text(encoding="utf-8")
        return Response(f"{style()}\n{own}", media_type="text/css")

    def _script(self, request: Request, fields: Fields) -> Response:
        return Response((HERE / "studio.js").read_bytes(), media_type="text/javascript")

    def _plan(self, request: Request, fields: Fields) -> Response:
        """The plan of the form as it stands, as a part of the page."""
        with self._workspace.lock:
            self._workspace.content = from_fields(fields)
            page = self._templates.get_template("panel.html")
            return HTMLResponse(page.render(base=self._base, **panel_context(self._workspace)))

    def _plan_html(self, request: Request, fields: Fields) -> Response:
        with self._workspace.lock:
            study, session, assumed = planned(self._workspace)
            page = plan_page(session, expected_cost(session, study.alignment), assumed)
            return _printable(page, page_footer("Terms", session.terms))

    def _edit(self, request: Request, fields: Fields) -> Response:
        """A button of the form: it takes the form's fields along, and may add or remove something."""
        with self._workspace.lock:
            self._workspace.content = from_fields(fields)
            what = fields.get("do", "plan")
            try:
                if what == "draft":
                    self._workspace.add_draft(fields.get("draft.file", ""), fields.get("draft.party", ""))
                elif what == "header":
                    self._workspace.add_header(fields.get("draft.header", ""), fields.get("draft.party", ""))
                elif what == "save":
                    self._workspace.save(fields.get("save.name", ""))
                    self._notice = f"Saved as {self._workspace.opened}."
                else:
                    self._workspace.content = edit_study(self._workspace.content, what)
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
            self._workspace.content = from_fields(fields)
            text = to_toml(self._workspace.content)
        headers = {"Content-Disposition": 'attachment; filename="study.toml"'}
        return Response(text, media_type="application/toml", headers=headers)

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
        return self._page("releases.html", releases=self._workspace.releases())

    def _release(self, request: Request, fields: Fields) -> Response:
        """A release's report; its digest decides it, so that it is made once."""
        release = self._workspace.release(request.path_params["name"])
        key = digest(release.to())
        if key not in self._reports:
            self._reports = {**dict(list(self._reports.items())[1 - KEPT_REPORTS :]), key: release_page(release)}
        return _printable(self._reports[key], page_footer("Release", key))

    def _ledgers(self, request: Request, fields: Fields) -> Response:
        return self._page("ledgers.html", ledgers=self._workspace.ledgers())
