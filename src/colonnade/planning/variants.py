"""The same study under other terms, planned side by side: what more epsilon, other bounds or bins would change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from colonnade.foundation.errors import ColonnadeError, StudyError
from colonnade.foundation.names import Name
from colonnade.foundation.schema import Numeric
from colonnade.foundation.shown import number_of, shown
from colonnade.mechanism.accounting import check_epsilon
from colonnade.mechanism.forecast import Forecast, forecast
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import SessionPlan, plan_session

MOST_VARIANTS = 64  # a table that a person can read
Value = float | int | str
Choices = Mapping[str, Sequence[Value]]
"""What is to be varied, "epsilon" or "bins:age", and its values."""


@dataclass(frozen=True)
class Variant:
    """A study under other terms, planned; or why it cannot be."""

    chosen: Mapping[str, Value]
    agreement: Agreement | None
    session: SessionPlan | None
    refused: str | None = None
    forecast: Forecast | None = None
    """For data that lie in the bounds of the study as it is, whatever the bounds here."""

    def describe(self) -> dict[str, Any]:
        """One row of a comparison."""
        if self.session is None:
            return {"chosen": dict(self.chosen), "refused": self.refused}
        assert self.forecast is not None
        forecast = self.forecast
        return {
            "chosen": dict(self.chosen),
            "epsilon": self.session.plan.epsilon,
            "released": self.session.released,
            "noise_to_signal": forecast.noise_to_signal,
            "explained": forecast.explained,
            "explained_range": forecast.left and [forecast.left.low, forecast.left.high],
            # `explained` by its earlier name, for whoever reads --json.
            "explained_if_a_tenth": forecast.explained,
            "rows_needed": forecast.rows_needed,
            "warnings": self.session.warnings(),
        }


def vary(agreement: Agreement, choices: Choices) -> list[tuple[dict[str, Value], Agreement | str]]:
    """Every combination of the choices with the agreement that it means, or why there is none."""
    if not choices:
        raise StudyError("a comparison needs something to compare, such as epsilon=0.1,1")
    for name, values in choices.items():
        _setter(name)
        if not values:
            raise StudyError(f"{name} must have values to compare, got none")
    combined = [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]
    if len(combined) > MOST_VARIANTS:
        raise StudyError(f"at most {MOST_VARIANTS} plans are compared at once, got {len(combined)}")
    out: list[tuple[dict[str, Value], Agreement | str]] = []
    for chosen in combined:
        try:
            found = agreement
            for name, value in chosen.items():
                found = _setter(name)(found, name.partition(":")[2], value)
            out.append((chosen, found))
        except ColonnadeError as error:
            out.append((chosen, str(error)))
    return out


def compare(agreement: Agreement, rows: int, choices: Choices) -> list[Variant]:
    """Every combination of the choices, planned for n records; no data is touched."""
    out = []
    for chosen, found in vary(agreement, choices):
        if isinstance(found, str):
            out.append(Variant(chosen, None, None, found))
            continue
        try:
            session = plan_session(found, rows, bytes(32))
            expected = forecast(session.plan, rows, _filled(agreement, found), found.classes)
            out.append(Variant(chosen, found, session, forecast=expected))
        except ColonnadeError as error:
            out.append(Variant(chosen, found, None, str(error)))
    return out


def _filled(before: Agreement, after: Agreement) -> dict[Name, float]:
    """Each number's values beside its new bounds, where they lie in both: how many times as much of them they fill."""
    out: dict[Name, float] = {}
    for ref, column in after.schema.columns.items():
        old, new = before.schema.columns[ref].bounds, column.bounds
        if old is not None and new is not None:
            common = min(old[1], new[1]) > max(old[0], new[0])
            out[ref] = (old[1] - old[0]) / (new[1] - new[0]) if common else 1e-6
    return out


Setter = Callable[[Agreement, str, Value], Agreement]


def _setter(name: str) -> Setter:
    key, separator, column = name.partition(":")
    if key not in _SETTERS or (separator and (key not in ("bins", "bounds") or not column)):
        known = f"{', '.join(_SETTERS)}, bins:COLUMN and bounds:COLUMN"
        raise StudyError(f"a comparison is of {known}, got {shown(name)}")
    return _SETTERS[key]


