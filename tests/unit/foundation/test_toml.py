"""Whatever TOML is written reads back as what it was."""

from __future__ import annotations

import tomllib
from datetime import UTC, date, datetime, time

import pytest

from colonnade.foundation.errors import StudyError
from colonnade.foundation.toml import toml_key, toml_section, toml_value

VALUES = [
    True,
    -3,
    2.5,
    1e300,
    "",
    'a "quoted" \\ text',
    "\x00 \x1b \x7f \n \t “größer” \u2028 😀",
    ["a", 1, [True]],
    {"own": 0.5, "with space": {"x": []}},
    date(2026, 1, 2),
    time(3, 4, 5),
    datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_read_back(value: object) -> None:
    assert tomllib.loads(f"x = {toml_value(value)}")["x"] == value


@pytest.mark.parametrize("key", ["plain_key-1", "", "with space", "größe", "a.b", "--", '"'])
def test_keys_read_back(key: str) -> None:
    assert tomllib.loads(f"{toml_key(key)} = 1") == {key: 1}


def test_a_section_reads_back() -> None:
    assert tomllib.loads(toml_section("party.bank", {"data": "b.csv", "norm": 1.5})) == {
        "party": {"bank": {"data": "b.csv", "norm": 1.5}}
    }


def test_what_toml_cannot_say_is_refused() -> None:
    with pytest.raises(StudyError, match="texts, numbers, lists and tables, got None"):
        toml_value(None)
