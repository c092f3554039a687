"""The policy: each rule refuses with its limit and the plan's number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from colonnade.consent.policy import POLICY_KEYS, Policy, policy_from, read_policy
from colonnade.foundation.errors import PolicyError
from colonnade.foundation.schema import Binary, Numeric, Schema
from colonnade.mechanism.composition import Cap, Rule, charge_of
from colonnade.mechanism.objective import Calibration, Task
from colonnade.mechanism.plan import View
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import SessionPlan, plan_session

AGREEMENT = Agreement.from_terms(
    name="income",
    schema=Schema(
        {"bank": {"gain": Numeric(0, 9), "loss": Numeric(0, 5)}, "employer": {"income": Binary(("low", "high"))}}
    ),
    label="income",
    task=Task.LOGISTIC,
    epsilon=1.0,
    product="lattice",
)
POLICY = Policy("bank", ("employer",), 1.0, Cap(3.0), delta=1e-6)


def session(rows: int = 5000, **changes: Any) -> SessionPlan:
    return plan_session(AGREEMENT.with_terms(**changes), rows, bytes(32))


def test_a_session_within_every_rule_passes() -> None:
    strict = replace(
        POLICY,
        labels=("employer.income",),
        columns=("gain", "loss"),
        tasks=("logistic",),
        calibrations=("exact",),
        smallest_rows=5000,
        record_epsilon=1.0,
    )
    strict.check(session())
    strict.check(session(), "bank")


@pytest.mark.parametrize(
    ("rule", "changes", "rows", "message"),
    [
        ({"partners": ("clinic",)}, {}, 5000, "partners allows clinic, the session has employer"),
        ({"partners": ()}, {}, 5000, "partners allows none, the session has employer"),
        ({"labels": ("bank.loss",)}, {}, 5000, "labels allows bank.loss, the session has employer.income"),
        ({"columns": ("gain",)}, {}, 5000, "columns allows gain, the session has loss"),
        ({"tasks": ("linear",)}, {}, 5000, "tasks allows linear, the session has logistic"),
        ({}, {"product": "plain"}, 5000, "products allows lattice, bgn, the session has plain"),
        (
            {"products": ("plain",)},
            {"product": "plain"},
            5000,
            "views asks for a guarantee against server, the plan has none",
        ),
        (
            {"calibrations": ("exact",)},
            {"calibration": Calibration.PAPER},
            5000,
            "calibrations allows exact, the session has paper",
        ),
        ({"smallest_rows": 5000}, {}, 4999, "smallest_rows is 5000, the session has n=4999"),
        ({}, {"collusion": 0}, 5000, "smallest_collusion is 1, the plan has 0"),
        (
            {"smallest_collusion": 0},
            {"collusion": 0},
            5000,
            "views asks for a guarantee against party, the plan has none",
        ),
        ({"delta": 0.0}, {"delta": 1e-7}, 5000, "session.delta is at most 0, the plan has 1e-07"),
        (
            {"record_epsilon": 0.5},
            {},
            5000,
            r"session.record_epsilon is at most 0.5, the plan has (1|0\.99999)",
        ),
        ({"party": "clinic"}, {}, 5000, "the policy is for party 'clinic', the session has bank, employer"),
    ],
)
def test_each_rule_refuses_and_names_rule_and_number(
    rule: Mapping[str, Any], changes: Mapping[str, Any], rows: int, message: str
) -> None:
    with pytest.raises(PolicyError, match=f"^{message}"):
        replace(POLICY, **rule).check(session(rows, **changes))


def test_epsilon_is_that_of_the_party_and_of_its_worst_view() -> None:
    plan = session().plan
    epsilon = charge_of(plan, "bank").epsilon
    replace(POLICY, epsilon=epsilon).check(session())
    with pytest.raises(PolicyError, match=rf"session.epsilon is at most .*, the plan has {epsilon:.10g}"):
        replace(POLICY, epsilon=epsilon * 0.999).check(session())
    # Without collusion a party knows a share of the Gaussian noise: its view is the worst, and is what is charged.
    alone = session(delta=1e-6, collusion=0)
    views = alone.plan.parties["bank"]
    assert charge_of(alone.plan, "bank").epsilon == views[View.PARTY] != views[View.OUTSIDER]
    assert charge_of(alone.plan, "bank").rho is None
    assert charge_of(session(delta=1e-6).plan, "bank").rho is not None
    with pytest.raises(PolicyError, match=r"session\.epsilon is at most"):
        replace(POLICY, smallest_collusion=0, epsilon=views[View.OUTSIDER]).check(alone)


def test_one_party_alone_needs_no_partner_views() -> None:
    alone = replace(AGREEMENT, schema=Schema({"bank": dict(AGREEMENT.schema.parties["bank"])}), label="loss")
    alone = replace(alone, task=Task.LINEAR, collusion=0)
    POLICY.check(plan_session(alone, 100, bytes(32)))


def test_approval_by_digest_or_by_asking() -> None:
    digest = session().digest
    POLICY.approve(digest)
    careful = replace(POLICY, require_approval=True)
    careful.approve(digest, approved=[digest])
    careful.approve(digest, approved=["0" * 64, digest[:16].upper()])
    asked: list[str] = []
    careful.approve(digest, "epsilon 1 for income", ask=lambda text: not asked.append(text))
    assert asked == [f"epsilon 1 for income\nplan {digest}"]
    with pytest.raises(PolicyError, match=f"nobody approved the plan {digest}"):
        careful.approve(digest)
    with pytest.raises(PolicyError, match="nobody approved"):
        careful.approve(digest, approved=[session(4000).digest], ask=lambda _: False)
    with pytest.raises(PolicyError, match="at least 16 characters of a digest, got ''"):
        careful.approve(digest, approved=[""])


TEXT = """
[policy]
party = "bank"
partners = ["employer"]
labels = ["employer.income"]
columns = ["gain", "loss"]
tasks = ["logistic"]
products = ["lattice"]
calibrations = ["exact"]
views = ["outsider", "server"]
smallest_rows = 1000
smallest_collusion = 1
require_approval = true
[session]
epsilon = 1
delta = 1e-6
record_epsilon = 1.5
[total]
epsilon = 3.0
delta = 1e-5
rule = "rho"
"""


def test_a_file_says_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(TEXT)
    assert read_policy(path) == Policy(
        party="bank",
        partners=("employer",),
        epsilon=1.0,
        cap=Cap(3.0, 1e-5, Rule.RHO),
        delta=1e-6,
        record_epsilon=1.5,
        labels=("employer.income",),
        columns=("gain", "loss"),
        tasks=("logistic",),
        products=("lattice",),
        calibrations=("exact",),
        views=(View.OUTSIDER, View.SERVER),
        smallest_rows=1000,
        smallest_collusion=1,
        require_approval=True,
    )


def test_a_short_file_has_safe_defaults() -> None:
    policy = policy_from(
        {"policy": {"party": "bank", "partners": ["*"]}, "session": {"epsilon": 1}, "total": {"epsilon": 2}}
    )
    assert policy == Policy("bank", ("*",), 1.0, Cap(2.0))
    assert policy.largest_list is None
    terms = {"party": "bank", "partners": ["*"], "largest_list": 5000}
    assert policy_from({"policy": terms, "session": {"epsilon": 1}, "total": {"epsilon": 2}}).largest_list == 5000
    terms["largest_list"] = "twice"
    assert policy_from({"policy": terms, "session": {"epsilon": 1}, "total": {"epsilon": 2}}).largest_list == "twice"
    for wrong, told in (
        ("thrice", "must be one of twice"),
        (True, "whole number"),
        (-1, "whole number"),
        ([], "whole"),
    ):
        terms["largest_list"] = wrong
        with pytest.raises(PolicyError, match=told):
            policy_from({"policy": terms, "session": {"epsilon": 1}, "total": {"epsilon": 2}})
    assert "plain" not in policy.products and policy.delta == 0 and policy.views == tuple(View)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("smallest_rows", "smalest_rows", "has no key 'smalest_rows'; did you mean 'smallest_rows'"),
        ("[total]", "[totals]", "the policy file has no key 'totals'; did you mean 'total'"),
        ('party = "bank"', "", "needs 'party'"),
        ('party = "bank"', "party = 3", "party must be a non-empty text, got party=3"),
        ('partners = ["employer"]', 'partners = "employer"', "partners must be a list of texts"),
        (
            'tasks = ["logistic"]',
            'tasks = ["logisitc"]',
            "tasks may list linear, logistic, multinomial, polynomial, got",
        ),
        ('"server"]', '"sever"]', "views may list outsider, server, party, coalition, got 'sever'"),
        ("smallest_rows = 1000", "smallest_rows = -1", "smallest_rows must be a whole number, got smallest_rows=-1"),
        ("require_approval = true", 'require_approval = "no"', "require_approval must be true or false, got 'no'"),
        ("epsilon = 1\n", "epsilon = 0\n", r"session\.epsilon must be positive, got epsilon=0"),
        ("epsilon = 1\n", "epsilon = nan\n", r"session\.epsilon must be a finite number, got epsilon=nan"),
        ("epsilon = 3.0", "epsilon = true", r"total\.epsilon must be a number, got epsilon=True"),
        ("delta = 1e-6", "delta = 1", r"session\.delta must lie in \[0, 1\), got delta=1"),
        ("delta = 1e-5", "delta = 0", 'rule "rho" needs a positive delta'),
        ('rule = "rho"', 'rule = "best"', "total.rule must be one of sum, rho, zcdp, got rule='best'"),
        ("[session]", "[session", "is not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_its_sentence(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in TEXT
    path = tmp_path / "policy.toml"
    path.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(PolicyError, match=message):
        read_policy(path)


def test_a_missing_file_or_section_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="there is no policy file"):
        read_policy(tmp_path / "none.toml")
    with pytest.raises(PolicyError, match=r"a policy file needs a \[session\] section"):
        policy_from({"policy": {"party": "bank", "partners": []}, "total": {"epsilon": 1}})


@pytest.mark.parametrize("key", POLICY_KEYS)
def test_a_key_is_explained(key: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "policy.md").read_text(encoding="utf-8")
    assert f"| `policy.{key}` |" in page


@pytest.mark.parametrize(
    ("changes", "receiver", "message"),
    [
        ({}, "shop", None),
        ({"scores_to": ()}, "shop", "scores_to allows none, the prediction has shop"),
        ({"scores_to": ()}, "bank", None),
        ({"scores_to": ("clinic",)}, "shop", "scores_to allows clinic, the prediction has shop"),
        ({"partners": ("clinic",)}, "shop", "partners allows clinic, the prediction has shop"),
        ({"columns": ("age",)}, "shop", "columns allows age, the prediction has gain"),
        ({"party": "clinic"}, "shop", "the policy is for party 'clinic', the prediction has shop, bank"),
    ],
)
def test_scores_go_where_the_policy_says(changes: dict[str, Any], receiver: str, message: str | None) -> None:
    terms: dict[str, Any] = {"party": "bank", "partners": ("shop",), "epsilon": 1.0, "cap": Cap(1.0)}
    policy = Policy(**{**terms, "scores_to": ("*",), **changes})
    if message is None:
        policy.check_scores(receiver, ("shop", "bank"), ("gain",), "bank")
        return
    with pytest.raises(PolicyError, match=message):
        policy.check_scores(receiver, ("shop", "bank"), ("gain",), "bank")
