"""A model as a file, and scores by it: of files in one place, or of what one party opened across parties."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.analysis.model import FitOutcome, FittedModel
from colonnade.data.sources import AddressSource, FileSource, Source, by_party, of_parties, source_at
from colonnade.foundation.canonical import MODEL_FORMAT
from colonnade.foundation.errors import ColonnadeError, DataError, ReleaseError, StudyError
from colonnade.foundation.matching import AS_THEY_ARE, IdTerms
from colonnade.foundation.names import ColumnRef, Coordinate, plain_cell, require_texts
from colonnade.foundation.schema import Column, Schema, column_to
from colonnade.mechanism.moments import Floats, Layout
from colonnade.mechanism.release import ReleaseRecord, digest, read_sealed, write_sealed
from colonnade.planning.prediction import Prediction

if TYPE_CHECKING:
    from colonnade.analysis.intervals import Intervals
    from colonnade.analysis.request import ModelRequest
    from colonnade.data.table import Look, Table
    from colonnade.protocol.predict import OpenedScores


@dataclass(frozen=True)
class PublicModel:
    """A model with the public facts that raw data needs to be scored by it."""

    model: FittedModel
    study: str
    schema: Schema
    declared: str
    """The label that the study named; a model of another column of the same release has another label."""
    release: str
    """Digest of the release that the model was computed from."""
    interactions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each feature that is a product, the coordinates that are multiplied."""
    notes: tuple[str, ...] = ()
    """What the release says of the columns; a model's file has none."""

    @property
    def warnings(self) -> list[str]:
        """What a reader has to know before using the model."""
        outcome = self.model.outcome
        return [*([outcome.why] if outcome is not None and outcome.why else []), *self.notes]

    def owners(self, feature: str) -> tuple[str, ...]:
        """The parties that a feature's values come from: several for an interaction, none for a parameter."""
        if self.is_declared:
            return ()
        return tuple(dict.fromkeys(factor.of.party for factor in self.factors[feature]))

    @property
    def is_declared(self) -> bool:
        """Whether these are the parameters of a declared objective, which is no function of a record."""
        return self.model.is_declared

    @cached_property
    def factors(self) -> dict[str, tuple[Coordinate, ...]]:
        """Of each feature the coordinates that it is a product of, mostly one; names of two meanings are refused."""
        if self.is_declared:
            raise StudyError("a declared objective has parameters and no scores: it cannot be applied to records")
        return factors_of(self.schema, self.model.features, self.interactions)

    def needs(self) -> dict[str, dict[str, Column]]:
        """The columns that each party needs for its partial score; a party without any is left out."""
        out: dict[str, dict[str, Column]] = {}
        for ref in (factor.of for factors in self.factors.values() for factor in factors):
            own = self.schema.parties[ref.party]
            for each in (*own[ref.column].sources, ref.column):
                out.setdefault(ref.party, {})[each] = own[each]
        return out

    @cached_property
    def about(self) -> Coordinate:
        """The label: its column, or the level of it that the model is of."""
        try:
            return Coordinate(self.schema.find(self.model.label))
        except ColonnadeError:
            text = self.model.label
            return _one(text, self.schema.named.readings(text) or self.schema.qualified.readings(text))

    @property
    def label(self) -> tuple[str, Column, str | None]:
        """The label's column, and the level that the model is about where it is about one."""
        ref, place = self.about
        name, column = self.schema.title(ref), self.schema.columns[ref]
        return name, column, column.positive if place is None else column.levels_of(ref.column)[place]


def factors_of(
    schema: Schema, features: Sequence[str], interactions: Mapping[str, tuple[str, ...]] | None = None
) -> dict[str, tuple[Coordinate, ...]]:
    """Of each feature of a model the coordinates that it is a product of, mostly one."""
    products = interactions or {}
    found = {}
    for feature in features:
        read = schema.named.readings(feature)
        if feature in products and read:
            _one(feature, read, " and a product")
        texts = products.get(feature, (feature,))
        found[feature] = tuple(_one(text, schema.named.readings(text)) for text in texts)
    return found


def _one(text: str, found: Sequence[Coordinate], besides: str = "") -> Coordinate:
    """The one coordinate that a text of a model means: files of earlier versions may have texts of two meanings."""
    if len(found) > 1 or besides:
        told = " and ".join(f"column {place.of.column} of {place.of.party}" for place in found)
        raise ReleaseError(f"feature {text} of the model may be of {told}{besides}: their names are alike")
    if not found:
        raise ReleaseError(f"feature {text} of the model belongs to no declared column")
    return found[0]


