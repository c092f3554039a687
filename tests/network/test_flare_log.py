"""What FLARE's own log says of connections and jobs, and what becomes of that."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("nvflare", reason="the extra flare is not installed")

from nvflare.fuel.f3.endpoint import Endpoint
from nvflare.fuel.f3.sfm.sfm_endpoint import SfmEndpoint

from colonnade.flare.certificates import Address
from colonnade.flare.flare_log import (
    LINE_LOGGER,
    PARTY_LOGGER,
    SERVER_LOGGER,
    doubled,
    failed_party,
    watch_failures,
    watch_line,
    watch_server,
)

ENDPOINT = "nvflare.fuel.f3.sfm.sfm_endpoint"
MADE = "Connection [CN%05d 127.0.0.1:6089 => 127.0.0.1:5966 SSL localhost] is created: PID: 7"
GONE = "Connection [CN%05d Not Connected] is closed PID: 7"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Loggers heard, and afterwards as they were."""
    loggers = [logging.getLogger(name) for name in (ENDPOINT, LINE_LOGGER, PARTY_LOGGER, SERVER_LOGGER)]
    before = [list(logger.handlers) for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.INFO)
    yield
    for logger, handlers in zip(loggers, before, strict=True):
        logger.setLevel(logging.NOTSET)
        logger.handlers = handlers


def connection(name: str) -> SimpleNamespace:
    return SimpleNamespace(get_name=lambda: name, conn=SimpleNamespace(close=lambda: None))


def test_server_notices_connections_that_take_turns(tmp_path: Path) -> None:
    said: list[str] = []
    watch_server(tmp_path, said.append)
    endpoint = SfmEndpoint(Endpoint("bank"))
    endpoint.add_connection(connection("first"))
    assert doubled(tmp_path, ["bank"]) == ""
    # Once: a line that broke and came back.
    endpoint.add_connection(connection("second"))
    assert not said and doubled(tmp_path, ["bank"]) == ""
    endpoint.add_connection(connection("first again"))
    endpoint.add_connection(connection("second again"))
    assert len(said) == 1 and said[0].startswith("party bank is connected twice: two processes use its certificate")
    # A log cannot tell what is spent.
    assert "spent" not in said[0]
    assert doubled(tmp_path, ["bank", "town"]) == "bank"
    assert doubled(tmp_path, ["town"]) == ""
    # Another one that is doubled does not make the first forgotten.
    other = SfmEndpoint(Endpoint("town"))
    for name in ("first", "second", "third"):
        other.add_connection(connection(name))
    assert [doubled(tmp_path, [name]) for name in ("bank", "town")] == ["bank", "town"]


@pytest.fixture
def said() -> list[str]:
    told: list[str] = []
    watch_line("bank", Address("localhost", 5966), told.append, "waiting")
    return told


def test_sessions_come_and_go_without_a_word(said: list[str]) -> None:
    logger = logging.getLogger(LINE_LOGGER)
    logger.info(MADE, 1)
    assert said == ["connected to localhost:5966, waiting"]
    for number in range(100, 120):
        logger.info("Connection [CN%05d 127.0.0.1:1335 <= 127.0.0.1:3699 SSL bank] is created: PID: 7", number)
        logger.info(GONE, number)
    assert len(said) == 1


def test_server_that_is_stopped_and_comes_back(said: list[str]) -> None:
    logger = logging.getLogger(LINE_LOGGER)
    for number in (1, 2):
        logger.info(MADE, number)
        logger.info(GONE, number)
    both = ["connected to localhost:5966, waiting", "the line to localhost:5966 is broken, trying again"]
    assert said == [*both, *both]


def test_line_that_flickers_is_told_once_and_without_a_guess(said: list[str]) -> None:
    logger = logging.getLogger(LINE_LOGGER)
    for number in range(12):
        logger.info(MADE, number)
        logger.info(GONE, number)
    flickers = [text for text in said if "was made 5 times within two minutes" in text]
    assert len(flickers) == 1 and said[-1] == flickers[0] and len(said) == 9
    assert "it breaks, or another process uses the certificate of bank" in flickers[0]
    assert not any("spent" in text for text in said)


def test_party_whose_job_cannot_start_is_named(tmp_path: Path) -> None:
    told: list[str] = []
    watch_failures(tmp_path, "", told.append)
    (tmp_path / "0c40d202-3c07").mkdir()
    logger = logging.getLogger(f"{SERVER_LOGGER}.FederatedServer")
    logger.info("Failing job 0c40d202-3c07 due to reported failure from bank: infrastructure error")
    assert told[0].startswith("job 0c40d202: the session's process at bank could not start, or was ended (infra")
    assert failed_party(tmp_path / "0c40d202-3c07") == "bank"
    outcome = json.loads((tmp_path / "0c40d202-3c07" / "outcome.json").read_text())
    assert outcome["ok"] is False and "what is booked counts as spent" in outcome["sentence"]
    assert failed_party(tmp_path) == ""


@pytest.mark.parametrize("reason", ["\x1b[2J\x1b]0;owned\x07", "\u202egnorw", "x" * 5000])
def test_a_partys_words_reach_no_terminal_as_commands(tmp_path: Path, reason: str) -> None:
    told: list[str] = []
    watch_failures(tmp_path, "", told.append)
    (tmp_path / "0c40d202-3c07").mkdir()
    logging.getLogger(SERVER_LOGGER).info("Failing job 0c40d202-3c07 due to reported failure from bank: %s", reason)
    (sentence,) = told
    outcome = json.loads((tmp_path / "0c40d202-3c07" / "outcome.json").read_text())
    for text in (sentence, outcome["sentence"]):
        assert text.isprintable() and "bank" in text and reason not in text


def test_an_endpoints_name_reaches_no_terminal_as_a_command(tmp_path: Path) -> None:
    said: list[str] = []
    watch_server(tmp_path, said.append)
    endpoint = SfmEndpoint(Endpoint("bank\x1b]0;owned\x07"))
    for name in ("first", "second", "third"):
        endpoint.add_connection(connection(name))
    assert said and all(sentence.isprintable() for sentence in said)


def test_party_is_told_of_its_own_job_that_cannot_start(tmp_path: Path) -> None:
    told: list[str] = []
    watch_failures(tmp_path, "bank", told.append)
    logger = logging.getLogger(f"{PARTY_LOGGER}.JobExecutor")
    (tmp_path / "status.json").write_text('{"job": "7c5c28cc-c47c"}')
    logger.info("run (7c5c28cc-c47c): child worker process finished with RC 0")
    assert not told
    logger.info("run (0c40d202-3c07): child worker process finished with RC 104")
    assert told[0].startswith("job 0c40d202: its process ended before it began (code 104), and nothing is spent")
