# %% [markdown]
# # Choosing epsilon, bounds and bins
#
# Three choices decide how good a private model is, and all of them are made before anyone looks at the data: how much
# privacy to spend, which range a number is clipped to, and whether a number is cut into bins. This notebook chooses
# them without spending anything.

# %%
import polars as pl

import colonnade as cn

study = cn.Study.read("../demo/study.toml")
plan = study.plan(rows=7_000)

# %% [markdown]
# ## Epsilon
#
# Plans are free. `compare` makes one for each epsilon and shows what share of the explainable is expected to survive
# the noise. Beyond the bend of the curve more epsilon buys little.

# %%
plan.compare(epsilon=[0.1, 0.3, 1, 3])

# %% [markdown]
# A tiny delta buys Gaussian noise, which adds up more slowly over many columns; a larger coalition costs noise.

# %%
plan.compare(delta=[0, 1e-5], collusion=[1, 2])

# %% [markdown]
# ## Bounds and bins: rehearse on public rows
#
# A plan cannot know how data fill their bounds. Rows that are public, such as those of an earlier survey of another
# town, can tell. Here the first half of the demo's people plays the public rows: `rehearse` draws the noise of the
# plan on them, again and again, and tests each model on rows that it has not seen. No party is asked and nothing is
# spent.
#
# Most people have no `capital_gain` at all, and a few reach 99,999. On a straight line between these bounds nearly
# everybody sits in one corner, and noise is scaled to the whole line. The rehearsal warns of that, and shows what
# closer bounds would do.

# %%
parts = [pl.read_csv(f"../demo/{name}.csv") for name in ("employer", "registry", "bank")]
wide = parts[0].join(parts[1], on="person").join(parts[2], on="person")
public = wide.head(wide.height // 2)

study.rehearse(public, rows=7_000, releases=4, bounds={"capital_gain": [(0, 99_999), (0, 10_000)]})

# %% [markdown]
# Bins let an effect bend: each of them is a further number, with noise on it. Where the cuts go is a public choice, so
# that it is made by people who know the column. Another study with these declarations is rehearsed on the same rows:

# %%
schema = study.study.agreement.schema
binned = {
    "capital_gain": cn.Numeric(0, 99_999, (1, 5000, 7000)),
    "capital_loss": cn.Numeric(0, 4356, (1, 1800, 2000)),
}
parties = {
    name: cn.Party(None, {column: binned.get(column, kind) for column, kind in columns.items()}, id="person")
    for name, columns in schema.parties.items()
}
other = cn.Study("employer.income", parties, epsilon=1.0, name="income, binned")
other.rehearse(public, rows=7_000, releases=4)

# %% [markdown]
# Read the tables with their spread: four releases are few, and `releases=20` is the default. The trivial answer and
# the one without noise stand beside. The figures belong to these data: rehearse on public rows that are like yours.
#
# Without public rows the schema alone gives a range, over stated strengths of signal: `study.rehearse()`.
#
# ## The plan that goes to the organisations
#
# The choice goes into the study file, by people, as public facts. Nothing was taken from the real rows.

# %%
other.plan(rows=14_000).compare(epsilon=[0.5, 1, 2])