def publish(release: ReleaseRecord, model: FittedModel, notes: Sequence[str] = ()) -> PublicModel:
    """A model of a release, with the release's public facts, and notes on its columns."""
    agreement = release.agreement
    named = Counter(release.layout.names)
    for feature in () if model.is_declared else model.features:
        if named[feature] > 1:
            # What a record has of it could not be told: this says between what.
            release.layout.find(feature)
    public = PublicModel(
        _with_whole_label(release, model),
        str(agreement["name"]),
        as_taken(release.schema, model.features),
        str(agreement["label"]),
        digest(release.to()),
        {f: c for f, c in interactions_of(release.layout).items() if f in model.features},
        tuple(notes),
    )
    name, _, level = public.label
    if model.is_log_odds and level is None:
        raise StudyError(f"the label of a logistic regression must be binary or a level, got column {name}")
    return public


def solved(wanted: ModelRequest) -> PublicModel:
    """The model that a request asks for, with its notes."""
    return publish(wanted.release, wanted.model(), wanted.notes)


def own_model(release: ReleaseRecord) -> tuple[PublicModel, Intervals]:
    """The model that a release was made for, and how sure its coefficients are."""
    from colonnade.analysis.request import ModelRequest

    wanted = ModelRequest(release)
    return solved(wanted), wanted.certainty()


def as_taken(schema: Schema, features: Sequence[str]) -> Schema:
    """The schema with those numbers uncut that were released by their bins, and stand in the model themselves."""
    taken = {
        party: {
            name: column.uncut if schema.title(ColumnRef(party, name)) in features else column
            for name, column in columns.items()
        }
        for party, columns in schema.parties.items()
    }
    return Schema(taken)


def interactions_of(layout: Layout) -> dict[str, tuple[str, ...]]:
    """The coordinates that each interaction of a release is a product of."""
    products = (layout.starts[i] for i, a in enumerate(layout.attributes) if a.ref is None)
    return {layout.names[at]: tuple(layout.names[c] for c in layout.factors[at]) for at in products}


def _with_whole_label(release: ReleaseRecord, model: FittedModel) -> FittedModel:
    """A numeric label that is a feature here was released as two halves: (1+y)/2 becomes y, as records have it."""
    layout, label = release.layout, release.layout.label
    upper, ref = layout.names[layout.span(label).stop - 1], layout.attributes[label].ref
    whole = ref is None or release.schema.columns[ref].has_levels or layout.is_number(layout.starts[label])
    if whole or upper not in model.features:
        return model
    at, name = model.features.index(upper), layout.columns[label]

    # Where y stands for (1+y)/2, half of a coefficient goes to the constant.
    return model.renamed(at, name, 0.5, 0.5)


def write_model(public: PublicModel) -> bytes:
    """The bytes of a model file."""
    model = public.model
    fields: dict[str, Any] = {
        "task": model.task,
        "label": model.label,
        "features": list(model.features),
        "coefficients": list(model.coefficients),
        "intercept": model.intercept,
        "method": model.method,
        # No ridge says an infinite one, and nan that the release does not tell.
        "ridge": model.ridge if math.isfinite(model.ridge) else "nan" if math.isnan(model.ridge) else None,
        "freedom": model.freedom,
        "r_squared": model.r_squared if math.isfinite(model.r_squared) else None,
    }
    # Left out where there is none, as in files from before they were stated.
    if model.r_squared_interval is not None:
        fields["r_squared_interval"] = list(model.r_squared_interval)
    if model.classes:
        fields |= {"classes": list(model.classes), "by_class": list(map(list, model.weights))}
        fields["intercepts"] = list(model.constants)
    if model.outcome is not None:
        fields["outcome"] = outcome_facts(model.outcome)
    content = {
        "format": MODEL_FORMAT,
        "model": fields,
        "study": public.study,
        "schema": public.schema.to(),
        "declared": public.declared,
        "release": public.release,
    }
    if public.interactions:
        content["interactions"] = {name: list(factors) for name, factors in public.interactions.items()}
    return write_sealed(content)


def read_model(data: bytes) -> PublicModel:
    """The model in a file's bytes; refuses a file that was altered."""
    content = read_sealed(data, MODEL_FORMAT, "model")
    try:
        return _parse(content)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        raise ReleaseError("the model file cannot be read: it is not a complete model") from None


