"""Files appear whole or not at all, and a release is never written over."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from threading import Barrier, Thread
from types import SimpleNamespace
from typing import Any

import pytest

from colonnade.foundation.canonical import RELEASE_FORMAT
from colonnade.foundation.errors import StudyError
from colonnade.foundation.files import Place, keep_release, places, release_place
from colonnade.mechanism.release import write_sealed

RELEASE = write_sealed({"format": RELEASE_FORMAT, "blocks": []})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _no_links(*_: Any) -> None:
    raise OSError(errno.EPERM, "no links here")


@pytest.mark.parametrize("links", [True, False])
def test_a_place_that_is_taken_meanwhile_is_left_alone(
    links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", _no_links)
    path = tmp_path / "release.json"
    with places(release_place(path, force=False)) as (place,):
        path.write_bytes(b"dear")
        (tmp_path / "release-2.json").write_bytes(b"dear as well")
        place.write(RELEASE)
    assert place.path == tmp_path / "release-3.json" and place.path.read_bytes() == RELEASE
    assert path.read_bytes() == b"dear"
    assert names(tmp_path) == ["release-2.json", "release-3.json", "release.json"]


def test_many_writers_of_one_name_lose_nothing(tmp_path: Path) -> None:
    """All are told that the place is free, and write at once."""
    start, found = Barrier(8), dict[int, Path]()

    def write(k: int) -> None:
        with places(Place(tmp_path / "r.json", new=True)) as (place,):
            start.wait()
            place.write(str(k).encode())
            assert place.path is not None
            found[k] = place.path

    threads = [Thread(target=write, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found.values())) == 8 == len(names(tmp_path))
    assert all(path.read_bytes() == str(k).encode() for k, path in found.items())


def test_a_release_that_is_paid_for_is_kept_whatever_has_its_name(tmp_path: Path) -> None:
    path = tmp_path / "ab.json"
    assert keep_release(path, RELEASE) == path
    assert keep_release(path, RELEASE) == path and names(tmp_path) == ["ab.json"]
    assert keep_release(path, b"another") == tmp_path / "ab-2.json"
    assert path.read_bytes() == RELEASE
    assert oct(path.stat().st_mode & 0o777) == oct(0o666 & ~_mask())


def test_a_disk_that_fills_up_leaves_no_part_of_a_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a disk has no links the file is written under its own name, which half of it would keep for good."""
    monkeypatch.setattr(os, "link", _no_links)
    synced = os.fsync

    def fsync(handle: int) -> None:
        if os.readlink(f"/proc/self/fd/{handle}").endswith("ab.json"):
            raise OSError(errno.ENOSPC, "No space left on device")
        synced(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StudyError, match="no space left on device"):
        keep_release(tmp_path / "ab.json", RELEASE)
    assert names(tmp_path) == []


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_only_force_replaces_a_release(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(RELEASE)
    with pytest.raises(StudyError, match="not overwritten unless --force is given"):
        release_place(path, force=False)
    with pytest.raises(StudyError, match="a release is there, and is not overwritten"), places(path):
        pass
    with places(release_place(path, force=True)) as (place,):
        place.write(b"new")
    assert path.read_bytes() == b"new" and names(tmp_path) == ["r.json"]
    with places(path) as (place,):
        place.write(b"a model may be made again")
    assert path.read_bytes() == b"a model may be made again"


def test_a_run_across_machines_starts_nothing_where_its_release_cannot_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from colonnade.cli import deployment
    from colonnade.flare import coordinator
    from colonnade.sites import site

    def start(*_: Any) -> None:
        raise AssertionError("a session was started")

    monkeypatch.setattr(site, "find_site", lambda *_: SimpleNamespace())
    monkeypatch.setattr(coordinator, "run_session", start)
    out = tmp_path / "r.json"
    out.write_bytes(RELEASE)
    with pytest.raises(StudyError, match="unless --force is given"):
        deployment.run(tmp_path, out)
    with pytest.raises(AssertionError, match="a session was started"):
        deployment.run(tmp_path, out, force=True)
    assert out.read_bytes() == RELEASE and names(tmp_path) == ["r.json"]


def test_a_run_from_the_studio_keeps_both_releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from colonnade import runs
    from colonnade.studio import started

    place = tmp_path / "r.json"

    def meanwhile(_: Any, options: Any, observer: Any) -> SimpleNamespace:
        place.write_bytes(b"dear")
        observer.opened(None)
        return SimpleNamespace(outcome=None, unsettled={}, unkept=[])

    monkeypatch.setattr(started, "fit", meanwhile)
    monkeypatch.setattr(runs, "write_release", lambda _: RELEASE)
    run = started.Run(SimpleNamespace(), place, unbooked=True)  # type: ignore[arg-type]
    run.work()
    assert (run.error, run.place.name, place.read_bytes()) == ("", "r-2.json", b"dear")
    late = started.Run(SimpleNamespace(), place, unbooked=True)  # type: ignore[arg-type]
    late.work()
    assert "is here already and is not overwritten" in late.error and late.outcome is None
