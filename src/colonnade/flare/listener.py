"""The driver of every line between sites: the engine's own wire, on which nobody can hold up the others.

The engine's driver wraps the socket that listens in TLS, so that `accept` does the whole handshake: one connection that
says nothing stops it for everybody. Here each handshake has a thread and a deadline, one of the busiest address makes
room where too many wait without having shown a certificate, and a frame above what a session can need is refused by
its head.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections import Counter
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

from nvflare.fuel.f3.comm_error import CommError
from nvflare.fuel.f3.communicator import driver_mgr
from nvflare.fuel.f3.drivers.driver_params import DriverParams
from nvflare.fuel.f3.drivers.net_utils import MAX_HEADER_SIZE, get_ssl_context
from nvflare.fuel.f3.drivers.socket_conn import SocketConnection
from nvflare.fuel.f3.drivers.tcp_driver import TcpDriver
from nvflare.fuel.f3.sfm.prefix import PREFIX_LEN, Prefix

from colonnade.flare.certificates import refuse_revoked
from colonnade.foundation.randomness import Randomness
from colonnade.protocol.messages import LARGEST

HANDSHAKE_SECONDS = 10.0  # whoever connects and says nothing holds a thread so long at most
UNPROVEN = 64
"""Connections that may wait at once without having shown a certificate."""
LARGEST_FRAME = LARGEST + 2 * MAX_HEADER_SIZE
"""A session's largest message, with what the engine puts around it."""
WAITING = 128
"""Connections that the system keeps until they are accepted."""
log = logging.getLogger(__name__)


class BoundedConnection(SocketConnection):  # type: ignore[misc]
    """A line whose frames are bounded by what sessions need: the engine would take 2 GB on the word of 16 bytes."""

    def __init__(self, line: ssl.SSLSocket, connector: Any, first: bytes) -> None:
        super().__init__(line, connector, True)
        self._first = first
        """What has been read of the first frame."""

    def read_frame(self) -> bytearray:
        frame, known = bytearray(self._first.ljust(PREFIX_LEN)), len(self._first)
        self._first = b""
        self.read_into(frame, known, PREFIX_LEN - known)
        length = Prefix.from_bytes(frame).length
        if not PREFIX_LEN <= length <= LARGEST_FRAME:
            log.warning("a frame of %d bytes is refused: %s", length, self)
            raise CommError(CommError.BAD_DATA, f"a frame must have {PREFIX_LEN} to {LARGEST_FRAME} bytes")
        frame.extend(bytes(length - PREFIX_LEN))
        self.read_into(frame, PREFIX_LEN, length - PREFIX_LEN)
        return frame


class Port(ThreadingTCPServer):
    """Accepts at once, and shakes hands in a thread for each connection."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = WAITING

    def __init__(self, driver: BoundedDriver, params: dict[str, Any]) -> None:
        self._driver, self._lock, self._lots = driver, threading.Lock(), Randomness()
        self._unproven: dict[ssl.SSLSocket, str] = {}
        """Connections without a certificate yet, and whence they come."""
        self._context = _context(params, True)
        super().__init__((params[DriverParams.HOST.value], int(params[DriverParams.PORT.value])), BaseRequestHandler)
        # A party's port, which shows a client's certificate, is for its own processes: with a revoked one they must get
        # as far as to say so, or the others would wait for them.
        if params.get(DriverParams.SERVER_CERT.value):
            refuse_revoked(Path(params[DriverParams.CA_CERT.value]).parent.parent, self._context)

    def process_request(self, request: Any, client_address: Any) -> None:
        line = self._context.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            self._unproven[line] = client_address[0]
            if crowded := len(self._unproven) > UNPROVEN:
                dropped = self._draw(line)
                del self._unproven[dropped]
        if crowded:
            self._hang_up(dropped)
        super().process_request(line, client_address)

    def _draw(self, newest: ssl.SSLSocket) -> ssl.SSLSocket:
        """One that makes room: of the busiest address, so that whoever floods the port from one harms itself."""
        # By lot: behind a proxy, or under a flood from many addresses, the eldest would be whoever is far away.
        counts = Counter(self._unproven.values())
        most = max(counts.values())
        lines = [line for line, host in self._unproven.items() if counts[host] == most and line is not newest]
        return lines[int.from_bytes(self._lots.bytes(8), "big") % len(lines)]

    def finish_request(self, request: Any, client_address: Any) -> None:
        try:
            # The deadline is the whole handshake's, not each byte's.
            request.settimeout(HANDSHAKE_SECONDS)
            try:
                request.do_handshake()
            finally:
                with self._lock:
                    self._unproven.pop(request, None)
            # Who connects speaks first. Who only tried whether we shake hands is no news for the engine and its log.
            if not (first := request.recv(1)):
                return
            request.settimeout(None)
        except (OSError, ValueError) as error:
            log.info("no handshake with %s: %s", client_address, error)
            return
        self._driver.talk(request, first)

    @staticmethod
    def _hang_up(line: ssl.SSLSocket) -> None:
        """Its thread notices, and closes it."""
        try:
            socket.socket.shutdown(line, socket.SHUT_RDWR)
        except OSError as error:
            log.debug("it had gone by itself: %s", error)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.info("the connection of %s ended badly", client_address, exc_info=True)


class BoundedDriver(TcpDriver):  # type: ignore[misc]
    """Both ends of a line, always with certificates."""

    def listen(self, connector: Any) -> None:
        self.connector = connector
        with Port(self, connector.params) as self.server:
            self.server.serve_forever()

    def connect(self, connector: Any) -> None:
        self.connector = connector
        params = connector.params
        place = params[DriverParams.HOST.value], int(params[DriverParams.PORT.value])
        line = _context(params, False).wrap_socket(socket.create_connection(place, HANDSHAKE_SECONDS))
        line.settimeout(None)
        self.talk(line)

    def talk(self, line: ssl.SSLSocket, first: bytes = b"") -> None:
        """Read from a line that both sides have shown certificates on, until it ends."""
        connection = BoundedConnection(line, self.connector, first)
        self.add_connection(connection)
        connection.read_loop()
        self.close_connection(connection)


def _context(params: dict[str, Any], listens: bool) -> ssl.SSLContext:
    params[DriverParams.SECURE.value] = True
    made = get_ssl_context(params, ssl_server=listens)
    assert isinstance(made, ssl.SSLContext)
    return made


def use_driver() -> None:
    """Have the engine's lines go by this driver, in this process: folders name it as they name the engine's own."""
    driver_mgr.drivers |= dict.fromkeys(TcpDriver.supported_transports(), BoundedDriver)
    # Else its search for drivers would find its own, and log that the place is taken.
    driver_mgr.class_cache.add(TcpDriver.__name__)
