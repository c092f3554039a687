"""A systemd unit's SystemCallFilter, loaded into a child as systemd would load it."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Callable
from ctypes.util import find_library
from pathlib import Path

ALLOW, KILL = 0x7FFF0000, 0x80000000
ERRNO = {"EPERM": 1}


def _calls(word: str) -> set[str]:
    """A call, or the members of a set of them."""
    if not word.startswith("@"):
        return {word}
    told = subprocess.run(["systemd-analyze", "syscall-filter", word], capture_output=True, text=True, check=True)
    members = [line.partition("#")[0].strip() for line in told.stdout.splitlines()[1:]]
    return {call for member in members if member for call in _calls(member)}


def filter_of(unit: Path) -> tuple[set[str], int]:
    """Calls that the unit allows, and what becomes of others: lists add up, and `~` takes away."""
    text = unit.read_text(encoding="utf-8")
    allowed = _calls("@default")
    for words in re.findall(r"^SystemCallFilter=(.+)$", text, re.MULTILINE):
        named = {call for word in words.lstrip("~").split() for call in _calls(word)}
        allowed = allowed - named if words.startswith("~") else allowed | named
    number = re.search(r"^SystemCallErrorNumber=(\w+)$", text, re.MULTILINE)
    return allowed, KILL if number is None else 0x00050000 | ERRNO[number[1]]


def loader(unit: Path) -> Callable[[], None]:
    """To be called in a child before it becomes another program; it gains no right by that, as in the unit."""
    allowed, otherwise = filter_of(unit)
    library = ctypes.CDLL(find_library("seccomp"))
    library.seccomp_init.restype = ctypes.c_void_p
    numbers = [library.seccomp_syscall_resolve_name(call.encode()) for call in allowed]

    def load() -> None:
        context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(otherwise)))
        for number in numbers:
            if number >= 0:
                library.seccomp_rule_add(context, ctypes.c_uint32(ALLOW), number, 0)
        if library.seccomp_load(context):
            raise OSError("the filter cannot be loaded")

    return load
