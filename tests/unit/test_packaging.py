"""Image, compose file, units and manifests: whole, with commands that exist, and no rights that are not needed."""

from __future__ import annotations

import configparser
import re
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from ctypes.util import find_library
from pathlib import Path
from typing import Any

import pytest
import typer

from colonnade.cli.entry import app
from tests.helpers.seccomp import loader
from tests.helpers.wires import write_study

yaml = pytest.importorskip("yaml", reason="the extra flare, which brings YAML, is not installed")

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"
PROJECT = tomllib.loads((PACKAGING.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
UNITS = sorted((PACKAGING / "systemd").glob("*.service"))
MANIFESTS = sorted((PACKAGING / "kubernetes").glob("*.yaml"))


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n\s*", "", (PACKAGING / "Containerfile").read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def known_command(words: list[str]) -> bool:
    """Whether the command line has it."""
    group: Any = typer.main.get_command(app)
    for word in words:
        if word.startswith(("-", "/")):
            break
        group = getattr(group, "commands", {}).get(word)
        if group is None:
            return False
    return not getattr(group, "commands", {})


def test_the_image_is_built_in_two_stages_and_is_not_root() -> None:
    given = instructions()
    words = [word for word, _ in given]
    assert words.count("FROM") == 2
    last = given[len(words) - 1 - words[::-1].index("FROM") :]
    assert "RUN" not in [word for word, _ in last], "nothing is built in the image that is kept"
    assert dict(last)["USER"] == "10001:10001" and dict(last)["ENTRYPOINT"] == '["colonnade"]'
    for source in re.findall(r"^COPY (?!--from)(.+) \S+$", "\n".join(f"{w} {r}" for w, r in given), re.MULTILINE):
        assert all((PACKAGING.parent / name).exists() for name in source.split())
    (extras,) = re.findall(r"EXTRAS=([a-z,]+)", " ".join(rest for word, rest in given if word == "ARG"))
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])


def test_the_locks_versions_constrain_the_image(tmp_path: Path) -> None:
    (run,) = (rest for word, rest in instructions() if word == "RUN")
    shutil.copy(PACKAGING.parent / "requirements.lock", tmp_path)
    subprocess.run(["sh", "-euc", run.partition("&&")[0]], cwd=tmp_path, check=True)
    lines = (tmp_path / "constraints.txt").read_text().splitlines()
    assert len(lines) > 100 and all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line) for line in lines)
    assert any(line.startswith("nvflare==2.9") for line in lines)


def test_compose_runs_a_server_and_three_parties_read_only() -> None:
    content = yaml.safe_load((PACKAGING / "compose.yaml").read_text(encoding="utf-8"))
    services = content["services"]
    assert set(services) == {"server", "employer", "registry", "bank", "coordinator"}
    for name, service in services.items():
        assert service["read_only"] is True and service["cap_drop"] == ["ALL"] and service["user"] == "10001:10001"
        assert service["volumes"] == [f"./sites/{name}:/site"] and known_command(service["command"])
        assert "no-new-privileges:true" in service["security_opt"] and not service.get("privileged")
        assert (PACKAGING / service["build"]["context"] / service["build"]["dockerfile"]).is_file()


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_units_are_hardened_and_start_what_exists(unit: Path, tmp_path: Path) -> None:
    read = configparser.RawConfigParser(strict=False)
    read.optionxform = str  # type: ignore[assignment,method-assign]
    read.read(unit)
    service = dict(read["Service"])
    assert known_command(service["ExecStart"].split()[1:])
    assert (service["SuccessExitStatus"], service["ProtectSystem"]) == ("130 143", "strict")
    assert service["NoNewPrivileges"] == "yes" and service["CapabilityBoundingSet"] == ""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze on this machine")
    # The program and the account are those of a machine that has them.
    text = unit.read_text().replace("/usr/local/bin/colonnade", "/bin/true").replace("=colonnade\n", "=daemon\n", 2)
    copy = tmp_path / unit.name.replace("@", "@bank")
    copy.write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.name)
