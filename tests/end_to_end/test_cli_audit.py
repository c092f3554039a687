"""`colonnade audit` on a small study: a table or one JSON object, and exit code 1 where a claim is broken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from audit import bugs
from colonnade.cli import app
from colonnade.foundation.errors import PrivacyError

STUDY = """
[study]
name = "small"
task = "linear"
label = "y"
epsilon = 1.0
alignment = "none"
release = "trace"

[party.a.columns]
y = { kind = "numeric", low = -1, high = 1 }

[party.b.columns]
x = { kind = "numeric", low = 0, high = 4 }
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(STUDY, encoding="utf-8")
    return path


def test_audit_prints_every_view(study: Path) -> None:
    done = CliRunner().invoke(app, ["audit", str(study), "--seconds", "1", "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["broken"] == 0 and told["sessions"] >= 80
    assert {v["view"] for v in told["views"]} >= {"outsider", "server", "party", "server and 1"}
    assert all(v["proved"] <= v["claimed"] for v in told["views"])
    assert max(v["drawn"] / v["claimed"] for v in told["views"] if v["drawn"]) > 0.8


def test_audit_fails_where_a_claim_is_broken(study: Path) -> None:
    with bugs.half_the_noise():
        done = CliRunner().invoke(app, ["audit", str(study), "--seconds", "1"])
    assert isinstance(done.exception, PrivacyError)
    assert "is claimed" in str(done.exception)
    assert "server" in done.stdout
