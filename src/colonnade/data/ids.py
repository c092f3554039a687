"""Ids as texts that are matched: of one column or several, in the form that all parties agreed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from colonnade.data.storage import id_texts
from colonnade.foundation.errors import DataError

LETTERS = {"ß": "ss", "ẞ": "SS", "ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "đ": "d", "Đ": "D", "æ": "ae", "Æ": "AE"}
LETTERS |= {"œ": "oe", "Œ": "OE", "ı": "i"}
"""Letters that are no base letter with a mark."""
DAYS = ("%Y-%m-%d", "%d.%m.%Y", "%Y/%m/%d")
"""Dates that can be read in one way only."""
TOLD = {"strip": "spaces around them", "zeros": "leading zeros", "point": "a decimal point (123.0)"}
TRIED = (
    *(("strip",), ("zeros",), ("case",), ("unaccent",), ("strip", "zeros"), ("strip", "case"), ("unaccent", "case")),
    ("strip", "unaccent", "case", "zeros"),
)
"""Forms of which a study is told, where they would match more people."""
MOST_COMPARED = 1 << 21
"""Ids of all parties together, above which they are not compared in other forms."""


@dataclass(frozen=True)
class IdColumns:
    """The columns that make an id, and what is done to each part."""

    columns: tuple[str, ...]
    form: tuple[str, ...] = ()
    dates: str = ""
    """How dates in them are written, beside the forms that can be read in one way only."""

    @property
    def name(self) -> str:
        return "+".join(self.columns)

    @property
    def plain(self) -> bool:
        """Whether ids are the texts of one column."""
        return len(self.columns) == 1 and not self.form

    def texts(self, frame: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
        """The ids of a block's rows, and the same as they stand in the file; none where a part is missing."""
        raw = [id_texts(frame.get_column(name)) for name in self.columns]
        if self.plain:
            return raw[0], raw[0]
        parts = [in_form(part, self.form, self.dates) for part in raw]
        return _joined(parts), _joined(raw)


def ids_of(column: str | IdColumns | None) -> IdColumns | None:
    return IdColumns((column,)) if isinstance(column, str) else column


def id_names(column: str | IdColumns | None) -> tuple[str, ...]:
    """The columns of a file that ids are made of."""
    found = ids_of(column)
    return () if found is None else found.columns


def _joined(parts: Sequence[pl.Series]) -> pl.Series:
    """One text of several, each with its length before it, so that no two rows of parts give the same."""
    if len(parts) == 1:
        return parts[0]
    frame = pl.DataFrame([part.alias(str(k)) for k, part in enumerate(parts)])
    written = [pl.format("{}:{}", pl.col(name).str.len_chars(), pl.col(name)) for name in frame.columns]
    some = pl.any_horizontal(pl.all().is_null())
    return frame.select(pl.when(some).then(None).otherwise(pl.concat_str(written)).alias("id")).to_series()


def in_form(texts: pl.Series, form: Sequence[str], dates: str = "") -> pl.Series:
    """Ids in a form; one of which nothing is left is none."""
    if "strip" in form:
        texts = texts.str.strip_chars()
    if "unaccent" in form:
        texts = texts.str.normalize("NFKD").str.replace_all(r"\p{M}", "")
        texts = texts.str.replace_many(list(LETTERS), list(LETTERS.values()))
    if "case" in form:
        texts = texts.str.to_lowercase()
    if "dates" in form:
        for day in dict.fromkeys([*([dates] if dates else []), *DAYS]):
            found = texts.str.to_date(day, strict=False)
            # The library passes over spaces, which another form takes away.
            found = found.set((found.dt.year() < 1000) | (texts.str.strip_chars() != texts), None)
            texts = found.dt.to_string("%Y-%m-%d").zip_with(found.is_not_null(), texts)
    if "digits" in form:
        texts = texts.str.replace_all(r"[^0-9]", "")
    if "zeros" in form:
        some = texts != ""
        texts = texts.str.strip_chars_start("0")
        texts = texts.set(some & (texts == ""), "0")
    return texts.set(texts == "", None)


def forms_found(texts: pl.Series) -> dict[str, int]:
    """How many ids have spaces around them, zeros before them, or the point of a float."""
    counts = {
        "strip": (texts.str.strip_chars() != texts).sum(),
        "zeros": texts.str.contains(r"^\s*0\d").sum(),
        "point": texts.str.contains(r"^\s*\d+\.0+\s*$").sum(),
    }
    return {name: int(count) for name, count in counts.items() if count}


def common_in_forms(ids: Mapping[str, Sequence[str]]) -> dict[tuple[str, ...], int]:
    """How many ids all parties have as they are, and in each form in which no two of a party's become one."""
    texts = [pl.Series(list(own), dtype=pl.String) for own in ids.values()]
    out: dict[tuple[str, ...], int] = {(): _common(texts)}
    # The last does all that the others do: what does not match in it matches in none.
    if _common([in_form(own, TRIED[-1]) for own in texts]) == out[()]:
        return out
    for form in TRIED:
        found = [in_form(own, form) for own in texts]
        if all(one.n_unique() == two.n_unique() for one, two in zip(found, texts, strict=True)):
            out[form] = _common(found)
    return out


def _common(texts: Sequence[pl.Series]) -> int:
    """How many of the first are in all."""
    first, *others = (pl.DataFrame({"id": own}).drop_nulls() for own in texts)
    for other in others:
        first = first.join(other, on="id", how="semi")
    return first.height


def better_form(ids: Mapping[str, Sequence[str]]) -> tuple[int, tuple[str, ...], int] | None:
    """How many ids match, the shortest form in which most do, and how many then; None where no form matches more."""
    if sum(map(len, ids.values())) > MOST_COMPARED:
        return None
    common = common_in_forms(ids)
    most = max(common.values())
    best = min((form for form, count in common.items() if count == most), key=len)
    return (common[()], best, most) if best else None


def require_same_forms(ids: Mapping[str, Sequence[str]]) -> None:
    """Raise where ids would match in another form and do not as they are: to match some of them would tell nobody."""
    if (found := better_form(ids)) is not None:
        now, form, then = found
        listed = ", ".join(f'"{name}"' for name in form)
        raise DataError(
            f"ids are written differently at {', '.join(ids)}: {now:,} match as they are, {then:,} with "
            f"id_form = [{listed}] in [study] (id_form = [] if that is meant)"
        )
