"""A site's health and figures over HTTP, for whoever watches machines: `/live`, `/ready`, `/health` and `/metrics`.

On loopback unless the site's own file says otherwise. Figures are of the site: sessions, times, budget, disk; there is
no name of a column in them, and no number that was computed from data.
"""

from __future__ import annotations

import json
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from typing import Any

from cryptography import x509
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from colonnade.consent.ledger import Ledger, open_ledger
from colonnade.flare.process import dead
from colonnade.flare.status import look, unfinished
from colonnade.foundation.errors import ColonnadeError, StudyError
from colonnade.foundation.files import telling
from colonnade.sites.site import METRICS, PARTY, SERVER, STARTUP, STATUS, Site

LOOPBACK = "127.0.0.1"
STEPS = ("idle", "wait", "read", "align", "plan", "products", "submit", "open")
LEAST_FREE = 100 << 20
"""Bytes of free disk below which a site is not well."""
LINE_SECONDS = 10.0
"""The line to the server is tried so often; a try may take as long again."""
ASKING_SECONDS = 10.0  # whoever connects and does not ask holds a thread so long at most
log = logging.getLogger(__name__)
# Seconds of a session: from a demo's to those of a day's work.
BUCKETS = (5, 10, 20, 40, 60, 120, 300, 600, 1800, 3600, 7200)


class Monitor(Collector):
    """Counts sessions as their status file tells of them, and answers what is asked."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.away = "the line has not been tried yet"
        """Why there is no line to the server, at the server why its port does not answer; empty if all is well."""
        self._last, self._began = ("", False), 0.0
        self._registry = known = CollectorRegistry()
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._sessions = Counter("colonnade_sessions", "Sessions that ended, by how.", ["outcome"], registry=known)
        for outcome in ("opened", "failed"):
            self._sessions.labels(outcome)
        self._refusals = Counter("colonnade_refusals", "Sessions that failed, by their code.", ["code"], registry=known)
        self._seconds = Histogram(
            "colonnade_session_duration_seconds",
            "From a session's first step to its end.",
            buckets=BUCKETS,
            registry=known,
        )
        self._bytes = Counter("colonnade_session_bytes", "Bytes of sessions.", ["direction"], registry=known)
        self._end = Gauge("colonnade_last_session_end_timestamp_seconds", "0 if none has ended.", registry=known)
        ProcessCollector(registry=known)
        known.register(self)

    def follow(self, content: Mapping[str, Any]) -> None:
        """A session that has ended counts once."""
        job, done = seen = str(content.get("job", "")), bool(content.get("done"))
        if job != self._last[0]:
            self._began = time.monotonic()
        if done and seen != self._last:
            self._sessions.labels("opened" if content.get("ok") else "failed").inc()
            if not content.get("ok"):
                self._refusals.labels(content.get("code") or "unknown").inc()
            for direction, count in (content.get("bytes") or {}).items():
                self._bytes.labels(direction).inc(count)
            self._seconds.observe(time.monotonic() - self._began)
            self._end.set_to_current_time()
        self._last = seen

    def keep_trying(self, line: Callable[[], str]) -> None:
        """Try the line to the server now and then, in a thread of its own; `line` says why there is none."""
        while True:
            try:
                self.away = line()
            except ColonnadeError as error:
                self.away = str(error)
            time.sleep(LINE_SECONDS)

    def health(self) -> dict[str, Any]:
        """Whether this site is well by its own files; why not, by names alone."""
        content = look(self.site.folder / STATUS)
        died = unfinished(content) and dead(int(content.get("pid", 0)))
        return self._told({"session": died, **self._flaws()}, "disk", "certificate", "session")

    def ready(self) -> dict[str, Any]:
        """Whether it can take part in a session that begins now."""
        with suppress(ColonnadeError, OSError):
            if book := self._ledger():
                book.try_to_write()
            return self._told(self._flaws(), "server", "disk", "certificate", "clock")
        return self._told({"ledger": True, **self._flaws()}, "server", "disk", "certificate", "clock", "ledger")

    def _flaws(self) -> dict[str, bool]:
        begins, ends = self._certificate()
        return {
            "server": bool(self.away),
            "disk": self._free() < LEAST_FREE,
            "certificate": ends < time.time(),
            "clock": begins > time.time(),
        }

    def _told(self, flaws: Mapping[str, bool], *names: str) -> dict[str, Any]:
        found = [name for name in names if flaws[name]]
        return {"ok": not found, "flaws": found, "site": self.site.name, "version": version("colonnade")}

    def metrics(self) -> str:
        """All figures, in the text format of Prometheus."""
        return generate_latest(self._registry).decode()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """What is looked up when it is asked for."""
        who = GaugeMetricFamily("colonnade_info", "Who this is.", labels=["version", "role"])
        who.add_metric([version("colonnade"), self.site.role], 1)
        content = look(self.site.folder / STATUS)
        now = str(content.get("step")) if unfinished(content) else STEPS[0]
        step = GaugeMetricFamily("colonnade_session_step", "1 at the step of the session under way.", labels=["step"])
        for name in STEPS:
            step.add_metric([name], int(name == now))
        yield from (who, step)
        told = "1 if the server shakes hands, at the server its own port."
        yield GaugeMetricFamily("colonnade_server_reachable", told, int(not self.away))
        ends = self._certificate()[1]
        yield GaugeMetricFamily("colonnade_certificate_expiry_timestamp_seconds", "When the certificate ends.", ends)
        yield GaugeMetricFamily("colonnade_disk_free_bytes", "Free disk where the folder lies.", self._free())
        yield from self._budget()

    def _budget(self) -> Iterator[GaugeMetricFamily]:
        """What the party's own ledger says; nothing at the server, or where the ledger cannot be read now."""
        with suppress(ColonnadeError, OSError):
            if not (book := self._ledger()):
                return
            policy, accounts = self.site.policy(), book.accounts()
            spent = max((account.spent.epsilon for account in accounts), default=0.0)
            booked = sum(account.pending for account in accounts)
            yield GaugeMetricFamily("colonnade_epsilon_spent", "What the most spent data set has spent.", spent)
            yield GaugeMetricFamily("colonnade_epsilon_cap", "The most that may be spent.", policy.cap.epsilon)
            yield GaugeMetricFamily("colonnade_sessions_booked", "Booked and not settled yet.", booked)

    def _ledger(self) -> Ledger | None:
        source = self.site.source if self.site.role == PARTY else None
        return None if source is None or source.ledger is None else open_ledger(source.ledger)

    def _free(self) -> int:
        return shutil.disk_usage(self.site.folder).free

    def _certificate(self) -> tuple[float, float]:
        """When it begins and when it ends."""
        name = "server.crt" if self.site.role == SERVER else "client.crt"
        with suppress(OSError, ValueError):
            shown = x509.load_pem_x509_certificate((self.site.folder / STARTUP / name).read_bytes())
            return shown.not_valid_before_utc.timestamp(), shown.not_valid_after_utc.timestamp()
        return 0.0, 0.0