def _parse(content: Mapping[str, Any]) -> PublicModel:
    require_texts("a text of a model", content, ReleaseError)
    fields = dict(content["model"])
    named = (*fields["features"], fields["label"], content["declared"], *fields.get("classes", ()))
    if not all(isinstance(text, str) for text in named):
        raise ValueError("features, classes and labels are texts")
    rows, constants = [fields["coefficients"]], [fields["intercept"]]
    if classes := tuple(fields.get("classes", ())):
        rows, constants = fields["by_class"], fields["intercepts"]
        if not len(rows) == len(constants) == len(classes):
            raise ValueError("as many rows of coefficients and intercepts as classes")
    if any(len(row) != len(fields["features"]) for row in (*rows, fields["coefficients"])):
        raise ValueError("as many coefficients as features")
    ridge, r_squared, interval = fields["ridge"], fields["r_squared"], None
    if "r_squared_interval" in fields:
        low, high = (float(end) for end in fields["r_squared_interval"])
        interval = (low, high)
    model = FittedModel(
        fields["task"],
        fields["label"],
        tuple(fields["features"]),
        tuple(tuple(float(v) for v in row) for row in rows),
        tuple(float(b) for b in constants),
        fields["method"],
        math.inf if ridge is None else float(ridge),
        float(fields["freedom"]),
        math.nan if r_squared is None else float(r_squared),
        interval,
        classes,
        outcome=_outcome(fields["outcome"]) if "outcome" in fields else None,
    )
    products = {str(name): tuple(map(str, factors)) for name, factors in content.get("interactions", {}).items()}
    return PublicModel(
        model, content["study"], Schema.of(content["schema"]), content["declared"], content["release"], products
    )


def outcome_facts(outcome: FitOutcome) -> dict[str, Any]:
    """What the gate said of a model, for its file and for programs; without what files did not always say."""
    known = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(outcome).items()}
    since = ("because", "converged", "asked", "used") if not outcome.because else ()
    return {k: v for k, v in known.items() if k not in since}


def _outcome(kept: Mapping[str, Any]) -> FitOutcome:
    """What the gate said of a model, from its file."""
    gain, error = (math.nan if kept[key] is None else float(kept[key]) for key in ("gain", "error"))
    because, asked, used = str(kept.get("because", "")), dict(kept.get("asked", {})), dict(kept.get("used", {}))
    first = (str(kept["estimator"]), str(kept["why"]), bool(kept["fell_back"]), gain, error)
    return FitOutcome(*first, because, bool(kept.get("converged", True)), asked, used)


def partial_scores(table: Table, model: FittedModel, factors: Mapping[str, tuple[Coordinate, ...]]) -> Floats:
    """One party's part of every record's score (a column for each class): its own coordinates, weighted.

    Of products of coordinates those count whose `factors` are all its own.
    """
    return _weighted(table.coordinates(), model, factors, table.rows)


def _weighted(
    values: Mapping[Coordinate, Floats], model: FittedModel, factors: Mapping[str, tuple[Coordinate, ...]], rows: int
) -> Floats:
    """The sum of these coordinates, and of the interactions among them, times their weights."""
    several, by_feature = bool(model.classes), np.array(model.weights).T
    score: Floats = np.zeros((rows, len(model.weights)))
    for name, weight in zip(model.features, by_feature, strict=True):
        if all(factor in values for factor in factors[name]):
            found = np.prod([values[factor] for factor in factors[name]], axis=0)
            score += found[:, None] * weight
    return score if several else score[:, 0]


def parts_to_open(table: Table, public: PublicModel) -> Floats:
    """One party's part of the scores that a prediction across parties opens: of several classes no more than needed."""
    part = partial_scores(table, public.model, public.factors)
    if public.model.classes:
        # Chances depend on differences alone: the first class's own score would be one number more to learn from.
        return part[:, 1:] - part[:, :1]
    return part


def predict(public: PublicModel, total: Floats) -> Floats:
    """From the sum of all partial scores to a probability, or to the label's own units."""
    from colonnade.analysis.families import FAMILIES

    model, (_, column, level) = public.model, public.label
    score = total + (np.array(model.constants) if model.classes else model.intercept)
    family = FAMILIES[model.task]
    if not family.identity or (column.bounds is not None and level is None):
        return family.predicted(score, column)
    # A linear model of a level: the declared label stands as -1 and 1, any other level as 0 and 1.
    declared = public.schema.find(public.declared) == public.about.of
    return np.clip((score + 1.0) / 2.0 if declared else score, 0.0, 1.0)


@dataclass(frozen=True)
class Scores:
    """Every scored record's prediction, with its id where there are ids."""

    ids: Sequence[str] | None
    values: Floats
    id_column: str | None = None
    """What the ids are called."""


