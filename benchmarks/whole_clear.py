"""The study of benchmarks/whole.py in the clear: what a person would write who may hold all the files.

    python benchmarks/whole_clear.py --label income [--id person] [--judge FILE] employer.csv registry.csv bank.csv

Polars reads and joins the files, scikit-learn's default solver fits. Without --id the files match row by row.
"""

import argparse
import json
from pathlib import Path

import polars as pl
from sklearn.linear_model import LogisticRegression

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("files", nargs="+", type=Path)
parser.add_argument("--label", required=True)
parser.add_argument("--id")
parser.add_argument("--judge", type=Path, help="write accuracy, rows and the majority's share there")
given = parser.parse_args()

frames = [pl.read_parquet(f) if f.suffix == ".parquet" else pl.read_csv(f) for f in given.files]
joined = frames[0] if given.id else pl.concat(frames, how="horizontal")
for frame in frames[1:] if given.id else []:
    joined = joined.join(frame, on=given.id)
target = joined[given.label]
y = (target == target.unique().sort()[-1]).to_numpy()
features = joined.drop([given.label, *([given.id] if given.id else [])])
numeric = [name for name, kind in features.schema.items() if kind.is_numeric()]
scaled = features.with_columns((pl.col(c) - pl.col(c).mean()) / pl.col(c).std() for c in numeric)
X = scaled.to_dummies([c for c in features.columns if c not in numeric], drop_first=True).to_numpy()
model = LogisticRegression().fit(X, y)

if given.judge:
    share = float(y.mean())
    told = {"rows": len(y), "accuracy": float(model.score(X, y)), "majority": max(share, 1 - share)}
    given.judge.write_text(json.dumps(told))