def _epsilon(agreement: Agreement, _: str, value: Value) -> Agreement:
    if agreement.budget.epsilon is None:
        raise StudyError("epsilon can be compared where the study states one; here each party states its own")
    return agreement.with_terms(epsilon=check_epsilon(_number(value, "epsilon")))


def _number(value: Value, name: str) -> float:
    if isinstance(value, str):
        raise StudyError(f"{name} must be a number, got {name}={shown(value)}")
    return value


def _whole(value: Value, name: str) -> int:
    if not isinstance(value, int):
        raise StudyError(f"{name} must be a whole number, got {name}={shown(value)}")
    return value


def _bins(agreement: Agreement, column: str, value: Value) -> Agreement:
    """So many bins of equal width; 0 and 1 leave the number as it is."""
    count = _whole(value, "bins")
    if not 0 <= count <= 1000:
        raise StudyError(f"bins must be between 0 and 1000, got bins={count}")

    def cut(found: Numeric) -> Numeric:
        step = (found.high - found.low) / max(count, 1)
        return replace(found, bins=tuple(found.low + k * step for k in range(1, count)))

    return _numbers(agreement, column, cut)


def _bounds(agreement: Agreement, column: str, value: Value) -> Agreement:
    """Bounds as many times as wide, from the same low; or of one column "low..high"."""
    if isinstance(value, str):
        low, separator, high = value.partition("..")
        try:
            ends = float(low), float(high)
        except ValueError:
            separator = ""
        if not separator or not column:
            told = 'a factor, or of one column "low..high"'
            raise StudyError(f"bounds must be {told}, got bounds={shown(value)}")
        return _numbers(agreement, column, lambda found: _within(found, *ends))
    if not value > 0:
        raise StudyError(f"bounds must be a positive factor, got bounds={value}")
    return _numbers(agreement, column, lambda f: _within(f, f.low, f.low + value * (f.high - f.low)))


def _within(column: Numeric, low: float, high: float) -> Numeric:
    fill = None if column.fill is None else min(max(column.fill, low), high)
    return replace(column, low=low, high=high, bins=tuple(b for b in column.bins if low < b < high), fill=fill)


def _numbers(agreement: Agreement, column: str, change: Callable[[Numeric], Numeric]) -> Agreement:
    """The agreement with one numeric column changed, or all of them but the label."""
    schema, label = agreement.schema, agreement.schema.find(agreement.label)
    one = schema.find(column) if column else None
    if one is not None and not isinstance(schema.columns[one], Numeric):
        raise StudyError(f"bins and bounds are of numeric columns, got {column}")
    numbers = {ref: found for ref, found in schema.columns.items() if isinstance(found, Numeric)}
    wanted = [ref for ref in numbers if (ref != label if one is None else ref == one)]
    return replace(agreement, schema=schema.changed({ref: change(numbers[ref]) for ref in wanted}))


_SETTERS: Mapping[str, Setter] = {
    "epsilon": _epsilon,
    "delta": lambda agreement, _, value: replace(agreement, delta=_number(value, "delta")),
    "collusion": lambda agreement, _, value: replace(agreement, collusion=_whole(value, "collusion")),
    "release": lambda agreement, _, value: agreement.with_terms(release=str(value)),
    "bins": _bins,
    "bounds": _bounds,
}


def read_choices(texts: Sequence[str]) -> dict[str, list[Value]]:
    """Choices as a person writes them: "epsilon=0.1,1"."""
    out: dict[str, list[Value]] = {}
    for text in texts:
        # No value has such a mark, and a column's name may.
        name, separator, values = text.rpartition("=")
        name = name.strip()
        if not separator or not values.strip():
            raise StudyError(f'a comparison is written as "epsilon=0.1,1", got {shown(text)}')
        if name in out:
            raise StudyError(f"{name} can be compared once, got it twice")
        out[name] = [number_of(part) for part in values.split(",") if part.strip()]
    return out
