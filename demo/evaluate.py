"""How good the demo's private model is, against the majority class and against a model without privacy.

The demo's rows are public, so this script may do what the parties may not: join the files by their ids and look. Both
models are judged on the records that they were fitted to.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from colonnade.data.table import table_from
from colonnade.foundation.errors import ColonnadeError
from colonnade.foundation.threads import one_thread
from colonnade.model import read_model, score_files
from colonnade.study import read_study

HERE = Path(__file__).resolve().parent


def main() -> None:
    study = read_study(HERE / "study.toml")
    public = read_model((HERE / "model.json").read_bytes())
    files = {name: source.data.path for name, source in study.sources.items() if source.data is not None}
    frame = None
    for path in files.values():
        part = pl.read_csv(path, infer_schema=False)
        frame = part if frame is None else frame.join(part, on="person")
    assert frame is not None
    owner, label = study.agreement.schema.find(study.agreement.label)
    tables = [table_from(name, frame, columns) for name, columns in study.agreement.schema.parties.items()]
    encoded = {place: values for table in tables for place, values in table.coordinates().items()}
    y = np.asarray(next(table for table in tables if table.party == owner).values[label]) == 1
    X = np.column_stack([encoded[public.factors[name][0]] for name in public.model.features])

    scores = score_files(public, [f"{name}={path}" for name, path in files.items()], "person")
    place = {person: row for row, person in enumerate(frame.get_column("person").to_list())}
    private = np.empty(len(y))
    private[[place[person] for person in scores.ids or ()]] = scores.values
    ceiling = LogisticRegression(C=1e4, max_iter=2000).fit(X, y).predict_proba(X)[:, 1]

    share, positive = float(y.mean()), public.label[2]
    print(f"Judged on {len(y):,} public records, {share:.1%} of them with {label} = {positive}:")
    print(f"{'model':<34}{'accuracy':>10}{'AUC':>8}")
    print(f"{'majority class':<34}{max(share, 1 - share):>10.4f}{0.5:>8.3f}")
    name = f"private, epsilon = {study.agreement.budget.least:g}"
    for told, probability in ((name, private), ("not private (scikit-learn)", ceiling)):
        accuracy = float(((probability >= 0.5) == y).mean())
        print(f"{told:<34}{accuracy:>10.4f}{roc_auc_score(y, probability):>8.3f}")


if __name__ == "__main__":
    try:
        with one_thread():
            main()
    except FileNotFoundError as error:
        sys.exit(f"error: there is no {error.filename}: run colonnade fit with --model first")
    except ColonnadeError as error:
        sys.exit(f"error: {error}")
