"""The server's port under connections that say nothing, half, or announce what no session needs; no engine starts."""

from __future__ import annotations

import functools
import resource
import select
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nvflare", reason="the extra flare is not installed")

from nvflare.fuel.f3.communicator import driver_mgr, load_comm_drivers
from nvflare.fuel.f3.connection import ConnState
from nvflare.fuel.f3.drivers.connector_info import ConnectorInfo, Mode

from colonnade.flare import listener
from colonnade.flare.certificates import Address, install_list, probe, probe_own, server_address
from colonnade.flare.deploy import deploy_new
from colonnade.flare.doctor import examine
from colonnade.flare.listener import LARGEST_FRAME, UNPROVEN, BoundedDriver, use_driver
from colonnade.flare.renewal import revoke_certificate
from colonnade.foundation.errors import PolicyError
from tests.helpers.cli_study import runner
from tests.helpers.wires import write_study

LOOPBACK = "127.0.0.1"
HEAD = struct.Struct(">IHBBHHHH")
"""Of the engine's frames: length, length of headers, type, reserved, flags, application, stream, sequence."""


def free_port() -> int:
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("listener")
    write_study(place)
    deploy_new(place / "study.toml", place / "sites", Address("localhost", free_port()))
    return place / "sites"


class Monitor:
    """What the engine would be told: who is connected, and what they sent."""

    def __init__(self) -> None:
        self.frames: list[int] = []
        self.states: list[tuple[str, str]] = []

    def state_change(self, connection: Any) -> None:
        name = connection.get_conn_properties().get("peer_cn", "") if connection.state == ConnState.CONNECTED else ""
        self.states.append((str(connection.state), name))
        connection.register_frame_receiver(self)

    def process_frame(self, frame: bytes) -> None:
        self.frames.append(len(frame))


@pytest.fixture
def sites(deployed: Path, tmp_path: Path) -> Path:
    shutil.copytree(deployed, tmp_path / "sites")
    return tmp_path / "sites"


@pytest.fixture
def port(sites: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, Monitor]]:
    """The server's port by the driver that the engine finds, as `server start` has it."""
    number = server_address(sites / "bank")[0].port
    with listening(sites / "server", number, monkeypatch) as monitor:
        yield number, monitor


@contextmanager
def listening(folder: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Monitor]:
    """A site's port, with its own certificate."""
    monkeypatch.setattr("colonnade.flare.certificates.WATCH_SECONDS", 0.1)
    use_driver()
    load_comm_drivers()
    made = driver_mgr.find_driver_class("stcp")
    assert made is driver_mgr.find_driver_class("tcp") is BoundedDriver
    start, monitor = folder / "startup", Monitor()
    side = "server" if (start / "server.crt").is_file() else "client"
    named = {"ca_cert": "rootCA.pem", f"{side}_cert": f"{side}.crt", f"{side}_key": f"{side}.key"}
    params = {"scheme": "tcp", "host": LOOPBACK, "port": str(number), **{k: str(start / v) for k, v in named.items()}}
    driver = made()
    driver.register_conn_monitor(monitor)
    connector = ConnectorInfo("CH1", driver, params, Mode.PASSIVE, 0, 0, False, threading.Event())
    thread = threading.Thread(target=driver.listen, args=(connector,), daemon=True)
    thread.start()
    until(lambda: driver.server is not None)
    yield monitor
    driver.shutdown()
    thread.join(10)


