"""The best matrix mask: what it discloses and loses by regression and simulation, from covariances and from data."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sfumato import Draws, Microdata
from sfumato.charts.theme import to_svg
from sfumato.contract import Recipe
from sfumato.datasets import teachers
from sfumato.errors import DataError, NotApplicable, ParameterError, SfumatoError
from sfumato.masks import Identity, MatrixMask, StructuredNoise, SuppressColumns
from sfumato.papers import BestMask, best_mask, mask_tradeoff
from sfumato.papers.masking_problem import SOLVED, problem_of
from sfumato.papers.optimal_masks import Kind, left_unknown, noisy_parts
from sfumato.schema import Attribute, Schema

Numbers = NDArray[np.float64]
KINDS = get_args(Kind)


def joint(p: int, t: int, seed: int, singular: bool = False) -> pd.DataFrame:
    """A covariance matrix of p attributes and t targets, in all sorts of units."""
    g = np.random.default_rng(seed)
    root = g.normal(size=(p + t, p + t)) * np.exp(g.normal(0, 1.5, (p + t, 1)))
    if singular:
        root[p - 1] = root[0] + root[1]
    names = [f"x{i}" for i in range(p)] + [f"y{i}" for i in range(t)]
    return pd.DataFrame(root @ root.T, names, names)


def by_regression(best: BestMask, S: pd.DataFrame) -> tuple[Numbers, Numbers]:
    """Var(X | M) and the variance of Y explained, by least squares on a file that has exactly these covariances."""
    names = list(dict.fromkeys([*best.columns, *best.targets]))
    values, V = np.linalg.eigh(S.loc[names, names].to_numpy())
    root = (V * np.sqrt(values.clip(0))).T  # rows whose cross-products are S
    x = root[:, [names.index(n) for n in best.columns]]
    y = root[:, [names.index(n) for n in best.targets]]
    B = np.eye(x.shape[1]) if best.B is None else best.B
    m = x @ B
    if best.noise is not None:
        spread, U = np.linalg.eigh(best.noise)
        m = np.vstack([m, (U * np.sqrt(spread.clip(0))).T])
        x, y = (np.vstack([a, np.zeros((len(best.noise), a.shape[1]))]) for a in (x, y))
    m = m / np.linalg.norm(m, axis=0).clip(1e-300)
    fit = [m @ np.linalg.lstsq(m, a, rcond=1e-12)[0] for a in (x, y)]
    rest = x - fit[0]
    return rest.T @ rest, fit[1].T @ fit[1]


def omega(G: Numbers, S_yy: Numbers, functional: str) -> float:
    """Ω in shares, written out anew."""
    if functional == "each target":
        return float((np.diag(G) / np.diag(S_yy)).max())
    shares = np.linalg.eigvals(np.linalg.solve(S_yy, G)).real
    return float(shares.sum() if functional == "trace" else shares.max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("functional", SOLVED)
@pytest.mark.parametrize(("p", "t"), [(1, 1), (2, 1), (4, 1), (4, 2), (3, 3), (6, 2)])
def test_the_mask_explains_less_than_tau_and_loses_what_it_says_by_regression(
    kind: str, functional: str, p: int, t: int
) -> None:
    for seed in range(2):
        S = joint(p, t, seed)
        targets = list(S.columns[p:])
        best = best_mask(S, targets, tau=0.2, functional=functional, kind=kind)
        left, G = by_regression(best, S)
        S_yy = S.loc[targets, targets].to_numpy()
        assert omega(G, S_yy, functional) < 0.2 * (1 + 1e-9)
        assert best.disclosed == pytest.approx(omega(G, S_yy, functional), abs=1e-6 if kind == "displacing" else 1e-8)
        assert best.disclosed < best.tau
        variance = np.diag(S)[:p]
        assert best.lost == pytest.approx(float((np.diag(left) / variance).sum()), abs=1e-6)
        assert best.total == pytest.approx(p)
        np.testing.assert_allclose(best.shares, np.diag(G) / np.diag(S_yy), atol=1e-7)
        assert best.lost - best.bound >= -1e-12
        if kind != "attributes" or t == 1 or functional == "trace":
            assert best.lost - best.bound < 1e-4 * best.total


@pytest.mark.parametrize("functional", SOLVED)
def test_no_usual_mask_and_no_other_kind_loses_less_than_the_best(functional: str) -> None:
    for seed in range(3):
        S = joint(5, 2, seed)
        best = {k: best_mask(S, ["y0", "y1"], 0.15, functional=functional, kind=k) for k in KINDS}
        assert best["both"].lost <= best["attributes"].lost + 1e-6
        assert best["both"].lost == pytest.approx(best["displacing"].lost, abs=1e-4)
        for mask in best["both"].naive:
            assert best["both"].lost <= mask.lost + 1e-6, mask.name
        dropped = next(m for m in best["both"].naive if m.name == "dropping columns")
        assert best["attributes"].lost <= dropped.lost + 1e-6


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 6), st.floats(1e-6, 0.999), st.sampled_from(KINDS))
def test_strictly_less_than_tau_is_explained_whatever_the_covariance(seed: int, p: int, tau: float, kind: str) -> None:
    best = best_mask(joint(p, 1, seed), "y0", tau, kind=kind)
    assert best.disclosed < tau
    assert best.bound <= best.lost <= best.total * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_every_posterior_variance_is_that_of_some_mask(seed: int) -> None:
    """0 ⪯ W ⪯ S: as M = X + C if S - W is regular, else as M = XB + C."""
    g = np.random.default_rng(seed)
    S = joint(5, 1, seed)
    problem = problem_of(S, "y0", 0.5)
    V, _ = np.linalg.qr(g.normal(size=(5, 5)))
    hidden = np.array([0.0, 1.0, *g.uniform(0, 1, 3)]) if seed % 2 else g.uniform(0, 0.99, 5)
    W = problem.root @ (V * hidden) @ V.T @ problem.root.T
    parts = noisy_parts(problem, np.eye(5) - (V * hidden) @ V.T)
    assert (parts.B is None) == (seed % 2 == 0)
    X = S.iloc[:5, :5].to_numpy()
    B = np.eye(5) if parts.B is None else parts.B
    noise = np.zeros((B.shape[1], B.shape[1])) if parts.noise is None else parts.noise
    by_hand = X - X @ B @ np.linalg.solve(B.T @ X @ B + noise, B.T @ X)
    scale = np.sqrt(np.outer(np.diag(X), np.diag(X)))
    np.testing.assert_allclose(by_hand / scale, W / scale, atol=1e-7)
    np.testing.assert_allclose(left_unknown(problem, parts.B, parts.noise) / scale, W / scale, atol=1e-7)


def test_units_do_not_matter_unless_variances_are_counted_as_they_are() -> None:
    S = joint(4, 2, seed=3)
    unit = np.array([1e3, 1, 1e-3, 7, 50, 1e-4])
    other = S * np.outer(unit, unit)
    for kind in KINDS:
        one, two = (best_mask(s, ["y0", "y1"], 0.2, kind=kind) for s in (S, other))
        assert one.lost == pytest.approx(two.lost, abs=1e-6)
    raw = best_mask(S, ["y0"], tau=0.1 * S.loc["y0", "y0"], relative=False)
    assert raw.total == pytest.approx(np.diag(S)[[0, 1, 2, 3, 5]].sum())
    assert raw.disclosed < 0.1 * S.loc["y0", "y0"]
    left, G = by_regression(raw, S)
    assert raw.lost == pytest.approx(float(np.trace(left)), rel=1e-5)
    assert raw.disclosed == pytest.approx(float(G[0, 0]), rel=1e-7)


def test_weights_move_the_loss_to_columns_that_count_less() -> None:
    S = joint(4, 1, seed=5)

    def left(weights: dict[str, float] | None) -> Numbers:
        found, _ = by_regression(best_mask(S, "y0", 0.1, importance=weights), S)
        return np.asarray(np.diag(found) / np.diag(S)[:4])

    assert left({"x2": 100.0})[2] < left(None)[2]
    assert left({"x2": 100.0}) @ [1, 1, 100, 1] <= left(None) @ [1, 1, 100, 1] + 1e-9


def test_each_released_combination_is_one_column_and_a_little_of_the_others() -> None:
    best = best_mask(joint(4, 1, seed=1), "y0", 0.05, kind="attributes")
    assert best.B is not None
    assert best.B.shape == (4, 3)
    lead = [i for i in range(4) if (best.B[i] == np.eye(3)[np.abs(best.B[i]).argmax()]).all()]
    assert len(lead) >= 3
    assert isinstance(best.mask, MatrixMask)
    assert best.mask.released == ("m1", "m2", "m3")


def test_a_target_that_nothing_tells_of_leaves_the_file_as_it_is() -> None:
    S = joint(3, 1, seed=2)
    S.loc["y0", ["x0", "x1", "x2"]] = S.loc[["x0", "x1", "x2"], "y0"] = 0.0
    for kind in KINDS:
        best = best_mask(S, "y0", 0.01, kind=kind)
        assert best.mask == Identity()
        assert (best.lost, best.disclosed, best.kept) == (pytest.approx(0, abs=1e-12), 0.0, pytest.approx(1))
        assert best.attained
        assert "no acceptable mask of its kind keeps more" in best.words


def test_a_limit_above_what_the_file_explains_leaves_it_as_it_is() -> None:
    assert best_mask(joint(3, 1, seed=2), "y0", 1.5).mask == Identity()


def test_one_column_without_noise_is_released_or_not() -> None:
    best = best_mask(joint(1, 1, seed=1), "y0", 1e-3, kind="attributes")
    assert best.mask == SuppressColumns(("x0",))
    assert best.disclosed == 0
    assert best.kept == 0


def test_a_displacing_mask_keeps_all_columns_however_small_tau_is() -> None:
    for tau in (1e-9, 1e-6, 1e-3):
        best = best_mask(joint(4, 1, seed=3), "y0", tau, kind="displacing")
        assert isinstance(best.mask, StructuredNoise)
        assert best.disclosed < tau
        assert best.lost - best.bound < 1e-2 * best.total


def test_columns_that_are_sums_of_others_are_masked_too() -> None:
    for kind in KINDS:
        S = joint(4, 1, seed=4, singular=True)
        best = best_mask(S, "y0", 0.1, kind=kind)
        left, G = by_regression(best, S)
        assert G[0, 0] / S.loc["y0", "y0"] < 0.1 * (1 + 1e-7)
        assert best.lost == pytest.approx(float((np.diag(left) / np.diag(S)[:4]).sum()), abs=1e-5)
        assert best.lost - best.bound < 1e-4


def test_a_target_may_be_among_the_columns_released() -> None:
    S = joint(3, 0, seed=6)
    best = best_mask(S, "x0", 0.3, columns=["x0", "x1", "x2"])
    _, G = by_regression(best, S)
    assert G[0, 0] / S.loc["x0", "x0"] == pytest.approx(0.3, abs=1e-6)


def test_the_usual_masks_lose_what_their_formulas_say() -> None:
    S = joint(3, 1, seed=8)
    x, y = S.iloc[:3, :3].to_numpy(), S.iloc[3, :3].to_numpy()
    share = y @ np.linalg.solve(x, y) / S.iloc[3, 3]
    tau = 0.4 * share
    kim, apart, dropped = best_mask(S, "y0", tau).naive
    assert kim.lost == pytest.approx(3 * 0.6)
    assert kim.setting == "λ² = 1.5"

    def after(noise: Numbers) -> tuple[float, float]:
        inverse = np.linalg.inv(x + noise)
        return y @ inverse @ y / S.iloc[3, 3], float(np.trace((x - x @ inverse @ x) / np.diag(x)))

    lambda2 = float(apart.setting.removeprefix("λ² = "))
    explained, lost = after(lambda2 * np.diag(np.diag(x)))
    assert explained == pytest.approx(tau, rel=5e-3)  # the setting is rounded
    assert apart.lost == pytest.approx(lost, rel=5e-3)
    losses = []
    for kept in ([], [0], [1], [2], [0, 1], [0, 2], [1, 2]):
        if not kept:
            losses.append(3.0)
            continue
        inverse = np.linalg.inv(x[np.ix_(kept, kept)])
        if y[kept] @ inverse @ y[kept] / S.iloc[3, 3] < tau:
            losses.append(float(np.trace((x - x[:, kept] @ inverse @ x[kept]) / np.diag(x))))
    assert dropped.lost == pytest.approx(min(losses))


def test_independent_noise_on_columns_that_add_up_is_compared_as_it_is_seen() -> None:
    """The spy knows that the columns add up, and uses it: the formula for a singular covariance, against one nearly so."""
    S = joint(3, 1, seed=9, singular=True)
    nearly = S.copy()
    nearly.iloc[2, 2] *= 1 + 1e-7
    one, two = (best_mask(s, "y0", 0.05).naive[1] for s in (S, nearly))
    assert one.lost == pytest.approx(two.lost, rel=1e-4)


@pytest.mark.parametrize("singular", [False, True])
def test_many_columns_are_dropped_one_by_one(singular: bool) -> None:
    """Each time the one is dropped without which least is explained, by pseudo-inverses of correlations."""
    frame = joint(13, 2, seed=1, singular=singular)
    S = frame.to_numpy() / np.sqrt(np.outer(np.diag(frame), np.diag(frame)))
    x, y = list(range(13)), [13, 14]

    def told(at: list[int], of: list[int]) -> Numbers:
        return np.asarray(S[np.ix_(of, at)] @ np.linalg.pinv(S[np.ix_(at, at)], rcond=1e-10) @ S[np.ix_(at, of)])

    def disclosed(at: list[int]) -> float:
        return float(np.trace(np.linalg.solve(S[np.ix_(y, y)], told(at, y))))

    losses, at = [], x
    while at:
        at = min(([i for i in at if i != j] for j in at), key=disclosed)
        losses.append(13 - np.trace(told(at, x)) if disclosed(at) < 0.4 else 13.0)
    best = best_mask(frame, ["y0", "y1"], 0.4)
    assert best.naive[2].lost == pytest.approx(min(losses), rel=1e-6)
    assert best.naive[2].lost >= best.lost


# Data


def r_squared(y: Numbers, columns: list[Numbers]) -> float:
    m = np.column_stack([np.ones(len(y)), *columns])
    rest = y - m @ np.linalg.lstsq(m, y, rcond=None)[0]
    return 1 - float(rest.var() / y.var())


COLUMNS = ["age", "experience", "salary"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tau", [0.02, 0.11])
def test_a_regression_on_the_released_file_explains_tau_of_the_target(kind: str, tau: float) -> None:
    data = teachers(4_000)
    data = data.with_schema(Schema(tuple(a.with_(integer=False) for a in data.schema)))
    best = best_mask(data, "income", tau, columns=COLUMNS, kind=kind)
    masked = best.apply(data, Draws(1)).masked
    assert "income" not in masked.schema.names()
    names = [n for n in masked.schema.names() if n in COLUMNS or n.startswith("m")]
    found = r_squared(data.numbers("income"), [masked.numbers(n) for n in names])
    assert found == pytest.approx(tau, abs=1e-6 if best.noise is None else 0.012)
    left = sum(1 - r_squared(data.numbers(n), [masked.numbers(m) for m in names]) for n in COLUMNS)
    assert left == pytest.approx(best.lost, abs=1e-6 if best.noise is None else 0.02)


def test_what_is_released_is_a_matrix_mask_or_noise_or_both() -> None:
    data = teachers(500)
    kinds = {
        k: best_mask(data, "salary", 0.05, columns=["age", "experience", "income", "salary"], kind=k) for k in KINDS
    }
    assert isinstance(kinds["attributes"].mask, MatrixMask)
    assert isinstance(kinds["displacing"].mask, StructuredNoise)
    assert isinstance(best_mask(data, "income", 0.05, columns=COLUMNS).mask, Recipe)
    for best in kinds.values():
        assert best.words.startswith("salary: the release explains just less than 0.05 of the variance")
        assert len(best.apply(data, Draws(1)).masked) == 500


def test_noise_and_combinations_go_together_where_both_are_needed() -> None:
    """Two targets: one direction is hidden altogether, another in part."""
    for seed in range(40):
        S = joint(4, 3, seed)
        best = best_mask(S, ["y0", "y1", "y2"], 0.3, functional="largest eigenvalue")
        if best.B is not None and best.noise is not None:
            assert isinstance(best.mask, Recipe)
            assert [s.mask.name for s in best.mask.steps[1:]] == ["matrix_mask", "structured_noise"]
            return
    raise AssertionError("no case found")


def test_a_column_named_like_those_to_be_made_is_not_overwritten() -> None:
    data = teachers(300)
    frame = pa.table({**{n: data.numbers(n) for n in (*COLUMNS, "income")}, "m1": np.arange(300.0)})
    schema = Schema(tuple(Attribute(n, "confidential") for n in frame.column_names))  # type: ignore[arg-type]
    best = best_mask(Microdata(frame, schema), "income", 0.02, columns=COLUMNS, kind="attributes")
    assert best.apply(Microdata(frame, schema), Draws(1)).masked.schema.names() == ("m1", "m_1", "m_2")


def test_other_columns_of_the_file_are_told_to_explain_more() -> None:
    """The spy regresses on the released columns and on those that the mask does not name."""
    data = teachers(2_000)
    best = best_mask(data, "income", 0.05, columns=["salary"])
    assert best.others == ("age", "experience")
    masked = best.apply(data, Draws(1)).masked
    names = [n for n in masked.schema.names() if n in ("salary", "m1", "age", "experience")]
    expected = r_squared(data.numbers("income"), [masked.numbers(n) for n in names])
    assert best.with_others == pytest.approx(expected, abs=1e-6 if best.noise is None else 0.02)
    assert expected > 0.05
    assert "Together with age, experience, released as they are" in best.words
    assert "mask them too" in best.words
    whole = best_mask(data, "income", 0.05, columns=COLUMNS)
    assert (whole.others, whole.with_others) == ((), None)
    assert "released as they are" not in whole.words
    loose = best_mask(data, "income", 0.9, columns=["salary"])
    assert loose.with_others is not None
    assert "still less than τ" in loose.words


def test_other_columns_that_no_record_has_leave_open_what_they_explain() -> None:
    data = teachers(300)
    frame = pa.table({**{n: data.numbers(n) for n in (*COLUMNS, "income")}, "gone": np.full(300, np.nan)})
    schema = Schema(tuple(Attribute(n, "confidential") for n in frame.column_names))  # type: ignore[arg-type]
    best = best_mask(Microdata(frame, schema), "income", 0.05, columns=COLUMNS)
    assert (best.others, best.with_others) == (("gone",), None)
    assert "too few records have all columns" in best.words


def test_functionals_that_cannot_be_optimised_are_refused_with_their_reason() -> None:
    S = joint(3, 2, 1)
    with pytest.raises(ParameterError, match="even if another is disclosed completely"):
        best_mask(S, ["y0", "y1"], 0.1, functional="determinant")
    with pytest.raises(ParameterError, match="can be judged"):
        best_mask(S, ["y0", "y1"], 0.1, functional="log-determinant")


def test_without_columns_every_confidential_number_but_the_targets_is_released() -> None:
    assert best_mask(teachers(300), "income", 0.2).columns == ("salary",)


# Bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tau": 0.0}, "tau must be above 0"),
        ({"tau": -1.0}, "tau is -1"),
        ({"tau": float("nan")}, "must be a number"),
        ({"tau": float("inf")}, "above 0, and finite"),
        ({"functional": "tracee"}, "Did you mean 'trace'"),
        ({"kind": "records"}, "kind must be"),
        ({"columns": ["x0", "z"]}, "'z' is not in"),
        ({"columns": ["x0", "x0"]}, "none twice"),
        ({"columns": []}, "at least one"),
        ({"targets": []}, "at least one"),
        ({"importance": {"x0": 0.0}}, "above 0"),
        ({"importance": {"q": 1.0}}, "not masked: q"),
        ({"combinations": 2}, "goes with kind='attributes'"),
        ({"combinations": 9, "kind": "attributes"}, "from 1 to 3"),
        ({"source": np.eye(3)}, "pandas frame"),
        ({"source": pd.DataFrame(np.ones((2, 3)), columns=list("abc"))}, "pandas frame"),
        ({"source": pd.DataFrame(np.eye(4), list("abcd"), ["x0", "x1", "x2", "y0"])}, "same names"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(change: dict[str, Any], message: str) -> None:
    asked: dict[str, Any] = {"source": joint(3, 1, 1), "targets": "y0", "tau": 0.1, **change}
    with pytest.raises(ParameterError, match=message) as caught:
        best_mask(asked.pop("source"), asked.pop("targets"), asked.pop("tau"), **asked)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("change", [(0, 0, -1.0), (0, 1, 1e6), (3, 0, 1e6)])
def test_what_is_no_covariance_matrix_is_refused(change: tuple[int, int, float]) -> None:
    S = joint(3, 1, 1)
    i, j, value = change
    S.iloc[i, j] = S.iloc[j, i] = value
    with pytest.raises(ParameterError):
        best_mask(S, "y0", 0.1)


def test_more_combinations_than_can_be_released_are_refused() -> None:
    with pytest.raises(NotApplicable, match="Ask for fewer"):
        best_mask(joint(3, 1, 1), "y0", 0.01, kind="attributes", combinations=3)


def test_columns_that_do_not_vary_or_hold_no_numbers_or_have_too_few_records_are_refused() -> None:
    data = teachers(300)
    with pytest.raises(DataError, match="numbers"):
        best_mask(data, "income", 0.1, columns=["sex", "age"])
    with pytest.raises(DataError, match="too few"):
        best_mask(teachers(4), "income", 0.1, columns=COLUMNS)
    frame = pa.table({"x": np.ones(50), "z": np.arange(50.0), "y": np.arange(50.0) ** 2})
    with pytest.raises(DataError, match="x: all values are the same"):
        best_mask(Microdata(frame), "y", 0.1, columns=["x", "z"])
    with pytest.raises(SfumatoError, match="incme"):
        best_mask(data, "incme", 0.1, columns=COLUMNS)


# The trade-off


def test_masks_that_disclose_as_much_leave_very_different_files() -> None:
    """X₁ and X₂ correlate at 1/2, the target 0.6 and 0.2 with them: by hand, they explain 28/75 of it together."""
    names = ["x1", "x2", "y"]
    S = pd.DataFrame([[1, 0.5, 0.6], [0.5, 1, 0.2], [0.6, 0.2, 1]], names, names)
    share = mask_tradeoff(S, "y", [0.1]).frame().set_index("mask")["share"]
    assert share["Kim noise"] == pytest.approx(1 - 0.1 * 75 / 28)
    assert share["dropping columns"] == pytest.approx((1 - 0.5**2) / 2)  # x1 goes, x2 stays: 0.2² < 0.1
    # (κ uu′ along H⁻¹g): by hand, with L = S_yx S⁻¹ = (2/3, -2/15), lost = γ/|L|²
    assert share["best mask"] == pytest.approx((28 / 75 - 0.1) / (4 / 9 + 4 / 225) / 2)


def test_the_curves_fall_and_the_best_is_below_all_others() -> None:
    S = joint(4, 1, seed=2)
    made = mask_tradeoff(S, "y0")
    table = made.frame().pivot_table(index="tau", columns="mask", values="lost")
    assert (table.diff().iloc[1:] <= 1e-9).all().all()
    for name in table.columns:
        assert (table["best mask"] <= table[name] + 1e-7).all(), name
    tau = table.index[12]
    again = best_mask(S, "y0", tau)
    assert table.loc[tau, "best mask"] == pytest.approx(again.bound, abs=1e-8)
    assert table.loc[tau, "best without noise"] == pytest.approx(
        best_mask(S, "y0", tau, kind="attributes").bound, abs=1e-6
    )
    assert table.loc[tau, "Kim noise"] == pytest.approx(again.naive[0].lost)
    assert made.unmasked == pytest.approx(table.index[-1])


def test_the_chart_draws_the_numbers_of_the_frame() -> None:
    made = mask_tradeoff(joint(3, 1, seed=2), "y0", [0.05, 0.1, 0.3])
    spec = made.chart().to_dict()
    held = spec.get("datasets", {})
    drawn = [row for layer in spec["layer"] for row in layer["data"].get("values") or held[layer["data"]["name"]]]
    assert len(drawn) == 15
    for row in drawn:
        same = made.frame()[(made.frame()["mask"] == row["mask"]) & (made.frame()["tau"] == row["tau"])]
        assert row["share"] == pytest.approx(same["share"].item())
    assert to_svg(spec).startswith("<svg")
    with pytest.raises(ParameterError, match="taus is empty"):
        mask_tradeoff(joint(3, 1, seed=2), "y0", [])
