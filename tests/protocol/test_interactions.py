"""Products of one, two, three and four owners, from a study to a release: exact but for a stated error, everywhere."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from colonnade.analysis.solve import solve
from colonnade.consent.policy import policy_from
from colonnade.crypto.chains.last import LastStep
from colonnade.foundation.errors import ColonnadeError, PolicyError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.objective import Purpose, Task, monomial
from colonnade.mechanism.release import ReleaseRecord, read_release, write_release
from colonnade.model import prediction_of, publish, read_model, score_files, write_model
from colonnade.planning.leakage import chain_exposures, value_bits
from colonnade.planning.session_plan import plan_session
from colonnade.report.choices import Options, forecast_purposes
from colonnade.runs import RunOptions, fit
from colonnade.study import StudySpec, read_study, study_from
from tests.helpers.wires import run

ROWS = 120
NUMBER = '{ kind = "numeric", low = -1, high = 1 }'


def study_of(folder: Path, parties: int, interactions: str, **terms: object) -> StudySpec:
    """Party k holds x<k>, the first the label too, and the second a column with levels."""
    draw = np.random.default_rng(parties)
    x = draw.uniform(-1, 1, (ROWS, parties))
    frames = {f"p{k}": {f"x{k}": x[:, k]} for k in range(parties)}
    frames["p0"]["y"] = np.clip(0.8 * x.prod(axis=1) + 0.05 * draw.normal(size=ROWS), -1, 1)
    if parties > 1:
        frames["p1"]["s"] = draw.choice(["no", "yes"], ROWS)
    given = {"epsilon": 1e7, "product": "plain"} | terms
    lines = [f"{key} = {value!r}".replace("'", '"') for key, value in given.items()]
    text = ['[study]\nname = "x"\ntask = "linear"\nlabel = "p0.y"\nalignment = "none"', *lines]
    text.append(f"interactions = {interactions}")
    for name, columns in frames.items():
        pl.DataFrame(columns).write_csv(folder / f"{name}.csv")
        text.append(f'[party.{name}]\ndata = "{name}.csv"\n[party.{name}.columns]')
        text += [f"{c} = " + ('{ kind = "binary", levels = ["no", "yes"] }' if c == "s" else NUMBER) for c in columns]
    (folder / "s.toml").write_text("\n".join(text))
    return read_study(folder / "s.toml")


def expected(folder: Path, release: ReleaseRecord) -> dict[tuple[int, ...], float]:
    """Every released product of coordinates, from the files."""
    values: dict[str, np.ndarray] = {}
    for path in folder.glob("p*.csv"):
        for column in pl.read_csv(path).iter_columns():
            numbers = column.to_numpy()
            if column.name == "s":
                values |= {f"s={level}": (numbers == level).astype(float) for level in ("no", "yes")}
            elif column.name == "y":
                values |= {"y-": (1 - numbers) / 2, "y+": (1 + numbers) / 2}
            else:
                values[column.name] = numbers
    names = release.layout.names
    out = {}
    for block in release.blocks:
        for term in block.factors:
            factors = monomial(release.layout, term)
            out[factors] = float(np.prod([values[names[c]] for c in factors], axis=0).sum())
    return out


CASES = [
    ("one owner", 1, '[["p0.x0", "p0.x0", "p0.x0"]]', ("plain", "lattice")),
    ("two owners", 2, '[["p0.x0", "p0.x0", "p1.x1"], ["p0.x0", "p1.s"]]', ("plain", "lattice", "bgn")),
    ("label at a third", 3, '[["p1.x1", "p2.x2"]]', ("plain", "lattice")),
    ("three owners", 3, '[["p0.x0", "p1.x1", "p2.x2"]]', ("plain", "lattice")),
    ("four owners", 4, '[["p0.x0", "p1.x1", "p2.x2", "p3.x3"]]', ("plain", "lattice")),
]


@pytest.mark.parametrize(("parties", "interactions", "products"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_every_product_is_right_with_a_huge_epsilon(
    tmp_path: Path, parties: int, interactions: str, products: tuple[str, ...]
) -> None:
    for product in products:
        # Lattice errors must stay small beside the noise: it has less of an epsilon.
        epsilon = {"plain": 1e7, "lattice": 2e3, "bgn": 100.0}[product]
        study = study_of(tmp_path, parties, interactions, product=product, epsilon=epsilon)
        release = fit(study, RunOptions(randomness=Randomness(b"interactions"))).release
        assert write_release(read_release(write_release(release))) == write_release(release)
        session = study.session(ROWS)
        wanted = expected(tmp_path, release)
        for block in release.blocks:
            terms = [monomial(release.layout, t) for t in block.factors]
            error = block.values / block.unit - np.array([wanted[t] for t in terms])
            # Rounding to the grid, once for each factor and once for each product that is made, and noise.
            factors = max(2 * len(t) for t in terms)
            rounding = 6 * np.sqrt(ROWS * factors) / session.grid.bound
            assert np.abs(error).max() < rounding + 12 * block.std.max(), (product, block.owners)
            assert max(map(len, terms)) < 3 or np.abs(list(wanted.values())).max() > 5 * rounding


@pytest.mark.parametrize(
    ("parties", "interactions", "product"),
    [
        (2, '[["p0.x0", "p0.x0", "p1.x1"]]', "lattice"),
        (2, '[["p0.x0", "p0.x0", "p1.x1"]]', "bgn"),
        (3, '[["p0.x0", "p1.x1", "p2.x2"], ["p0.x0", "p1.s"]]', "lattice"),
        (4, '[["p0.x0", "p1.x1", "p2.x2", "p3.x3"]]', "lattice"),
    ],
)
def test_across_machines_the_same_seed_gives_the_same_bytes(
    tmp_path: Path, parties: int, interactions: str, product: str
) -> None:
    study = study_of(tmp_path, parties, interactions, product=product, epsilon=10.0)
    here = fit(study, RunOptions(randomness=Randomness(b"seed"))).release
    # Pairings are slow: once is enough.
    again = here if product == "bgn" else fit(study, RunOptions(randomness=Randomness(b"seed"))).release
    across = run(study, tmp_path, b"seed")
    assert across.release is not None, across.errors
    values = [np.concatenate([b.values for b in r.blocks]) for r in (here, again, across.release)]
    assert np.array_equal(values[0], values[1]) and np.array_equal(values[0], values[2])
    assert here.provenance["transcript_digest"] == again.provenance["transcript_digest"]


def test_an_interaction_is_the_signal(tmp_path: Path) -> None:
    study = study_of(tmp_path, 3, '[["p0.x0", "p1.x1", "p2.x2"]]', product="lattice", epsilon=200.0)
    release = fit(study, RunOptions(randomness=Randomness(b"signal"))).release
    model = solve(release.moments(), Task.LINEAR)
    weights = dict(zip(model.features, model.coefficients, strict=True))
    assert weights["x0:x1:x2"] == pytest.approx(0.8, abs=0.15)
    public = read_model(write_model(publish(release, model)))
    assert public.owners("x0:x1:x2") == ("p0", "p1", "p2")
    files = [f"p{k}={tmp_path / f'p{k}.csv'}" for k in range(3)]
    label = pl.read_csv(tmp_path / "p0.csv").get_column("y").to_numpy()
    with_it = np.abs(score_files(public, files).values - label).mean()
    without = solve(release.moments(), Task.LINEAR, features=("x0", "x1", "x2", "s"))
    assert with_it < 0.08 < np.abs(score_files(publish(release, without), files).values - label).mean()
    with pytest.raises(StudyError, match="product of several parties' columns"):
        prediction_of(public, study.agreement.schema, "p0")


def test_bgn_multiplies_once_and_says_so(tmp_path: Path) -> None:
    study = study_of(tmp_path, 3, '[["p0.x0", "p1.x1", "p2.x2"]]', product="bgn", epsilon=1.0)
    with pytest.raises(StudyError, match="it multiplies once"):
        study.session(ROWS)


@pytest.mark.parametrize(
    ("interactions", "told"),
    [
        ('[["p0.x0"]]', "2 to 8 columns"),
        ('[["p0.x0", "p0.y"]]', "product of features"),
        ('[["p0.x0", "p9.z"]]', "declared by no party"),
        ('[["p0.x0", "p1.x1"], ["p1.x1", "p0.x0"]]', "listed once"),
        ('[["p1.s", "p1.s", "p0.x0"]]', "once"),
        ('["p0.x0", "p1.x1"]', "list of lists"),
    ],
)
def test_what_is_no_interaction_is_refused_in_one_sentence(tmp_path: Path, interactions: str, told: str) -> None:
    with pytest.raises(ColonnadeError, match=told):
        study_of(tmp_path, 2, interactions).session(ROWS)


def test_too_many_records_for_the_owners_are_refused_before_anything_is_spent(tmp_path: Path) -> None:
    chain = '[["p0.x0", "p1.x1", "p2.x2", "p3.x3"]]'
    study = study_of(tmp_path, 4, chain, product="lattice", epsilon=1.0)
    assert plan_session(study.agreement, 10_000, bytes(32)).chains is not None
    with pytest.raises(ColonnadeError, match="owners do not fit words"):
        plan_session(study.agreement.with_terms(epsilon=100.0), 2_000_000_000, bytes(32))


def test_every_value_of_several_owners_has_noise_and_is_opened_once(tmp_path: Path) -> None:
    study = study_of(tmp_path, 3, '[["p0.x0", "p1.x1", "p2.x2"], ["p0.x0", "p1.x1"], ["p0.x0", "p0.x0"]]', epsilon=1.0)
    session = study.session(ROWS)
    places = np.concatenate(list(session.positions.values()))
    assert np.array_equal(np.sort(places), np.arange(session.length))
    assert session.cross_noise(Fraction(1)).stds().min() > 0
    held = [len(b.block.owners) for b in session.plan.blocks]
    assert max(held) == 3 and session.chains is not None
    # Without interactions the agreement, and so every digest, is what it was.
    assert "interactions" not in study.agreement.with_terms(interactions=()).to()


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({"interactions": []}, "interactions allows none, the session has x1"),
        ({"interactions": ["x0"]}, "the session has x1"),
        ({"largest_degree": 5}, "largest_degree is 5, the plan has products of degree 6"),
        ({"largest_owners": 2}, "largest_owners is 2, the plan has products of 3 parties"),
        ({"largest_owners": 3, "largest_degree": 6, "interactions": ["x1"]}, ""),
    ],
)
def test_a_policy_refuses_degrees_interactions_and_owners(tmp_path: Path, rules: dict[str, object], told: str) -> None:
    session = study_of(tmp_path, 3, '[["p0.x0", "p1.x1", "p2.x2"]]', product="lattice", epsilon=1.0).session(ROWS)
    policy = policy_from(
        {
            "policy": {"party": "p1", "partners": ["*"], **rules},
            "session": {"epsilon": 5.0},
            "total": {"epsilon": 9.0},
        }
    )
    if told:
        with pytest.raises(PolicyError, match=told):
            policy.check(session)
    else:
        policy.check(session)


def test_a_plan_of_interactions_says_what_it_is_good_for(tmp_path: Path) -> None:
    session = study_of(tmp_path, 2, '[["p0.x0", "p1.s"]]', epsilon=1.0).session(1000)
    assert [line.purpose.value for line in forecast_purposes(session)] in ([], ["label"])
    assert "full" in Options(session).text
    with pytest.raises(StudyError, match="tables of two columns, got interactions"):
        session.agreement.with_terms(purpose=Purpose.ALL)


def test_sealed_shares_count_as_columns(tmp_path: Path) -> None:
    study = study_of(tmp_path, 3, '[["p0.x0", "p1.x1", "p2.x2"]]', product="lattice", epsilon=10.0)
    session = study.session(1000)
    assert session.chains is not None and session.backend.key_left is not None
    last, left = LastStep(session.chains), session.backend.key_left
    noise = session.cross_noise(min(map(session.plan.share, session.parties))).part(
        session.chain_start - session.cross_start
    )
    bits = value_bits(noise, session.spec.modulus_bits, alone=False)
    found = {(e.partner, e.cheaters): e for e in chain_exposures(session.chains, noise, 1, left) if e.sealed}
    owner = session.parties[session.chains.chains[0].owners[-1]]
    holders = [session.parties[k] for k in session.chains.chains[0].holders]
    assert {(holder, (owner,)) for holder in holders} == set(found)
    # All sums of the share that has most of them, each at all the bits that it could tell.
    told = [sum(bits[v] for c, v in zip(last.product.crosses, last.values, strict=True) if c.left_start == k)
            for k in range(len(last.held[session.chains.chains[0].holders[0]]))]  # fmt: skip
    assert found[holders[0], (owner,)].information == pytest.approx(max(told) / len(holders))
    worst = {(e.partner, e.cheaters, e.sealed): e.key.bits for e in session.exposures}
    assert all(worst[holder, (owner,), True] <= e.key.bits for (holder, _), e in found.items())


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_interactions_of_levels_alone_have_a_plan(delta: float) -> None:
    level = {"kind": "binary", "levels": ["no", "yes"]}
    terms = {"name": "x", "task": "logistic", "label": "a.y", "epsilon": 1.0, "alignment": "none", "delta": delta}
    parties = {"a": {"columns": {"s": level, "y": level}}, "b": {"columns": {"t": level}}}
    study = study_from({"study": terms | {"interactions": [["a.s", "b.t"]]}, "party": parties}, Path())
    assert study.session(1000).plan.epsilon <= 1.0
