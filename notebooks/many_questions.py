# %% [markdown]
# # One release, many questions
#
# A release holds noisy tables of every two columns, across organisations. The privacy was paid for once; every
# question below is answered from that one file, with nobody asked and nothing spent.

# %%
import polars as pl

import colonnade as cn

occupations = "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners"
occupations += " Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv"
occupations += " Armed-Forces"
marital = "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse"
parties = {
    "employer": cn.Party(
        "../demo/employer.csv",
        {
            "income": cn.Binary(["<=50K", ">50K"]),
            "occupation": cn.Categorical(occupations.split()),
            "age": cn.Numeric(17, 90, (25, 35, 50)),
            "hours_per_week": cn.Numeric(1, 99, (35, 41, 50)),
        },
        id="person",
    ),
    "registry": cn.Party(
        "../demo/registry.csv",
        {
            "sex": cn.Binary(["Female", "Male"]),
            "marital_status": cn.Categorical(marital.split()),
            "education_num": cn.Numeric(1, 16, (9, 10, 13)),
        },
        id="person",
    ),
    "bank": cn.Party("../demo/bank.csv", {"capital_gain": cn.Numeric(0, 99_999, (1, 5000, 7000))}, id="person"),
}
release = cn.Study("employer.income", parties, epsilon=3.0, name="income, in few columns").fit(progress=True)

# %% [markdown]
# ## Which columns depend on each other, and who holds them?
#
# Counts are denoised together; intervals hold the rows' own count in 95 of 100 releases. The tree shows the strongest
# dependences; a dashed line could be chance.

# %%
release.tables()

# %% [markdown]
# One cross table: the employer's occupations against the registry's education, which no organisation could count
# alone.

# %%
release.tables("employer.occupation", "registry.education_num")

# %% [markdown]
# ## Models of any column
#
# The study named income as its label. Any released column can be one: several classes, one level, a part of the
# records, sparse weights.

# %%
release.solve("marital_status").summary()

# %%
release.solve("sex=Male", task="logistic", features=["occupation", "hours_per_week", "education_num"]).summary()

# %% [markdown]
# Only women, and a lasso that leaves out what could be noise:

# %%
women = release.solve("income", task="logistic", given="sex=Female", penalty="lasso")
kept = pl.DataFrame({"feature": list(women.coef), "log-odds": list(women.coef.values())})
kept.filter(pl.col("log-odds").abs() > 1e-9).sort("log-odds")

# %% [markdown]
# ## The shape of it: principal components

# %%
release.components(4)

# %% [markdown]
# ## Rows
#
# Some programs want rows. These have the release's tables, and no more: standard errors, tests and intervals must not
# be computed from them. What is expected of them stands beside them, with what independent columns would give.

# %%
rows = release.synthesize(10_000)
rows

# %% [markdown]
# A model of scikit-learn on such rows, judged on the real ones, beside the model that is made of the release itself:

# %%
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

parts = [pl.read_csv(f"../demo/{name}.csv") for name in ("employer", "registry", "bank")]
wide = parts[0].join(parts[1], on="person").join(parts[2], on="person")
texts = [name for name, kind in rows.frame.schema.items() if kind == pl.String and name != "income"]
numbers = [name for name, kind in rows.frame.schema.items() if kind != pl.String]
steps = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), texts), remainder="passthrough")
known = rows.frame.select(texts + numbers)
learned = make_pipeline(steps, LogisticRegression(solver="newton-cholesky")).fit(known, rows.frame["income"].to_numpy())
truth = wide["income"].to_numpy()
pl.DataFrame(
    {
        "model": ["the majority's class", "scikit-learn on drawn rows", "release.solve()"],
        "accuracy": [
            (truth == "<=50K").mean(),
            learned.score(wide.select(texts + numbers), truth),
            (release.solve().predict(wide) == truth).mean(),
        ],
    }
)
