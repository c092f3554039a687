# %% [markdown]
# # A first study
#
# Three organisations hold different columns about the same people: an employer, a registry and a bank. Nobody may see
# anybody else's rows. They want one model of income, and a promise about every person in it.
#
# The data are rows of UCI Adult (CC BY 4.0), cut into three files with shuffled, partly overlapping ids
# (`demo/README.md`).

# %%
import polars as pl

import colonnade as cn

study = cn.Study.read("../demo/study.toml")
study

# %% [markdown]
# ## Plan first
#
# A plan reads no data and spends nothing. It says what will be released, to whom, with how much noise, and what that
# is worth. The three organisations agree on it, or not: `study.plan().report("plan.html")` writes the page to sign.

# %%
plan = study.plan(rows=14_000)
plan

# %% [markdown]
# ## Run it
#
# `fit` runs all three parties in this process, through the same protocol as on separate machines: ids are matched in
# private, products of columns are computed under encryption, every party adds its share of the noise. The epsilon is
# spent here, once. Where a party names a policy and a ledger, its policy is asked first and its ledger books the
# spend.

# %%
release = study.fit(progress=True)
release

# %% [markdown]
# ## The model
#
# From here on everything is computed from the release and costs nothing. A coefficient is shown in the units of the
# data and as it is coded, with its odds ratio; intervals count sampling and noise, and say where noise drowns a
# coefficient.

# %%
model = release.solve()
model.summary()

# %% [markdown]
# ## How good is it?
#
# Here we hold all rows, so that we can look: the model beside the share of the majority, and beside logistic
# regression without any privacy on the same rows. Organisations that hold only their own columns cannot do this.

# %%
parts = [pl.read_csv(f"../demo/{name}.csv") for name in ("employer", "registry", "bank")]
wide = parts[0].join(parts[1], on="person").join(parts[2], on="person")
income = wide["income"].to_numpy()

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

features = wide.drop("person", "income").to_dummies(
    [name for name, kind in wide.drop("person", "income").schema.items() if kind == pl.String], drop_first=True
)
open_model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200)).fit(features.to_numpy(), income)

pl.DataFrame(
    {
        "model": ["the majority's class", "this release, epsilon 1", "without privacy"],
        "accuracy": [
            (income == "<=50K").mean(),
            (model.predict(wide) == income).mean(),
            open_model.score(features.to_numpy(), income),
        ],
    }
)

# %% [markdown]
# ## Keep it
#
# A release is a small sealed file: whoever has it can ask it anything, and nobody has to be asked again. It is never
# overwritten by accident.

# %%
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
release.save(folder / "release.json")
model.save(folder / "model.json")
release.report(folder / "report.html")

try:
    release.save(folder / "release.json")
except cn.ColonnadeError as refusal:
    print(str(refusal).replace(str(folder), "..."))

cn.Model.read(folder / "model.json").predict(wide.head(5))

# %% [markdown]
# ## From data frames
#
# A party may also bring a data frame (polars, pandas or Arrow). What is publicly known of its columns is declared, and
# never taken from the data. Without ids, rows are taken in their order.

# %%
shop = cn.Party(
    pl.DataFrame({"visits": [1, 4, 2, 8, 5, 7] * 200, "member": [True, False, True, True, False, True] * 200}),
    columns={"visits": cn.Numeric(0, 10), "member": cn.Boolean()},
)
clinic = cn.Party(
    pl.DataFrame({"well": ["no", "yes", "no", "yes", "no", "yes"] * 200}), columns={"well": cn.Binary(("no", "yes"))}
)
cn.Study("clinic.well", {"shop": shop, "clinic": clinic}, epsilon=1.0).fit(progress=False).solve()
