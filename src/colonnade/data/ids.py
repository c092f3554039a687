"""Ids as texts that are matched: of one column or several, in the form that all parties agreed on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import polars as pl

from colonnade.data.storage import id_texts
from colonnade.foundation.errors import DataError
from colonnade.foundation.toml import toml_value

LETTERS = {"ß": "ss", "ẞ": "SS", "ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "đ": "d", "Đ": "D", "æ": "ae", "Æ": "AE"}
LETTERS |= {"œ": "oe", "Œ": "OE", "ı": "i"}
"""Letters that are no base letter with a mark."""
DAYS = ("%Y-%m-%d", "%d.%m.%Y", "%Y/%m/%d")
"""Dates that can be read in one way only."""
TOLD = {"strip": "spaces around them", "zeros": "leading zeros", "point": "a decimal point (123.0)"}
TRIED = ("strip", "unaccent", "case", "point", "zeros")
"""What forms are made of in which ids are compared, where they would match more people."""
LAST_TRIED = (("digits",), ("digits", "zeros"), ("dates",))
"""Where nobody matches in any of these: they leave less of an id, and may make those of two people one."""
FLOAT = r"^(\s*\d+)\.0+(\s*)$"
"""A whole number that a program wrote as a float."""
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
    if "point" in form or "digits" in form:
        texts = texts.str.replace(FLOAT, "${1}${2}")
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
        "point": texts.str.contains(FLOAT).sum(),
    }
    return {name: int(count) for name, count in counts.items() if count}


def common_in_forms(
    ids: Mapping[str, Sequence[str]], parts: int = 1, several: Collection[str] = ()
) -> dict[tuple[str, ...], tuple[int, int]]:
    """How many ids, each of so many parts, all parties have as they are and in each form that makes no two one.

    At the parties that have `several` rows a person, two may be those of one: beside the number that all have stands
    how many there are, its negative, so that a form under which fewer people have all rows is the larger one.
    """
    texts = [_parts(pl.Series(list(own), dtype=pl.String), parts) for own in ids.values()]
    plain = [_joined(own) for own in texts]

    def _worth(found: Sequence[pl.Series]) -> tuple[int, int]:
        return _common(found), -sum(own.n_unique() for party, own in zip(ids, found, strict=True) if party in several)

    out: dict[tuple[str, ...], tuple[int, int]] = {(): _worth(plain)}

    def _compare(form: Sequence[str]) -> None:
        found = [_joined([in_form(part, form) for part in own]) for own in texts]
        pairs = zip(ids, found, plain, strict=True)
        if all(one.n_unique() == two.n_unique() for party, one, two in pairs if party not in several):
            out[tuple(form)] = _worth(found)

    # All of them together match whatever any of them does.
    most = _worth([_joined([in_form(part, TRIED) for part in own]) for own in texts])
    for form in chain.from_iterable(combinations(TRIED, size) for size in range(1, len(TRIED) + 1)):
        if max(out.values()) >= most:
            break
        _compare(form)
    for form in LAST_TRIED if max(out.values())[0] < 2 else ():
        _compare(form)
    return out


def _parts(texts: pl.Series, parts: int) -> list[pl.Series]:
    """The parts that were joined."""
    rest, out = texts, list[pl.Series]()
    for _ in range(parts if parts > 1 else 0):
        size, rest = rest.str.extract(r"^(\d+):").cast(pl.Int64), rest.str.replace(r"^\d+:", "")
        cut = pl.DataFrame({"size": size, "rest": rest})
        own, rest = cut.select(
            own=pl.col("rest").str.slice(0, pl.col("size")), rest=pl.col("rest").str.slice(pl.col("size"))
        )
        out.append(own)
    return out or [texts]


def in_common(ids: Mapping[str, Sequence[str]]) -> int:
    """How many ids all parties have."""
    return _common([pl.Series(list(own), dtype=pl.String) for own in ids.values()])


def _common(texts: Sequence[pl.Series]) -> int:
    """How many of the first are in all."""
    first, *others = (pl.DataFrame({"id": own.unique()}).drop_nulls() for own in texts)
    for other in others:
        first = first.join(other, on="id", how="semi")
    return first.height


def written_differently(
    ids: Mapping[str, Sequence[str]], form: Sequence[str] = (), parts: int = 1, several: Collection[str] = ()
) -> tuple[str, str] | None:
    """What to say where ids match in another form and do not in the agreed one, and what their owners may write."""
    if sum(map(len, ids.values())) > MOST_COMPARED:
        return None
    worth = common_in_forms(ids, parts, several)
    best = min((each for each, found in worth.items() if found == max(worth.values())), key=len)
    common = {each: found for each, (found, _) in worth.items()}
    if common[best] == common[()]:
        return None
    more = {each: count for each, count in common.items() if each == best or (len(each) == 1 and count > common[()])}
    told = ", ".join(f"{count:,} with {' and '.join(each)}" for each, count in more.items())
    words = list(dict.fromkeys(word for word in (*form, *best) if word != "point"))
    write = [f"id_form = [{', '.join(toml_value(word) for word in words)}]"] if words else []
    write += ["ids as whole numbers, 123 and not 123.0"] * ("point" in best)
    where = ", ".join(ids)
    return f"ids are written differently at {where}: {common[()]:,} match as they are, {told}", "; ".join(write)


def require_same_forms(ids: Mapping[str, Sequence[str]], parts: int = 1, several: Collection[str] = ()) -> None:
    """Raise where ids would match in another form and do not as they are: to match some of them would tell nobody."""
    if (found := written_differently(ids, parts=parts, several=several)) is not None:
        told, write = found
        raise DataError(f"{told}; write {write} (id_form = [] in [study] if they are meant as they are)")
