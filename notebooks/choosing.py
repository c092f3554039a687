# %% [markdown]
# # Choosing epsilon, bounds and bins
#
# Three choices decide how good a private model is, and all of them are made before anyone looks at the data: how much
# privacy to spend, which range a number is clipped to, and whether a number is cut into bins. This notebook shows how
# to choose them without spending anything.

# %%
import warnings

import numpy as np
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
plan.compare(epsilon=[0.05, 0.1, 0.2, 0.5, 1, 2, 5])

# %% [markdown]
# A tiny delta buys Gaussian noise, which adds up more slowly over many columns; a larger coalition costs noise.

# %%
plan.compare(delta=[0, 1e-6, 1e-5], collusion=[1, 2])

# %% [markdown]
# ## Bounds and bins: rehearse on public rows
#
# A plan cannot know how data fill their bounds, so that it cannot choose them. Rows that are public, such as those of
# an earlier survey of another town, can. Here one half of the demo's people plays the public rows: we run the study on
# it with a seed and the plain product, which is a simulation without any privacy, and look at the accuracy on further
# rows.
#
# Most people have no `capital_gain` at all, and a few reach 99,999. On a straight line between these bounds nearly
# everybody sits in one corner, and noise is scaled to the whole line.

# %%
names = ("employer", "registry", "bank")
parts = {name: pl.read_csv(f"../demo/{name}.csv") for name in names}
wide = parts["employer"].join(parts["registry"], on="person").join(parts["bank"], on="person")
public, further = wide.head(7000), wide.tail(7000)
gain = public["capital_gain"]
print(f"no capital gain: {(gain == 0).mean():.1%}; above 10,000: {(gain > 10_000).mean():.1%}")

# %%
schema = study.study.agreement.schema


def rehearse(changed, epsilon, seed):
    """Accuracy on further rows of a simulated study on the public ones."""
    parties = {
        name: cn.Party(public, {column: changed.get(column, kind) for column, kind in columns.items()})
        for name, columns in schema.parties.items()
    }
    trial = cn.Study("employer.income", parties, epsilon=epsilon, product="plain")
    model = trial.fit(seed=seed, progress=False).solve()
    return (model.predict(further) == further["income"].to_numpy()).mean()


encodings = {
    "as declared: 0 to 99,999": {},
    "0 to 10,000": {"capital_gain": cn.Numeric(0, 10_000), "capital_loss": cn.Numeric(0, 2_500)},
    "bins at 1, 5,000 and 7,000": {
        "capital_gain": cn.Numeric(0, 99_999, (1, 5000, 7000)),
        "capital_loss": cn.Numeric(0, 4356, (1, 1800, 2000)),
        "age": cn.Numeric(17, 90, (25, 32, 40, 50, 60)),
        "hours_per_week": cn.Numeric(1, 99, (35, 41, 50)),
    },
}

warnings.simplefilter("ignore")  # A plan with a seed and the plain product warns, as it must.
rows = []
for name, changed in encodings.items():
    for epsilon in (0.3, 3.0):
        found = [rehearse(changed, epsilon, seed) for seed in range(3)]
        rows.append({"encoding": name, "epsilon": epsilon, "accuracy": np.mean(found), "spread": np.std(found)})
pl.DataFrame(rows)

# %%
print("the majority's class on the same rows:", round((further["income"] == "<=50K").mean(), 4))

# %% [markdown]
# Read the table with its spread: three runs each are few. Narrower bounds cost nothing and make a number louder, as
# long as the few who are clipped tell little more than that they are many. Bins let an effect bend, and each of them
# is a further number with noise on it: they pay where epsilon is large, and may cost where it is small. The figures
# belong to these data: rehearse on public rows that are like your own.
#
# ## The plan that goes to the organisations
#
# The choice goes into the study file, by people, as public facts. Nothing was taken from the real rows.

# %%
narrow = encodings["0 to 10,000"]
parties = {
    name: cn.Party(None, {column: narrow.get(column, kind) for column, kind in columns.items()}, id="person")
    for name, columns in schema.parties.items()
}
chosen = cn.Study("employer.income", parties, epsilon=1.0, name="income, narrower").plan(rows=14_000)
chosen.compare(epsilon=[0.5, 1, 2])