def score_files(
    public: PublicModel,
    files: Sequence[str],
    ids: str | Sequence[str] | None = None,
    *,
    look: Look | None = None,
    strict: bool = False,
    queries: Sequence[str] = (),
) -> Scores:
    """Scores of records whose columns lie in one wide file, or in one file for each party.

    Several files are matched by their ids, or row by row where no id column is named. An id column is that of all
    files, or as "party=column" that of one. A file may be a database's address, with its query in `queries` as
    "party=select ...".
    """
    parts: list[tuple[Sequence[str] | None, dict[Coordinate, Floats]]] = []
    places, ids_of = _places(public, files, queries), _id_columns(public, [ids] if isinstance(ids, str) else ids or ())
    for party, columns in public.needs().items():
        table = Source(places[party], ids_of.get(party)).read(party, columns).require_fit(strict, look)
        parts.append((table.ids, table.coordinates()))
    name = next(iter(ids_of.values()), None)
    return _added_up(public, parts, bool(ids_of) and len({places[p] for p in public.needs()}) > 1, name)


def score_tables(public: PublicModel, tables: Mapping[str, Table], matched: bool, id_column: str | None) -> Scores:
    """Scores of records in each party's table, `matched` by their ids, or row by row."""
    parts = [(tables[party].ids, tables[party].coordinates()) for party in public.needs()]
    return _added_up(public, parts, matched, id_column)


def _added_up(
    public: PublicModel,
    parts: Sequence[tuple[Sequence[str] | None, Mapping[Coordinate, Floats]]],
    matched: bool,
    name: str | None,
) -> Scores:
    """Every record's score, from the parties' coordinates."""
    if not parts:
        raise StudyError(f"the model of {public.model.label} has no feature to score")
    if matched:
        common, values = _common([part[0] or () for part in parts]), dict[Coordinate, Floats]()
        for ids, own in parts:
            row = {one: k for k, one in enumerate(ids or ())}
            order = np.array([row[one] for one in common])
            values |= {place: found[order] for place, found in own.items()}
        total = _weighted(values, public.model, public.factors, len(common))
        return Scores(common, predict(public, total), name)
    rows = {party: len(next(iter(own.values()))) for party, (_, own) in zip(public.needs(), parts, strict=True)}
    if len(set(rows.values())) > 1:
        told = ", ".join(f"{name} {n}" for name, n in rows.items())
        raise DataError(f"data without an id column must hold the same records row by row, got rows {told}")
    values = {c: found for _, own in parts for c, found in own.items()}
    total = _weighted(values, public.model, public.factors, next(iter(rows.values())))
    return Scores(parts[0][0], predict(public, total), name)


def _id_columns(public: PublicModel, named: Sequence[str]) -> dict[str, str]:
    """Each party's id column, in the order of the parties; none, or one for every party that the model needs."""
    own: dict[str, str] = {}
    common: list[str] = []
    for text in named:
        party, column = by_party(text, public.schema.parties)
        if party is not None:
            if own.setdefault(party, column) != column:
                raise StudyError(f"party {party} has one id column, got {own[party]!r} and {column!r}")
        else:
            common.append(text)
    if len(common) > 1:
        known = ", ".join(public.schema.names)
        raise StudyError(
            f"--id names one column of all files, or PARTY=COLUMN for parties {known}, got {' and '.join(common)}"
        )
    needs = list(public.needs())
    for party in needs if named and not common else ():
        if party not in own:
            raise StudyError(f"every party's file needs an id column, got none for {party}: give --id {party}=COLUMN")
    return {party: own.get(party, *common) for party in needs} if named else {}


def prediction_of(
    public: PublicModel,
    declared: Schema,
    receiver: str,
    ids: IdTerms = AS_THEY_ARE,
) -> Prediction:
    """The terms of a prediction for one party; refuses a model of other columns than the parties declare."""
    needs = public.needs()
    shared = [feature for feature in public.model.features if len(public.owners(feature)) > 1]
    if shared:
        raise StudyError(
            f"a prediction across parties adds up what each has of a score, and {shared[0]} is a product of several "
            "parties' columns: score files in one place, or solve without it (--features)"
        )
    if receiver not in declared.parties:
        raise StudyError(f"scores go to one of {', '.join(declared.names)}, got {receiver!r}")
    for party, columns in needs.items():
        if party not in declared.parties:
            raise ReleaseError(f"the model has columns of party {party}, which the study does not have")
        for name, column in columns.items():
            found = declared.parties[party].get(name)
            # A plan may have chosen bins, or a model takes a number in the place of its bins.
            like = found is not None and (column.is_like(found) or column.is_like(found.uncut) or column.uncut == found)
            if found is None or not like:
                told = "no such column" if found is None else f"it as {column_to(found)}"
                raise ReleaseError(
                    f"the model takes column {name} of party {party} as {column_to(column)}, the study declares {told}"
                )
    taking = [party for party in declared.names if party in needs or party == receiver]
    if len(taking) < 2:
        raise StudyError(f"the model has columns of {receiver} alone: it can score its records by itself")
    digest_of_model = hashlib.sha256(write_model(public)).hexdigest()
    scores = max(len(public.model.classes) - 1, 1)
    return Prediction(digest_of_model, receiver, {party: needs.get(party, {}) for party in taking}, scores, ids)


