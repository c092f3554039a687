"""`colonnade check`: what would refuse a run or spoil its result, in one list."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli.options import Json, Strict, path_argument
from colonnade.cli.screen import print_json, stdout


def check(
    study: Annotated[Path, path_argument("STUDY", "Study file, or the folder of a party's site.")],
    strict: Strict = False,
    json: Json = False,
) -> None:
    """List all that would refuse a run in one process, or spoil its result: nothing is spent. Exit 1 if one would be.

    It reads every party's records, and says what its owner may write; at a site it looks at the site's own part.
    """
    from colonnade.api.study import Study
    from colonnade.check import check_site
    from colonnade.sites.site import PARTY, read_site

    found = check_site(read_site(study, PARTY)) if study.is_dir() else Study.read(study).check(strict)
    if json:
        print_json(found.to())
    else:
        stdout().print(*found.lines, sep="\n", soft_wrap=True)
    if found.refused:
        raise typer.Exit(1)
