"""A site's health and figures over HTTP, for whoever watches machines: `/health` and `/metrics`.

On loopback unless the site's own file says otherwise. Figures are of the site: sessions, times, budget, disk; there is
no name of a column in them, and no number that was computed from data.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from typing import Any

import psutil
from cryptography import x509

from colonnade.flare.process import dead
from colonnade.flare.status import look, unfinished
from colonnade.foundation.errors import ColonnadeError, StudyError
from colonnade.sites.site import PARTY, SERVER, STARTUP, STATUS, Site

LOOPBACK = "127.0.0.1"
STEPS = ("idle", "wait", "read", "align", "plan", "products", "submit", "open")
LEAST_FREE = 100 << 20
"""Bytes of free disk below which a site is not well."""


@dataclass
class Monitor:
    """Counts sessions as their status file tells of them, and answers what is asked."""

    site: Site
    begun: float = field(default_factory=time.time)
    ended: dict[str, int] = field(default_factory=lambda: {"opened": 0, "failed": 0})
    last_end: float = 0.0
    _last: tuple[str, bool] = ("", False)

    def follow(self, content: Mapping[str, Any]) -> None:
        """A session that has ended counts once."""
        seen = (str(content.get("job", "")), bool(content.get("done")))
        if seen != self._last and seen[1]:
            self.ended["opened" if content.get("ok") else "failed"] += 1
            self.last_end = time.time()
        self._last = seen

    def health(self) -> dict[str, Any]:
        """Whether this site can take part; why not, by names alone."""
        flaws = []
        if self._free() < LEAST_FREE:
            flaws.append("disk")
        if self._certificate_end() < time.time():
            flaws.append("certificate")
        content = look(self.site.folder / STATUS)
        if unfinished(content) and dead(int(content.get("pid", 0))):
            flaws.append("session")
        return {"ok": not flaws, "flaws": flaws, "site": self.site.name, "version": version("colonnade")}

    def metrics(self) -> str:
        """All figures, in the text format of Prometheus."""
        content = look(self.site.folder / STATUS)
        step = str(content.get("step")) if unfinished(content) else STEPS[0]
        lines = [
            *_gauge("colonnade_info", 1, "Who this is.", version=version("colonnade"), role=self.site.role),
            *_gauge("colonnade_start_time_seconds", self.begun, "When the process began to serve."),
            *_head("colonnade_sessions_total", "counter", "Sessions that ended, by how."),
            *(_line("colonnade_sessions_total", count, outcome=how) for how, count in self.ended.items()),
            *_gauge("colonnade_last_session_end_seconds", self.last_end, "When a session last ended; 0 if none has."),
            *_head("colonnade_session_step", "gauge", "1 at the step of the session under way."),
            *(_line("colonnade_session_step", int(name == step), step=name) for name in STEPS),
            *_gauge("colonnade_certificate_end_seconds", self._certificate_end(), "When the certificate ends."),
            *_gauge("colonnade_disk_free_bytes", self._free(), "Free disk where the folder lies."),
            *_gauge("process_resident_memory_bytes", psutil.Process().memory_info().rss, "Memory of this process."),
            *self._budget(),
        ]
        return "\n".join([*lines, ""])

    def _budget(self) -> list[str]:
        """What the party's own ledger says; nothing at the server, or where the ledger cannot be read now."""
        with suppress(ColonnadeError, OSError):
            source = self.site.source if self.site.role == PARTY else None
            if source is not None and source.ledger is not None:
                from colonnade.consent.shared_ledger import open_ledger

                policy = self.site.policy()
                accounts = open_ledger(source.ledger).accounts()
                spent = max((account.spent.epsilon for account in accounts), default=0.0)
                booked = sum(account.pending for account in accounts)
                return [
                    *_gauge("colonnade_epsilon_spent", spent, "What the most spent data set has spent."),
                    *_gauge("colonnade_epsilon_cap", policy.cap.epsilon, "The most that may be spent."),
                    *_gauge("colonnade_sessions_booked", booked, "Booked sessions that nothing has settled yet."),
                ]
        return []

    def _free(self) -> int:
        return shutil.disk_usage(self.site.folder).free

    def _certificate_end(self) -> float:
        name = "server.crt" if self.site.role == SERVER else "client.crt"
        with suppress(OSError, ValueError):
            shown = x509.load_pem_x509_certificate((self.site.folder / STARTUP / name).read_bytes())
            return shown.not_valid_after_utc.timestamp()
        return 0.0


def _head(name: str, kind: str, told: str) -> list[str]:
    return [f"# HELP {name} {told}", f"# TYPE {name} {kind}"]


def _line(name: str, value: float, **labels: str) -> str:
    told = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{told}}} {value!r}" if told else f"{name} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _gauge(name: str, value: float, told: str, **labels: str) -> list[str]:
    return [*_head(name, "gauge", told), _line(name, value, **labels)]


def parse_address(text: str) -> tuple[str, int]:
    """Where to answer: PORT on loopback, or HOST:PORT."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise StudyError(f"metrics in site.toml must be PORT or HOST:PORT, got {text!r}")
    return host or LOOPBACK, int(port)


def serve_monitor(monitor: Monitor, address: tuple[str, int]) -> ThreadingHTTPServer:
    """Answer in threads of their own, until the process ends or `shutdown` is called."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pages: dict[str, Callable[[], tuple[int, str, str]]] = {
                "/metrics": lambda: (200, "text/plain; version=0.0.4", monitor.metrics()),
                "/health": lambda: _health(monitor),
            }
            page = pages.get(self.path)
            code, kind, text = page() if page else (404, "text/plain", "there is /health, and /metrics\n")
            self.send_response(code)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody needs a line for each look."""

    try:
        server = ThreadingHTTPServer(address, Answers)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise StudyError(f"metrics cannot be served on {address[0]}:{address[1]}: {why}") from None
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def _health(monitor: Monitor) -> tuple[int, str, str]:
    content = monitor.health()
    return (200 if content["ok"] else 503), "application/json", json.dumps(content) + "\n"