def receivers_scores(public: PublicModel, table: Table, opened: OpenedScores) -> Scores:
    """What the receiver opened, with the ids of its own table."""
    ids, total = table.ids, opened.scores
    if public.model.classes:
        total = np.insert(total.reshape(len(total), -1), 0, 0.0, axis=1)
    return Scores(None if ids is None else [ids[row] for row in opened.rows], predict(public, total))


def scored_classes(public: PublicModel) -> tuple[str, ...]:
    """The levels that a model gives chances to, the positive one last of two; none where it predicts a number."""
    if public.model.classes:
        return public.model.classes
    if not public.model.is_log_odds:
        return ()
    name, column, level = public.label
    return (column.base(name) if level == column.positive else f"not {level}"), str(level)


def scores_csv(public: PublicModel, scores: Scores, id_column: str | None) -> str:
    """One line for each record: its id, and the probability and level or the value that the model gives it."""
    columns: dict[str, Any] = {}
    if public.model.classes:
        for k, name in enumerate(public.model.classes):
            columns[f"probability {name}"] = scores.values[:, k]
        columns["predicted"] = [plain_cell(public.model.classes[k]) for k in scores.values.argmax(axis=1)]
    elif public.model.is_log_odds:
        columns["probability"] = scores.values
        no, yes = (plain_cell(level) for level in scored_classes(public))
        columns["predicted"] = [yes if p >= 0.5 else no for p in scores.values]
    else:
        columns["predicted"] = scores.values
    from polars import DataFrame

    ids = None if scores.ids is None else [plain_cell(text) for text in scores.ids]
    return DataFrame(beside_ids(None if id_column is None else plain_cell(id_column), ids, columns)).write_csv()


def beside_ids(name: str | None, ids: Sequence[str] | None, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Columns with ids before them; the column of ids has another name where it would be called as one of them is."""
    if name is None or ids is None:
        return dict(columns)
    while name in columns:
        name += "_"
    return {name: list(ids), **columns}


def _places(
    public: PublicModel, files: Sequence[str], queries: Sequence[str] = ()
) -> dict[str, FileSource | AddressSource]:
    """Each party's file: as named by "party=path", or the first that has all of the party's columns."""
    from colonnade.data.reading import filed

    asked = of_parties(queries, public.schema.parties, "--query", "SELECT")
    each = (by_party(text, public.schema.parties) for text in files)
    given = [(party, source_at(text, asked.get(party or ""), party)) for party, text in each]
    named = {party: file for party, file in given if party is not None}
    headers = {file: set(file.header()) for party, file in given if party is None}
    for party, columns in public.needs().items():
        if party in named:
            continue
        needed = filed(columns)
        fitting = [file for file, names in headers.items() if names.issuperset(needed)]
        if not fitting:
            best = max(headers.values(), key=lambda names: len(names.intersection(needed)), default=set())
            raise DataError(f"party {party}: no data file has its column {next(c for c in needed if c not in best)!r}")
        named[party] = fitting[0]
    require_apart(public, named)
    return named


def require_apart(public: PublicModel, places: Mapping[str, Hashable]) -> None:
    """Refuse one table in the place of two parties' where both have a column of one name."""
    from colonnade.data.reading import filed

    readers: dict[tuple[Hashable, str], str] = {}
    for party, columns in public.needs().items():
        for name in filed(columns):
            other = readers.setdefault((places[party], name), party)
            if other != party:
                raise DataError(f"column {name} of {other} and of {party} cannot be one: give data of each party")


def _common(lists: Sequence[Sequence[str]]) -> list[str]:
    """Ids in every list, in the order of the first."""
    shared = set(lists[0]).intersection(*lists[1:])
    if not shared:
        raise DataError("the data files have no id in common")
    return [one for one in lists[0] if one in shared]