def until(holds: Callable[[], Any], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


def hello() -> bytes:
    """A ClientHello, and no more."""
    outward = ssl.MemoryBIO()
    made = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outward, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        made.do_handshake()
    return outward.read()


def connect(folder: Path, number: int) -> ssl.SSLSocket:
    return context_of(folder).wrap_socket(socket.create_connection((LOOPBACK, number), 10))


def context_of(folder: Path) -> ssl.SSLContext:
    start = folder / "startup"
    context = ssl.create_default_context(cafile=str(start / "rootCA.pem"))
    context.check_hostname = False
    context.load_cert_chain(start / "client.crt", start / "client.key")
    return context


def handshake(folder: Path) -> tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
    """A party's side of one, that nobody carries on by itself."""
    inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
    return context_of(folder).wrap_bio(inward, outward), inward, outward


def closed(lines: Sequence[socket.socket]) -> int:
    """How many the other side has closed, or sent something by."""
    watched = select.poll()
    for line in lines:
        watched.register(line, select.POLLIN)
    return len(watched.poll(0))


def reachable(folder: Path, name: str) -> str:
    return probe(folder, name, *server_address(folder), seconds=5.0)


def test_a_flood_from_one_address_keeps_no_other_from_its_handshake(sites: Path, port: tuple[int, Monitor]) -> None:
    """A party far away has begun its handshake; then twice as many connect, and are silent, as may wait at once."""
    made, inward, outward = handshake(sites / "bank")
    with socket.create_connection((LOOPBACK, port[0]), 5) as line:
        with pytest.raises(ssl.SSLWantReadError):
            made.do_handshake()
        line.sendall(outward.read())
        flood = [socket.create_connection((LOOPBACK, port[0]), 5, ("127.0.0.2", 0)) for _ in range(2 * UNPROVEN)]
        until(lambda: closed(flood) >= UNPROVEN)
        inward.write(line.recv(1 << 16))
        made.do_handshake()
        line.sendall(outward.read())
        made.write(HEAD.pack(HEAD.size, 0, 1, 0, 0, 0, 0, 0))
        line.sendall(outward.read())
        until(lambda: port[1].states)
    for each in flood:
        each.close()


def test_behind_one_address_whoever_came_first_is_not_shut_out(sites: Path, port: tuple[int, Monitor]) -> None:
    """Half of what may wait, then as many again: by age all of the first half would go."""
    first, second = (
        [socket.create_connection((LOOPBACK, port[0]), 5) for _ in range(count)] for count in (UNPROVEN // 2, UNPROVEN)
    )
    until(lambda: closed([*first, *second]) == UNPROVEN // 2)
    # All of the first: once in 10^20 (64 over 32).
    assert 0 < closed(first) < UNPROVEN // 2
    for each in (*first, *second):
        each.close()


def test_who_has_shown_a_certificate_makes_no_room(
    sites: Path, port: tuple[int, Monitor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A probe hears for a second whether its certificate counts; meanwhile others flood its address."""
    # On a busy machine the flood may take longer than a handshake may.
    monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", 120.0)
    with connect(sites / "bank", port[0]) as shown:
        # Its tickets come behind the handshake.
        until(lambda: closed([shown]))
        flood = [socket.create_connection((LOOPBACK, port[0]), 5) for _ in range(20 * UNPROVEN)]
        until(lambda: closed(flood) >= 19 * UNPROVEN)
        shown.settimeout(0.5)
        with pytest.raises(TimeoutError):
            shown.recv(1)
        for each in flood:
            each.close()


@pytest.mark.parametrize("first", [b"", hello()], ids=["silent", "a ClientHello"])
def test_connections_that_do_not_go_on_hold_nobody_up(sites: Path, port: tuple[int, Monitor], first: bytes) -> None:
    lines = [socket.create_connection((LOOPBACK, port[0]), 5) for _ in range(8)]
    for line in lines:
        line.sendall(first)
    begun = time.monotonic()
    assert reachable(sites / "bank", "bank") == "" and probe_own(sites / "server") == ""
    assert time.monotonic() - begun < 4.0
    assert not port[1].states, "whoever only tries the handshake is no connection"
    for line in lines:
        line.close()


def test_a_handshake_has_a_deadline_and_only_so_many_wait(
    sites: Path, port: tuple[int, Monitor], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [socket.create_connection((LOOPBACK, port[0]), 5) for _ in range(UNPROVEN + 5)]
    # Five made room: others, who go on, are still let in.
    until(lambda: closed(lines) == 5)
    assert reachable(sites / "bank", "bank") == ""
    monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", 0.5)
    late = socket.create_connection((LOOPBACK, port[0]), 5)
    late.settimeout(5)
    # One byte now and then is no progress.
    with pytest.raises(OSError):
        for byte in hello():
            late.sendall(bytes([byte]))
            time.sleep(0.05)
    for line in (*lines, late):
        line.close()


def test_a_frame_above_what_a_session_needs_is_refused_by_its_head(sites: Path, port: tuple[int, Monitor]) -> None:
    number, monitor = port
    with connect(sites / "bank", number) as line:
        for size in (16, 20):
            line.sendall(HEAD.pack(size, 0, 1, 0, 0, 0, 0, 0) + bytes(size - 16))
        until(lambda: monitor.frames == [16, 20])
        assert [name for _, name in monitor.states] == ["bank"]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        line.sendall(HEAD.pack((2 << 30) - (2 << 20), 0, 1, 0, 0, 0, 0, 0))
        line.settimeout(5)
        assert line.recv(1) == b"", "the line is closed"
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10
    # The session's own largest passes.
    with connect(sites / "bank", number) as line:
        line.sendall(HEAD.pack(LARGEST_FRAME, 0, 1, 0, 0, 0, 0, 0) + bytes(LARGEST_FRAME - 16))
        until(lambda: LARGEST_FRAME in monitor.frames)


def test_what_is_revoked_is_refused_by_the_port(sites: Path, port: tuple[int, Monitor]) -> None:
    assert reachable(sites / "bank", "bank") == reachable(sites / "town", "town") == ""
    listed = revoke_certificate(sites / "authority", (sites / "bank" / "startup" / "client.crt").read_bytes())[1]
    install_list(sites / "server", listed)

    def refused() -> bool:
        try:
            return bool(reachable(sites / "bank", "bank"))
        except PolicyError as error:
            return str(error) == "the server refuses the certificate of bank"

    until(refused)
    assert reachable(sites / "town", "town") == ""


def test_a_partys_own_port_lets_its_process_in_though_its_certificate_was_revoked(
    sites: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or its session would not begin, and the others would wait for it: the session itself says that it was revoked."""
    bank = sites / "bank"
    listed = revoke_certificate(sites / "authority", (bank / "startup" / "client.crt").read_bytes())[1]
    install_list(bank, listed)
    number = free_port()
    with listening(bank, number, monkeypatch) as monitor, connect(bank, number) as line:
        line.sendall(HEAD.pack(HEAD.size, 0, 1, 0, 0, 0, 0, 0))
        until(lambda: monitor.frames)


def test_a_client_gives_up_on_a_port_that_does_not_shake_hands(sites: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", 0.3)
    start = sites / "bank" / "startup"
    named = {"ca_cert": start / "rootCA.pem", "client_cert": start / "client.crt", "client_key": start / "client.key"}
    with socket.create_server((LOOPBACK, 0)) as mute:
        place = {"scheme": "stcp", "host": LOOPBACK, "port": str(mute.getsockname()[1])}
        params = {**place, **{k: str(v) for k, v in named.items()}}
        driver = BoundedDriver()
        connector = ConnectorInfo("CH2", driver, params, Mode.ACTIVE, 0, 0, False, threading.Event())
        with pytest.raises(TimeoutError):
            driver.connect(connector)


@pytest.fixture(params=["mute", "closes", "speaks no TLS"])
def other(request: pytest.FixtureRequest, sites: Path) -> Iterator[str]:
    """Something that is not the server, on its port."""

    def answer(line: socket.socket) -> None:
        with line:
            if request.param == "mute":
                line.settimeout(15)
                with pytest.raises(OSError):
                    while line.recv(1 << 12):
                        pass
                    raise ConnectionError
            elif request.param == "speaks no TLS":
                line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                line.recv(1 << 12)

    def accept(server: socket.socket) -> None:
        while True:
            try:
                line, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(line,), daemon=True).start()

    with socket.create_server((LOOPBACK, server_address(sites / "bank")[0].port)) as server:
        thread = threading.Thread(target=accept, args=(server,), daemon=True)
        thread.start()
        yield {
            "mute": "takes connections and does not shake hands within",
            "closes": "takes connections and closes them before a handshake: it is crowded, or not the server",
            "speaks no TLS": "does not speak TLS: something that is not the server answers",
        }[request.param]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def test_doctor_and_run_say_what_answers_in_the_servers_place(
    sites: Path, other: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("colonnade.flare.doctor.probe", functools.partial(probe, seconds=1.0))
    monkeypatch.setattr("colonnade.flare.coordinator.PROBE_SECONDS", 1.0)
    monkeypatch.setattr("colonnade.flare.coordinator.LEAST_TRY", 0.5)
    (told,) = (f for f in examine([sites / "coordinator"]) if f.about == "server")
    assert told.verdict == "fault" and other in told.sentence
    assert other in reachable(sites / "bank", "bank")
    # It may be the server again in a while: it is tried as long as it may be, and no longer.
    begun = time.monotonic()
    done = runner(monkeypatch, capfd)("run", sites / "coordinator", "--wait", "2", "--out", sites / "r.json")
    assert done.code == 1 and other in done.err and 1.9 < time.monotonic() - begun < 6.0


def test_a_server_that_shakes_hands_and_says_nothing_is_not_waited_for_longer(
    sites: Path, port: tuple[int, Monitor], tmp_path: Path
) -> None:
    """The engine's threads would keep the command from ending."""
    call = [sys.executable, "-m", "colonnade.cli", "run", str(sites / "coordinator"), "--wait", "3"]
    begun = time.monotonic()
    done = subprocess.run(call, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1 and "shakes hands and does not answer" in done.stderr and "Traceback" not in done.stderr
    assert time.monotonic() - begun < 60
