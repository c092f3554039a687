"""A browser for the tests of pages: Debian's Chromium, driven by Playwright; axe-core judges accessibility."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NO_BROWSER = "there is no chromium on this machine: apt-get install chromium"
WAIT = 60_000
"""Milliseconds that a page may take on a crowded machine."""


@contextmanager
def browser() -> Iterator[Any]:
    """A browser; skips the test, with the reason, where there is none."""
    if CHROMIUM is None:
        pytest.skip(NO_BROWSER)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Chromium's own sandbox needs a user other than root, which a container often lacks.
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield opened
        finally:
            opened.close()


def new_page(opened: Any, complaints: list[str], **context: Any) -> Any:
    """A page whose console errors and outside requests are noted as complaints."""
    page = opened.new_page(**context)
    page.set_default_timeout(WAIT)
    page.on("console", lambda m: complaints.append(f"console: {m.text}") if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(f"page: {error}"))

    def requested(request: Any) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "file:", "data:")):
            complaints.append(f"request: {request.url}")

    page.on("request", requested)
    return page


def keep(page: Any, name: str) -> None:
    """A screenshot, kept where the environment asks for it."""
    folder = os.environ.get("COLONNADE_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


def violations(page: Any) -> list[str]:
    """What axe-core finds serious or critical on the page."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{v['id']}: {v['help']}: {[n['html'][:120] for n in v['nodes'][:3]]}"
        for v in found
        if v["impact"] in ("serious", "critical")
    ]
