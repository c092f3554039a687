"""Two organisations, one model: a private logistic regression with the scikit-learn interface.

The data is made up. Bounds and levels are declared, never computed from data. Every fit spends its epsilon.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from colonnade.estimators import VerticalLogisticRegression
from colonnade.foundation.schema import Binary, Categorical, Numeric

JOBS = ("clerk", "smith", "baker")


def people(n: int, seed: int) -> tuple[pl.DataFrame, pl.Series]:
    """Made-up records: whether somebody repays a loan."""
    draw = np.random.default_rng(seed)
    age, income = draw.uniform(18, 80, n), draw.uniform(0, 5000, n)
    job, owner = draw.choice(JOBS, n), draw.choice(["no", "yes"], n)
    odds = 0.0015 * (income - 2500) + 0.02 * (age - 49) + 0.8 * (job == "smith") + 0.6 * (owner == "yes") - 0.5
    repays = np.where(draw.uniform(size=n) < 1 / (1 + np.exp(-odds)), "repays", "defaults")
    return pl.DataFrame({"age": age, "job": job, "income": income, "owner": owner}), pl.Series("loan", repays)


def main() -> None:
    model = VerticalLogisticRegression(
        epsilon=1.0,
        parties={"bank": ["income", "owner"], "registry": ["age", "job"]},
        schema={
            "age": Numeric(18, 80),
            "job": Categorical(JOBS),
            "income": Numeric(0, 5000),
            "owner": Binary(("no", "yes")),
        },
        label=Binary(("defaults", "repays")),
        label_party="bank",
    )
    model.fit(*people(20_000, seed=1))
    print("accuracy on new people:", round(model.score(*people(20_000, seed=2)), 3))
    for name, weight in zip(model.encoded_feature_names_, model.coef_[0], strict=True):
        print(f"  {name:12} {weight:+.5f}")
    for party, facts in model.plan_["parties"].items():
        print(f"epsilon of {party}'s part against each view:", facts["epsilon"])


if __name__ == "__main__":
    main()
