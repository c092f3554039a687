"""Certificates and FLARE's configuration for each site: no shipped code, no logs sent, three classes allowed."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nvflare.lighter
from nvflare.lighter.entity import Project
from nvflare.lighter.impl.cert import CertBuilder
from nvflare.lighter.impl.static_file import StaticFileBuilder
from nvflare.lighter.impl.workspace import WorkspaceBuilder
from nvflare.lighter.provisioner import Provisioner
from nvflare.lighter.utils import load_yaml

from colonnade.flare.certificates import Address
from colonnade.foundation.errors import StudyError
from colonnade.sites.site import LOCAL, STARTUP

GONE_SECONDS = 40
"""A site that FLARE has not heard for so long is no longer connected."""
ROOT_DAYS = 3650  # ten years: renewing the root means new folders for all
COORDINATOR = "coordinator@colonnade.study"
_CLASS = "colonnade.flare.job_classes.{}{}Job"
OF_RELEASE, OF_SCORES, OF_EVALUATION = (
    (_CLASS.format(kind, "Server"), _CLASS.format(kind, "Party")) for kind in ("Fit", "Predict", "Evaluate")
)
"""Of each kind of session the server's class, and a party's."""
SERVER_CLASSES, PARTY_CLASSES = ([pair[side] for pair in (OF_RELEASE, OF_SCORES, OF_EVALUATION)] for side in range(2))
SERVER_LAUNCHER = "colonnade.flare.launcher.ServerLauncher"
PARTY_LAUNCHER = "colonnade.flare.launcher.PartyLauncher"
CLASSES = {*SERVER_CLASSES, *PARTY_CLASSES, SERVER_LAUNCHER, PARTY_LAUNCHER}
"""All of ours that a folder names; those of earlier versions are gone."""
KEPT = {"client.crt", "client.key", "server.crt", "server.key", "rootCA.pem"}
CONFIGS = {"fed_client.json", "fed_server.json", "fed_admin.json"}
AUTHORIZATION = {
    "format_version": "1.0",
    "permissions": {
        # The coordinator starts and stops sessions. Nobody ships code, reads files or runs a shell at a site.
        "lead": {
            "submit_job": "any",
            "clone_job": "none",
            "manage_job": "n:submitter",
            "download_job": "n:submitter",
            "view": "any",
            "operate": "none",
            "shell_commands": "none",
            "byoc": "none",
            "app_command": "any",
        }
    },
}
COMM = {
    # A job speaks to the process that started it over loopback: with certificates there too.
    "internal": {"scheme": "tcp", "resources": {"host": "localhost", "connection_security": "mtls"}},
    # Nobody connects to a party.
    "allow_adhoc_conns": False,
}
log = logging.getLogger(__name__)


def provision(work: Path, project: str, parties: Iterable[str], address: Address) -> Path:
    """Make certificates and configuration in `work`, which keeps the authority's key; returns the kits' folder."""
    plan = Project(project, "a Colonnade study", props={})
    try:
        plan.set_server(
            address.host, "server", {"fed_learn_port": address.port, "admin_port": address.port, "host_names": []}
        )
        for name in parties:
            plan.add_client(name, name.replace("-", "_"), {})
        plan.add_admin(COORDINATOR, "coordinator", {"role": "lead"})
    except ValueError as error:
        raise StudyError(f"a party's name must be fit for a certificate, and a server's for a host: {error}") from None
    # Signed kits guard scripts that we do not ship; the certificates guard the connections.
    engine = Provisioner(
        str(work),
        [
            WorkspaceBuilder(),
            StaticFileBuilder(config_folder="config", scheme="tcp"),
            # The authority outlives the certificates that it gives, so that it can renew them.
            CertBuilder(root_valid_days=ROOT_DAYS),
        ],
    )
    engine.add_template(load_yaml(str(Path(nvflare.lighter.__file__).parent / "templates" / "master_template.yml")))
    context = engine.provision(plan, logger=log)
    if context.get("build_error"):
        raise StudyError("certificates could not be made; the log says why")
    return Path(context["current_prod_dir"])


def keep_own_key_only(work: Path) -> None:
    """What was made for others is theirs alone: their keys go, the authority's stays, for its owner's eyes."""
    for path in work.rglob("cert.json"):
        content = json.loads(path.read_text(encoding="utf-8"))
        for made in content.values():
            if isinstance(made, dict):
                made.pop("pri_key", None)
        path.chmod(0o600)
        _write(path, content)


def place_kit(kit: Path, folder: Path, role: str) -> None:
    """Put one organisation's certificates and configuration into its folder, without FLARE's scripts."""
    for part in (STARTUP, LOCAL):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for file in sorted((kit / STARTUP).iterdir()):
        if file.name in KEPT | CONFIGS:
            shutil.copy(file, folder / STARTUP / file.name)
            (folder / STARTUP / file.name).chmod(0o600 if file.suffix == ".key" else 0o644)
    default = json.loads((kit / LOCAL / "resources.json.default").read_text(encoding="utf-8"))
    if role == "coordinator":
        _write(folder / LOCAL / "resources.json", default)
        return
    _write(folder / LOCAL / "resources.json", resources(default, role))
    _write(folder / LOCAL / "authorization.json", AUTHORIZATION)
    _write(folder / LOCAL / "log_config.json", log_config())
    _write(folder / LOCAL / "comm_config.json", COMM)


def resources(default: dict[str, Any], role: str) -> dict[str, Any]:
    """FLARE's default with three classes allowed, nothing sent on its own, and nothing stored outside the folder."""
    out = {**default, "class_list_enforcement_mode": "enforce"}
    out["class_allow_list"] = SERVER_CLASSES if role == "server" else PARTY_CLASSES
    out["allow_log_streaming"] = False
    components = [c for c in default["components"] if c["id"] not in ("site_log_streamer", "log_receiver")]
    if role == "server":
        for server in out["servers"]:
            server["heart_beat_timeout"] = GONE_SECONDS
        for component in components:
            if component["id"] == "job_scheduler":
                component["args"]["max_jobs"] = 1
    for component in components:
        if component["id"] == "process_launcher":
            component["path"] = SERVER_LAUNCHER if role == "server" else PARTY_LAUNCHER
    out["components"] = components
    return out


def log_config() -> dict[str, Any]:
    """Everything into files of the site; the terminal is for sentences."""
    handler = {
        "class": "logging.handlers.RotatingFileHandler",
        "level": "INFO",
        "formatter": "plain",
        "filename": "log.txt",
        "mode": "a",
        "maxBytes": 20 << 20,
        "backupCount": 5,
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
        "handlers": {"file": handler},
        "loggers": {"root": {"level": "INFO", "handlers": ["file"]}},
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