def parse_address(text: str) -> tuple[str, int]:
    """Where to answer: PORT on loopback, or HOST:PORT."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise StudyError(f"metrics in site.toml, or {METRICS}, must be PORT or HOST:PORT, got {text!r}")
    return host or LOOPBACK, int(port)


def serve_monitor(monitor: Monitor, address: tuple[str, int]) -> ThreadingHTTPServer:
    """Answer in threads of their own, until the process ends or `shutdown` is called."""

    class Answers(BaseHTTPRequestHandler):
        timeout = ASKING_SECONDS

        def do_GET(self) -> None:
            pages: dict[str, Callable[[], tuple[int, str, str]]] = {
                "/metrics": lambda: (200, "text/plain; version=0.0.4", monitor.metrics()),
                "/live": lambda: _told({"ok": True, "site": monitor.site.name}),
                "/ready": lambda: _told(monitor.ready()),
                "/health": lambda: _told(monitor.health()),
            }
            page = pages.get(self.path)
            code, kind, text = page() if page else (404, "text/plain", f"there is {', '.join(pages)}\n")
            self.send_response(code)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody needs a line for each look."""

    class HealthPort(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            log.info("the connection of %s ended badly", client_address, exc_info=True)

    with telling(f"metrics cannot be served on {address[0]}:{address[1]}"):
        server = HealthPort(address, Answers)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def _told(content: Mapping[str, Any]) -> tuple[int, str, str]:
    return (200 if content["ok"] else 503), "application/json", json.dumps(content) + "\n"
