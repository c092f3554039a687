"""The numbers of docs/paper.md, each computed."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from fractions import Fraction
from math import exp, log, sqrt
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from colonnade.foundation.errors import PrivacyError
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.accounting import gaussian_rho
from colonnade.mechanism.dissection import dissect
from colonnade.mechanism.moments import Distribution
from colonnade.mechanism.noise import laplace_share
from colonnade.mechanism.objective import Calibration, Task, exact_objective, paper_objective
from colonnade.mechanism.plan import Offer, Terms, plan_bottom_up, plan_top_down
from colonnade.mechanism.sampling import discrete_laplace
from colonnade.mechanism.sensitivity import paper_sensitivity, sensitivity
from experiments.paper.printed import PRINTED
from tests.helpers.adversary import Adversary, signed_layout
from tests.helpers.polynomials import polynomial

ROOT = Path(__file__).parents[2]
PAPER = Terms(Task.LINEAR, Calibration.PAPER)


def test_every_erratum_has_a_check() -> None:
    text = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8").partition("## Errata")[2].partition("\n## ")[0]
    letters = re.findall(r"^\| ([a-z]) \|", text, re.MULTILINE)
    assert letters == list("abcdefghijklmnopq")
    assert all(f"test_{letter}" in globals() for letter in letters)


def test_a() -> None:
    """Party k of d^k = 3 out of d = 14: stated 0.213 epsilon, really 0.320."""
    d, own = 14, 3
    layout = signed_layout([d + 1 - own, own])
    blocks = dissect(paper_objective(layout, Task.LINEAR))
    whole = paper_sensitivity(blocks)
    stated = Fraction(2 * (2 * own + own * d)) / whole
    corrected = paper_sensitivity(blocks, "B") / whole
    assert float(stated) == pytest.approx(0.213, abs=5e-4)
    assert float(corrected) == pytest.approx(0.360, abs=5e-4)
    rates = [(b, 1 / float(whole)) for b in blocks]
    assert sensitivity(layout, rates, Distribution.LAPLACE, "B") == pytest.approx(0.320, abs=5e-4)
    # A pair of records that breaks the printed promise.
    found, _, _ = Adversary(layout, rates, Distribution.LAPLACE, "B", np.random.default_rng(0)).climb(2)
    assert found > 1.4 * float(stated)
    # Fairness: with every pair of features released once the printed promise holds.
    objective = paper_objective(layout, Task.LINEAR)
    once = replace(objective, weights=np.where(objective.weights == 2, 1.0, objective.weights))
    moved = sensitivity(layout, [(b, 1.0) for b in dissect(once)], Distribution.LAPLACE, "B")
    assert moved == pytest.approx(78, rel=1e-6) and whole == 450
    assert pytest.approx(0.173, abs=5e-4) == 78 / 450 and moved < float(stated * whole)


@pytest.mark.parametrize(("parties", "factor"), [(2, 3), (8, 36)])
def test_b(parties: int, factor: int) -> None:
    """The same scale in every block: Theorem 1 gives epsilon, the corollary one epsilon for each block."""
    layout = signed_layout([3] + [2] * (parties - 1))
    # Products with the label belong to the block of their owners, as in the paper.
    merged: dict[tuple[str, ...], Fraction] = {}
    blocks = dissect(paper_objective(layout, Task.LINEAR))
    for block in blocks:
        merged[block.owners] = merged.get(block.owners, Fraction(0)) + paper_sensitivity([block])
    delta_f = paper_sensitivity(blocks)
    spent = {owners: moved / delta_f for owners, moved in merged.items()}
    assert sum(spent.values()) == 1
    corollary = sum(delta_f / merged[owners] * epsilon for owners, epsilon in spent.items())
    assert corollary == factor == len(merged)
    # Fairness: the corollary is loose and holds, since no block moves farther than all of them together.
    assert all(moved <= delta_f for moved in merged.values()) and corollary >= sum(spent.values())
    # Ours, on the same offers, is the sum.
    offers = {p: Offer(1.0) for p in dict.fromkeys(o for owners in merged for o in owners)}
    plan = plan_bottom_up(layout, blocks, offers, PAPER)
    assert plan.epsilon == pytest.approx(sum(float(i.sensitivity / i.scale) for i in plan.blocks))


def test_c() -> None:
    """What is left after a party subtracts what it knows: nothing in the paper, the whole noise here."""
    scale, count = Fraction(50), 4000
    exact = np.arange(count)
    added = discrete_laplace(scale, count, Randomness(b"pair"))
    assert np.array_equal(exact + added - added, exact)
    shares = [laplace_share(scale, 2, count, Randomness(b"share %d" % k)) for k in range(3)]
    left = sum(shares) - shares[0]
    whole = discrete_laplace(scale, count, Randomness(b"whole"))
    assert np.std(left.astype(float)) == pytest.approx(np.std(whole.astype(float)), rel=0.1)
    assert (left != 0).mean() > 0.9


def test_d() -> None:
    """The largest standard deviation of ten non-negative numbers of mean 1."""
    runs = np.zeros(10)
    runs[0] = 10.0
    assert np.std(runs, ddof=1) == pytest.approx(sqrt(10)) and np.std(runs) == pytest.approx(3.0)
    generator = np.random.default_rng(0)
    tries = generator.pareto(0.3, (20_000, 10))
    assert (np.std(tries, axis=1, ddof=1) / tries.mean(axis=1)).max() <= sqrt(10) * (1 + 1e-9)
    table = {  # mean and standard deviation of FM and of the non-private model, as printed
        (0.0044, 0.0132), (0.0101, 0.0305), (0.0087, 0.0261), (0.0086, 0.0259), (0.0045, 0.0136),
        (0.0033, 0.0101), (0.0035, 0.0107), (0.0052, 0.0157), (0.0058, 0.0174), (0.0050, 0.0154), (0.0056, 0.0172),
    }  # fmt: skip
    assert all(2.9 < std / mean < 3.2 for mean, std in table)
    assert (0.0230 - 0.00005) / (0.0070 + 0.00005) > 3.25 > sqrt(10)


def test_e() -> None:
    d, n, epsilon = 800, 64_000, 1.0
    layout = signed_layout([d + 1])
    blocks = dissect(paper_objective(layout, Task.LINEAR))
    plan = plan_top_down(layout, blocks, epsilon, PAPER)
    scale = float(plan.blocks[0].scale)
    assert scale == 2 * (1 + d) ** 2 == 1_283_202
    assert scale > 10 * (2 * n)


def gaussian_delta(sigma: float, epsilon: float) -> float:
    """Balle and Wang 2018, theorem 8, at sensitivity 1."""
    far = norm.logcdf(-0.5 / sigma - epsilon * sigma)
    return float(norm.cdf(0.5 / sigma - epsilon * sigma) - exp(epsilon + far))


def test_f() -> None:
    sigma = log(1e5)
    assert gaussian_delta(sigma, 1.0) < 1e-20
    enough = 1 / sqrt(2 * float(gaussian_rho(1.0, 1e-5)))
    assert gaussian_delta(enough, 1.0) == pytest.approx(1e-5, rel=1e-3)
    assert 2.9 < sigma / enough < 3.2
    assert gaussian_delta(log(2) / 10, 10.0) > 0.99
    # Fairness: an L1 sensitivity bounds the L2 one, and the formula holds below these epsilons.
    for delta, first in ((1e-5, 168.3), (0.5, 1.552)):
        valid = [gaussian_delta(log(1 / delta) / e, e) <= delta for e in (0.01, 0.1, 1.0, 0.99 * first, 1.01 * first)]
        assert valid == [True, True, True, True, False]
    change = np.random.default_rng(0).normal(size=(1000, 20))
    assert (np.linalg.norm(change, 2, axis=1) <= np.linalg.norm(change, 1, axis=1)).all()


def test_g() -> None:
    """n = 1,000, d = 14, epsilon = 0.1: the noisy form has a negative eigenvalue and no minimum."""
    d, n = 14, 1000
    generator = np.random.default_rng(0)
    x = generator.uniform(-1, 1, (n, d))
    scale = 2 * (1 + d) ** 2 / 0.1
    noise = np.triu(generator.laplace(0, scale, (d, d)))
    gram = x.T @ x + (noise + noise.T) / 2
    values, vectors = np.linalg.eigh(gram)
    assert values[0] < 0
    along = [t * t * vectors[:, 0] @ gram @ vectors[:, 0] for t in (1.0, 10.0, 100.0)]
    assert along[0] > along[1] > along[2]


def test_h() -> None:
    for d in (3, 14, 41):
        layout = signed_layout([d + 1])
        blocks = dissect(paper_objective(layout, Task.LINEAR))
        exact = sensitivity(layout, [(b, 1.0) for b in blocks], Distribution.LAPLACE)
        assert exact == pytest.approx(float(paper_sensitivity(blocks)) / 2, rel=1e-6)
        assert exact == pytest.approx((1 + d) ** 2, rel=1e-6)


def test_i() -> None:
    """The mean of the noisy coefficients is the same at every epsilon; their spread goes with 1/epsilon."""
    spread = {}
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(10)):
        noise = discrete_laplace(Fraction(1000) / epsilon, 40_000, Randomness(b"taylor")).astype(float)
        assert abs(noise.mean()) < 5 * noise.std() / 200
        spread[epsilon] = noise.std()
    assert spread[Fraction(1, 10)] / spread[Fraction(10)] == pytest.approx(100, rel=0.05)


def test_j() -> None:
    with (ROOT / "demo" / "employer.csv").open() as file:
        labels = [row["income"] for row in csv.DictReader(file)]
    majority = labels.count("<=50K") / len(labels)
    assert majority == pytest.approx(0.75, abs=0.01)
    assert max(0.6412, 0.7315) < majority


def test_k() -> None:
    d, parties = 800, 2
    layout = signed_layout([d // 2 + 1, d // 2])
    crossed = sum(b.size for b in dissect(exact_objective(layout)) if not b.single)
    assert crossed == (d // 2) ** 2 + d // 2 == 160_400
    assert crossed > 50 * (d * 2 * parties)
    assert crossed <= d * d == 640_000  # Fairness: the Discussion's own bound.


def test_l() -> None:
    """Scalar products of two columns do not determine a sum of products of three."""
    signs = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    assert np.array_equal(signs.T @ signs, (-signs).T @ -signs)
    assert signs.prod(axis=1).sum() == 4 and (-signs).prod(axis=1).sum() == -4
    layout = signed_layout([2, 1, 1])
    names = layout.names
    blocks = dissect(polynomial(layout, [(1.0, (names[1], names[3], names[4]))]))
    assert blocks[0].owners == ("A", "B", "C")
    with pytest.raises(PrivacyError, match="terms of degree 3"):
        plan_top_down(layout, blocks, 1.0, Terms(Task.LINEAR))


def test_m() -> None:
    """ln(1 + e^z) is approximated by polynomials and is none: differences of order J + 1 of degree J vanish."""

    def loss(z: np.ndarray) -> np.ndarray:
        return np.log1p(np.exp(z))

    for order in (2, 4, 6, 8):
        assert abs(np.diff(loss(np.linspace(-1, 1, order + 1)), order)[0]) > 1e-5
    z = np.linspace(-1, 1, 2001)
    errors = [
        float(np.abs(np.polynomial.Chebyshev.interpolate(loss, degree, [-1, 1])(z) - loss(z)).max())
        for degree in (2, 4, 6)
    ]
    assert errors == pytest.approx([1.16e-3, 1.84e-5, 3.3e-7], rel=0.02)
    assert log(2) + 5 / 2 + 25 / 8 - float(loss(np.array(5.0))) == pytest.approx(1.31, abs=0.01)


def test_n() -> None:
    """The label's square is one of the released terms, and the paper's Delta_f counts it."""
    for d in (3, 14):
        layout = signed_layout([d + 1])
        blocks = dissect(paper_objective(layout, Task.LINEAR))
        assert paper_sensitivity(blocks) == 2 * (1 + 2 * d + d * d) == 2 * (2 * d + d * d) + 2
        label = layout.starts[layout.label]
        assert any((block.factors == label).all(axis=1).any() for block in blocks)


def test_o() -> None:
    """No label in [-1, 1] has a mean square above 1, and most printed errors of DPFW are."""
    told = [p.mean for p in PRINTED if p.table == 2 and p.method.startswith("DPFW")]
    assert len(told) == 12 and sum(mean > 1 for mean in told) == 11
    assert min(told) == pytest.approx(0.5487) and max(told) == 2441.0
    labels = np.random.default_rng(0).uniform(-1, 1, 1000)
    assert np.mean(np.square(labels)) <= np.mean(np.square(np.sign(labels))) == 1.0


def test_p() -> None:
    """Table 1's coincidences, and what noise of scale 45 does to a fit of 296,000 records."""
    cell = {(p.data, p.method, p.epsilon): (p.mean, p.std) for p in PRINTED if p.table == 1}
    assert cell["US", "non-private", None] == cell["Brazil", "non-private", None] == cell["Brazil", "FM", 10.0]
    assert cell["US", "FM", 10.0][0] / cell["US", "non-private", None][0] == pytest.approx(1.95, abs=0.01)
    # Fairness: over ten runs DPFW-2 does not grow by more than chance, nor is US at 10 off unless splits were the same.
    pairs = [((data, "DPFW-2", 10.0), (data, "DPFW-2", 0.1)) for data in ("US", "Brazil")]
    pairs.append((("US", "FM", 10.0), ("US", "non-private", None)))
    for one, two in pairs:
        (mean, std), (other, spread) = cell[one], cell[two]
        assert 0.4 < (mean - other) / sqrt((std**2 + spread**2) / 10) < 1
    d, n = 14, 296_000
    scale = 2 * (1 + d) ** 2 / 10
    assert scale == 45
    generator = np.random.default_rng(0)
    x = generator.uniform(-1, 1, (n, d))
    y = np.clip(x @ generator.normal(0, 0.1, d) + generator.normal(0, sqrt(0.0044), n), -1, 1)
    gram, right = x.T @ x, x.T @ y
    best = np.mean((y - x @ np.linalg.solve(gram, right)) ** 2)
    for _ in range(3):
        noise = np.triu(generator.laplace(0, scale, (d, d)))
        noisy = np.linalg.solve(gram + noise / 2 + noise.T / 2, right + generator.laplace(0, scale, d) / 2)
        assert best <= np.mean((y - x @ noisy) ** 2) < 1.001 * best


def test_q() -> None:
    """A party with half of the coordinates: its exact maximum is the record's; with fewer it is 4q(m - q)."""
    for m, own in ((8, 2), (8, 4), (8, 6), (15, 3)):
        layout = signed_layout([m - own, own])
        rates = [(b, 1.0) for b in dissect(paper_objective(layout, Task.LINEAR))]
        q = min(own, m / 2)
        moved = sensitivity(layout, rates, Distribution.LAPLACE, "B")
        assert moved == pytest.approx(4 * q * (m - q), rel=1e-6)
        if 2 * own >= m:
            assert moved == pytest.approx(sensitivity(layout, rates, Distribution.LAPLACE), rel=1e-6)
