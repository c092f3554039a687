"""The line of every key, in texts that try to mislead whoever looks for it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.foundation.key_lines import KeyPath, key_lines, line_of
from colonnade.foundation.toml import toml_key, toml_value

HOSTILE = (
    '''# [not.a.table]
title = """
age = 1
[party.x]
\\""""
'''
    + """other = '''
[party]
'''''
[study] # a comment with ] and "
name = "a # no comment \\" = ["
'quo ted'."key\\u0041" = 1
a . b = { c = [1, # why
  { d = "}" }, { d = ']' },
], e = 2 }
[ party . "works.x" ]
data='[x]'
[[runs]]
n = 1979-05-27 07:32:00
[[runs]]
n = -inf
[runs.inner]
m = 0x1F
[party."works.x".columns]
age = { kind = "numeric", low = 1, high = 2 }
"""
)


def test_hostile_text() -> None:
    tomllib.loads(HOSTILE)
    lines = key_lines(HOSTILE)
    expected: dict[KeyPath, int] = {
        ("title",): 2,
        ("other",): 6,
        ("study",): 9,
        ("study", "name"): 10,
        ("study", "quo ted", "keyA"): 11,
        ("study", "a", "b"): 12,
        ("study", "a", "b", "c"): 12,
        ("study", "a", "b", "c", 1, "d"): 13,
        ("study", "a", "b", "c", 2, "d"): 13,
        ("study", "a", "b", "e"): 14,
        ("party", "works.x"): 15,
        ("party", "works.x", "data"): 16,
        ("runs", 0, "n"): 18,
        ("runs", 1, "n"): 20,
        ("runs", 1, "inner", "m"): 22,
        ("party", "works.x", "columns", "age", "low"): 24,
    }
    assert {path: lines.get(path) for path in expected} == expected
    assert line_of(lines, ("party", "works.x", "columns", "age", "fill")) == 24
    assert line_of(lines, ("party", "works.x", "columns", "nobody")) == 23
    assert line_of(lines, ("nowhere",)) is None


@pytest.mark.parametrize("text", ["[a", "a = ", "a = [1,", 'a = "x', "= 1", "[a]]\n[", "a = {b=", "\x00"])
def test_a_text_that_is_no_toml_has_no_lines_and_does_no_harm(text: str) -> None:
    assert key_lines(text) == {} or isinstance(key_lines(text), dict)


NAMES = st.text(min_size=1, max_size=6)
LEAVES = st.one_of(st.integers(-9, 9), st.booleans(), st.text(max_size=8), st.floats(allow_nan=False))
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)


def leaves(content: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    if isinstance(content, dict):
        for key, value in content.items():
            yield (*path, key)
            yield from leaves(value, (*path, key))
    elif isinstance(content, list):
        for place, value in enumerate(content):
            yield from leaves(value, (*path, place))


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES, max_size=3), max_size=3), st.integers(0, 2))
def test_every_key_of_any_text_has_its_line(content: dict[str, dict[str, Any]], gap: int) -> None:
    wanted: dict[KeyPath, int] = {}
    text = ""
    for name, table in content.items():
        text += "\n" * gap + f"[{toml_key(name)}] # a = 1\n"
        wanted[name,] = text.count("\n")
        for key, value in table.items():
            text += f"{toml_key(key)} = {toml_value(value)}\n"
            for path in ((name, key), *leaves(value, (name, key))):
                wanted[path] = text.count("\n")
    assert tomllib.loads(text) == content
    lines = key_lines(text)
    assert {path: lines.get(path) for path in wanted} == wanted
