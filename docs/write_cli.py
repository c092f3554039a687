"""Writes docs/cli.md from the commands themselves; with --check it says whether the page is up to date."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command
from wrap import wrap

from colonnade.cli import app

PAGE = Path(__file__).resolve().parent / "cli.md"

OFTEN = 3
"""Commands that take the same parameter, from which on it is explained once."""
HEAD = """# The command line

This page is written by `python docs/write_cli.py`; a test compares it with the commands. What is in brackets may be
left out; "..." may be repeated. JSON_LINE

| exit code | |
|---|---|
| 0 | done |
| 1 | refused or failed: one sentence on standard error, nothing written |
| 2 | wrong usage |
| 130 | stopped by Ctrl-C; `run` ends its session for all first, and says what is spent. `party start` and `server start` also end on SIGTERM (143) and SIGHUP (129), [as on Ctrl-C](administrator.md#stopping-a-site) |

Progress goes to standard error, where that is a terminal. A file appears whole or not at all, and whether its place can
be written to is tried before a budget is spent. A release is not overwritten without `--force`; if a file appears at
its place meanwhile it gets a name beside it, such as `release-2.json`. A model, a report or scores replace what their
option names. If a release cannot be written at its end, the session counts as spent, and the release can be fetched
from others: `colonnade run FOLDER --fetch SESSION`. With `COLONNADE_TRACEBACK=1` a bug shows its traceback.
"""  # noqa: E501

JSON = """
## Keys of `--json`

| command | keys |
|---|---|
| `plan`, `fit`, `report` | `study`, `task`, `n`, `epsilon`, `delta`, `collusion`, `calibration`, `product`, `law`, `neighbours`, `released` (full or trace), `record` and `parties` with `epsilon` by view (null: no guarantee, or no such view with one party), `blocks` with `owners`, `role`, `name`, `terms`, `sensitivity`, `scale`, `scale_exact`, `noise_std`; `grid`, `error_factor`, `forecast` with `noise_to_signal`, `explained` (the middle) and `explained_range` of what noise leaves, `rows_needed` if columns fill their bounds evenly, `if_a_tenth` (the ratio if numbers fill a tenth of theirs) |
| `plan` | also `rows_assumed`, `expected` (bytes that each party `sent`, CPU `seconds` by step), `if_a_party_cheats` (for each pair what one could read of the other's column and key, and the bits of security left of it), `purposes` (for each what is released, the share `explained` of the label, `expected_tv` of tables and `independent_tv`), `terms_digest` (for `--approve`), `warnings` |
| `fit` | also `coefficients`, `intercept`, `label`, `method`, `ridge`, `effective_parameters`, `r_squared` with `r_squared_interval` (95%; both null where the release does not tell them) of the model; `seconds` in all and by `steps`; `bytes` with `sent` and `received` by party; `seeded`, `release` and `model` (paths), `ledger` (null if no party keeps one; else by party `file`, `data`, `cap`, `spent`), `terms_digest`, `warnings` |
| `report` | also the model's keys, `provenance`, `digest`, `flaws` (why no epsilon holds, if none does), `defects` of 0.1.0 that touch it ([upgrading](administrator.md#upgrading-from-010)), `release` (path) |
| `solve` | `study`, `n`, the model's keys, `model` (path); with `--path` a list `path` of models; a model of several classes also has `classes` with `coefficients` and `intercept` |
| `tables` | `study`, `n`, `margins` (`column`, `party`, `levels`, `count`, `low`, `high`), `numbers` (`column`, `party`, `mean`, `std`), `tables` (`columns`, `rows`, `levels`, `count`, `low`, `high`), `dependence` (`columns`, `information`, `low`, `high`, `p_value`, corrected for the `pairs` looked at), `tree` (pairs of columns), `expected_tv`, `independent_tv`; with one column `margins` alone, with two `tables` and `dependence` ([what they mean](release.md)) |
| `synthesize` | `study`, `rows`, `out` (path), `given`, `seed`, `expected_tv`, `independent_tv`, `converged`, `distance`, `misfit`, `unbinned`, `notes` |
| `components` | `columns`, `share`, `loadings` (one row for each component), `correlations`, `low`, `high`, `clear`, `notes` |
| `predict` | `study`, `task`, `label`, `rows`, and `ids` and `scores`, or with `--out` the path as `scores`; with `--study` also `receiver`, `parties` and `exact` ([what that means](predict-and-evaluate.md)) |
| `audit` | `study`, `product` (of the sessions), `delta`, `sessions`, `broken` (how many claims), and `views` with `view`, `changed` (parties), `knows` (parties), `claimed`, `pair` (epsilon of the pair by formula), `proved` (by `sessions`), `drawn` (by noise alone), `alike` (p-value), `broken` |
| `ledger show` | `ledger` (path), `accounts` with `data`, `cap`, `spent`, `pending`, `alignments`, `failed`, and `entries` ([what an entry says](ledger.md)) |
| `ledger verify` | `ledger`, `entries` (how many), `head` (the last hash), `defects` of 0.1.0 by entry with `stated` and `bound`, `unknown` (entries of 0.1.0 whose release was not given) |
| `ledger export` | `ledger`, `head`, `entries`; with `--out` the number of entries and the `file` |
| `ledger settle` | `ledger`, `entry` |
| `deploy new` | `folders` (paths), `authority` (path), `server`, `warnings` (sentences) |
| `run` | `study`, `n`, `session`, `release` (path), `seeded`, `bytes` with `sent` and `received` by party; with `--predict` `study`, `session`, `receiver`, `rows`, `scores` (path in the receiver's folder), `seeded`, `bytes` |

A number that is not finite is null. `params` and `conf_int` are in the units of the data; `coefficients` and `intervals` apply to coded features: a numeric column is -1 at its lower and 1 at its upper bound, an indicator is 0 or 1.
"""  # noqa: E501


def page() -> str:
    """The whole page."""
    group: Any = get_command(app)
    commands = list(_commands(group))
    silent = [f"`{name}`" for name, command in commands if not any("--json" in p.opts for p in command.params)]
    line = f"All but {', '.join(silent)} take `--json`: one JSON object, and nothing else ([keys](#keys-of-json))."
    parts = [HEAD.replace("JSON_LINE", line)]
    same = Counter(_line(p) for _, command in commands for p in command.params if "--json" not in p.opts)
    often = [text for text, times in same.items() if times >= OFTEN]
    parts.append(f"\n## What several commands take\n\n{''.join(often)}")
    for name, command in commands:
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        options = [p for p in command.params if p.param_type_name == "option" and "--json" not in p.opts]
        options = [p for p in options if not p.hidden]
        parts.append(f"\n## `{name}`\n\n{command.help.strip()}\n\n")
        lines = [*map(_line, arguments), *map(_line, options)]
        parts += [text for text in lines if text not in often]
        named = [text.partition(": ")[0].removeprefix("- ") for text in lines if text in often]
        parts += [f"- {', '.join(named)}\n"] if named else []
    return "".join([*parts, JSON])


def _commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every command, those of a group under its name."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield before + name, command


def _option(parameter: Any) -> str:
    return str(parameter.opts[0]) if parameter.is_flag else f"{parameter.opts[0]} {parameter.metavar}"


def _line(parameter: Any) -> str:
    """A parameter and what it is."""
    usage = parameter.metavar if parameter.param_type_name == "argument" else _usage(parameter)
    return f"- `{usage}`: {parameter.help}\n"


def _usage(parameter: Any) -> str:
    text = _option(parameter) + (" ..." if parameter.multiple else "")
    return text if parameter.required else f"[{text}]"


def main() -> None:
    if "--check" in sys.argv[1:]:
        if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != wrap(page()):
            sys.exit("docs/cli.md is not what the commands say: run python docs/write_cli.py")
        return
    PAGE.write_text(wrap(page()), encoding="utf-8")


if __name__ == "__main__":
    main()
