"""Two processes with one certificate: what FLARE's own log says of it, and what becomes of that."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("nvflare", reason="the extra flare is not installed")

from nvflare.fuel.f3.endpoint import Endpoint
from nvflare.fuel.f3.sfm.sfm_endpoint import SfmEndpoint

from colonnade.network.doubles import Doubles, doubled, watch_party, watch_server

LOGGERS = ("nvflare.fuel.f3.sfm.sfm_endpoint", "nvflare.fuel.f3.sfm.conn_manager")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Loggers as they were."""
    yield
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(logging.NOTSET)
        logger.handlers = [handler for handler in logger.handlers if not isinstance(handler, Doubles)]


def connection(name: str) -> SimpleNamespace:
    return SimpleNamespace(get_name=lambda: name, conn=SimpleNamespace(close=lambda: None))


def test_server_notices_connections_that_take_turns(tmp_path: Path) -> None:
    said: list[str] = []
    watch_server(tmp_path, said.append)
    logging.getLogger(LOGGERS[0]).setLevel(logging.INFO)
    endpoint = SfmEndpoint(Endpoint("bank"))
    endpoint.add_connection(connection("first"))
    assert doubled(tmp_path, ["bank"]) == ""
    # Once: a line that broke and came back.
    endpoint.add_connection(connection("second"))
    assert not said and doubled(tmp_path, ["bank"]) == ""
    endpoint.add_connection(connection("first again"))
    endpoint.add_connection(connection("second again"))
    assert said == [
        "party bank is connected twice: two processes use its certificate; no session starts, nothing is spent"
    ]
    assert doubled(tmp_path, ["bank", "town"]) == "bank"
    assert doubled(tmp_path, ["town"]) == ""


def test_party_notices_that_its_connection_is_taken() -> None:
    said: list[str] = []
    watch_party("bank", said.append)
    logger = logging.getLogger(LOGGERS[1])
    logger.setLevel(logging.INFO)
    made = "Connection [CN%05d 127.0.0.1:6089 => 127.0.0.1:5966 SSL localhost] is created: PID: 7"
    for number in range(4):
        logger.info(made, number)
        # Every session of this site comes and goes by a connection of its own, and is nobody's double.
        logger.info("Connection [CN%05d 127.0.0.1:1335 <= 127.0.0.1:3699] is created: PID: 7", 100 + number)
        logger.info("Connection [CN%05d Not Connected] is closed PID: 7", 100 + number)
    assert not said
    logger.info(made, 4)
    assert len(said) == 1