def test_manifests_ask_for_no_rights(manifest: Path) -> None:
    parts = list(yaml.safe_load_all(manifest.read_text(encoding="utf-8")))
    assert all({"apiVersion", "kind", "metadata"} <= set(part) for part in parts)
    (workload,) = (part for part in parts if part["kind"] == "StatefulSet")
    assert workload["spec"]["replicas"] == 1
    pod = workload["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True and pod["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    assert container["image"] == f"colonnade:{PROJECT['version']}" and known_command(container["args"])
    context = container["securityContext"]
    assert context["readOnlyRootFilesystem"] is True and context["capabilities"] == {"drop": ["ALL"]}
    named = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == named
    labels = workload["spec"]["template"]["metadata"]["labels"]
    assert workload["spec"]["selector"]["matchLabels"] == labels


def without(text: str) -> str:
    """The unit as it was: what it does not allow kills."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("SystemCallErrorNumber"))


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None or find_library("seccomp") is None,
    reason="there is no systemd-analyze, or no libseccomp",
)
def test_units_start_what_they_say_under_their_own_filter(tmp_path: Path) -> None:
    """A deployed server and party, by each unit's own command, until they say that they wait."""
    pytest.importorskip("nvflare", reason="the extra flare is not installed")
    from colonnade.flare.certificates import Address
    from colonnade.flare.deploy import deploy_new

    write_study(tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    deploy_new(tmp_path / "study.toml", tmp_path / "sites", Address("localhost", port))
    bank = tmp_path / "sites" / "bank"
    (bank / "site.toml").write_text((bank / "site.toml").read_text().replace('"?"', f'"{tmp_path}/bank.csv"'))
    rules = re.sub(r"(?m)^(epsilon|smallest_rows) = .*", r"\1 = 40", (bank / "policy.toml").read_text())
    (bank / "policy.toml").write_text(rules)
    says = {"server": "waiting for parties and sessions", "party": "the server cannot be reached at localhost"}
    for unit in UNITS:
        (start,) = re.findall(r"^ExecStart=/usr/local/bin/colonnade (.+) (\S+)$", unit.read_text(), re.MULTILINE)
        role = start[0].split()[0]
        folder = tmp_path / "sites" / start[1].rpartition("/")[2].replace("%i", "bank")
        command = [sys.executable, "-m", "colonnade.cli", *start[0].split(), str(folder)]
        child = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=loader(unit)
        )
        try:
            assert child.stderr is not None
            told = next((line for line in child.stderr if says[role] in line), None)
            assert told is not None, f"{unit.name}: it ended with {child.wait()}"
        finally:
            child.kill()
            child.communicate()
    (tmp_path / "killing.service").write_text(without(unit.read_text()))
    done = subprocess.run([sys.executable, "-c", "import numpy"], preexec_fn=loader(tmp_path / "killing.service"))
    assert done.returncode == -signal.SIGSYS, "the filter bites: numpy was killed by it"


def test_pods_reach_whom_they_need_and_keep_their_key_to_themselves() -> None:
    for manifest in MANIFESTS:
        parts = {part["kind"]: part for part in yaml.safe_load_all(manifest.read_text(encoding="utf-8"))}
        pod = parts["StatefulSet"]["spec"]["template"]["spec"]
        # With fsGroup alone each mount adds the group's rights, and doctor refuses such a key.
        assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
        assert all(volume["emptyDir"]["sizeLimit"] for volume in pod["volumes"] if "emptyDir" in volume)
        policy = parts["NetworkPolicy"]["spec"]
        assert policy["podSelector"]["matchLabels"] == parts["StatefulSet"]["spec"]["selector"]["matchLabels"]
        assert policy["policyTypes"] == ["Ingress", "Egress"]
        assert all(rule["from"] for rule in policy["ingress"]) and all(rule["to"] for rule in policy["egress"])
        ports = [port["port"] for rule in policy["egress"] for port in rule["ports"]]
        assert ports == ([] if "server" in manifest.name else [8002, 53, 53])
