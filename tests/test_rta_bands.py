"""What published variances say: exactly, as bands, or as bounds from published values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rta_tables import firms, table_of
from scipy.stats import truncnorm

from sfumato import Microdata
from sfumato.contract import Draws
from sfumato.errors import NotApplicable
from sfumato.tables import RTA, Table
from sfumato.tables.rta.digits import KEPT, cut_sd, implied, letters, sd_kept, worked_out
from sfumato.tables.rta.priors import Prior
from sfumato.tables.rta.publication import bound_factor


def test_bands_are_letters_by_coefficient_of_variation() -> None:
    values = np.array([100.0, -100, 100, 100, 100, 0, 100])
    variance = np.array([24.9, 25.1, 15.1**2, 0.0, 900, 1.0, 100.0])
    assert letters(values, variance).tolist() == ["A", "B", "D", "A", "E", "E", "C"]
    assert letters(values, variance, (0.2,)).tolist() == ["A", "A", "A", "A", "B", "B", "A"]


@pytest.mark.parametrize(("low", "high"), [(-1, 1), (-0.1, 3), (-5, 0.0), (-np.inf, 0.7), (-2e-4, 3e-4), (-8, 8)])
def test_the_sd_of_a_cut_normal_is_scipy_s(low: float, high: float) -> None:
    assert cut_sd(np.array([low]), np.array([high]))[0] == pytest.approx(truncnorm(low, high).std(), rel=1e-5)


def test_exact_variances_from_values_give_a_contribution_away_and_are_refused() -> None:
    """The attack itself: k = ε²η²/(ε² - η²) is public, so that ω of a leaf with one or two contributors gives d."""
    frame = pd.DataFrame({"region": list("abbb"), "turnover": [812.0, 300, 410, 100], "owner": range(4)})
    table = Table.of(Microdata(frame), "region", "turnover")
    hidden = RTA(variances="none", prior_cv=0.5, base_cv=0.2).protect(table, Draws(1))
    k = 0.25 * 0.04 / (0.25 - 0.04)
    leaf = int(np.argmax(table.totals == 812))
    assert hidden.leaf_variance is not None
    assert np.sqrt(hidden.leaf_variance[leaf] / k) == pytest.approx(812, rel=1e-3)
    assert hidden.variance is None
    assert hidden.quality is None
    with pytest.raises(NotApplicable, match=r"exact variances would disclose contributions.*as in 'region a'"):
        RTA(variances="exact", base_cv=0.2).protect(table, Draws(1))


def test_a_size_measure_that_is_the_value_in_disguise_is_no_size_measure() -> None:
    frame = firms(40, 2)
    frame["staff"] = frame.turnover * 3
    with pytest.raises(NotApplicable, match="exact variances would disclose"):
        RTA(variances="exact").protect(table_of(frame), Draws(1))
    assert RTA(variances="exact").protect(table_of(firms(40, 2)), Draws(1)).variance is not None
    with pytest.raises(NotApplicable, match="exact variances would disclose"):
        RTA(variances="exact", sizes="values").protect(table_of(firms(40, 2)), Draws(1))


@pytest.mark.parametrize(
    ("values", "sizes"),
    [
        ([812.0], [812.0]),
        ([100.0, 200], [100.0, 200]),
        ([100.0, 200], [50.0, 100]),
        ([100.0, 200, 30], [100.0, 200, 31]),
        ([12345.0, 23114, 101220, 44213, 9871], [12340.0, 23110, 101220, 44210, 9870]),
    ],
)
def test_sizes_that_are_most_of_the_values_do_not_let_exact_variances_out(
    values: list[float], sizes: list[float]
) -> None:
    """ω = k s² in a leaf of one: √(ω/k) is the size, and hence the value."""
    frame = pd.DataFrame({"region": list("abcde")[: len(values)], "turnover": values, "size": sizes})
    table = Table.of(Microdata(frame), "region", "turnover", size="size", per_size=1)
    assert RTA().protect(table, Draws(1)).variance is None
    with pytest.raises(NotApplicable, match="exact variances would disclose"):
        RTA(variances="exact").protect(table, Draws(1))
    last_year = table_of(frame.assign(size=np.array(values) * np.linspace(0.9, 1.2, len(values)) + 7), "region", "size")
    assert RTA().protect(last_year, Draws(1)).variance is not None


def test_bands_are_checked_with_the_priors_that_were_used() -> None:
    """A contribution known to within 40 % afterwards is cut by a band that leaves one known to within 4 % alone."""
    frame = pd.DataFrame({"region": list("ab"), "turnover": [1000.0, 900.0], "owner": [1, 2]})
    table = Table.of(Microdata(frame), "region", "turnover")
    wide = RTA(variances="bands", base_cv=0.01, cutpoints=(0.2, 0.7), decimals=0)
    with pytest.raises(NotApplicable, match="quality bands"):
        wide.protect_with(table, Prior.from_sizes(0.5, 0.3), Draws(1))
    published = wide.with_(cutpoints=(1e-6,)).protect_with(table, Prior.from_sizes(0.5, 0.3), Draws(1))
    assert published.protection == wide.with_(cutpoints=(1e-6,), base_cv=0.3)


def test_variances_that_follow_by_subtraction_are_found() -> None:
    frame = pd.DataFrame({"region": list("aabb"), "sector": list("xyxy"), "turnover": [1.0, 2, 3, 4]})
    shown = Table.of(Microdata(frame), "region * sector", "turnover")
    assert worked_out(shown.cells).all()
    margins = Table.of(Microdata(frame), "region + sector", "turnover")
    assert not worked_out(margins.cells).any()
    corner = Table.of(Microdata(frame[:3]), "region + sector", "turnover")  # region b is one leaf, and the rest follows
    assert worked_out(corner.cells).all()


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from([(0.1,), (0.05, 0.1, 0.15, 0.25), (0.02, 0.4)]))
def test_variances_within_what_bands_imply_give_the_same_bands(seed: int, cutpoints: tuple[float, ...]) -> None:
    table = table_of(firms(30, seed))
    g = np.random.default_rng(seed)
    omega = g.lognormal(2, 1, table.cells.leaves)
    values, variance = table.value, table.cells.sums(omega)
    least, most = implied(table.cells, values, variance, omega, cutpoints)
    assert (least <= omega + 1e-9).all()
    assert (most >= omega - 1e-9).all()
    seen = letters(values, variance, cutpoints).tolist()
    for leaf in range(min(8, table.cells.leaves)):
        for share in (1e-6, 0.5, 1 - 1e-6):
            other = omega.copy()
            other[leaf] = least[leaf] + share * (min(most[leaf], omega[leaf] + 50) - least[leaf])
            assert letters(values, table.cells.sums(other), cutpoints).tolist() == seen
        if np.isfinite(most[leaf]):
            other[leaf] = most[leaf] * (1 + 1e-6) + 1e-6
            assert letters(values, table.cells.sums(other), cutpoints).tolist() != seen


def test_what_a_band_leaves_of_a_single_contributor_is_the_cut_normal() -> None:
    frame = pd.DataFrame({"region": list("ab"), "turnover": [100.0, 5000.0]})
    table = Table.of(Microdata(frame), "region", "turnover")
    eta, k = 0.2, 0.25 * 0.04 / (0.25 - 0.04)
    known = Prior.from_sizes(0.5, eta).of(table)
    omega = k * table.totals**2
    at = int(np.argmin(table.totals))
    least, most = np.zeros(2), np.full(2, np.inf)
    least[at], most[at] = k * 90.0**2, k * 130.0**2
    kept = sd_kept(known.loading, known.variance, known.required, table.totals, omega, least, most)
    assert kept[at] == pytest.approx(truncnorm((90 - 100) / 20, (130 - 100) / 20).std(), rel=1e-6)
    assert kept[1 - at] == pytest.approx(truncnorm(-5, np.inf).std(), rel=1e-6)  # d ≥ 0 is five sds away


def test_bands_that_pin_a_contribution_down_are_refused_and_wide_ones_are_not() -> None:
    frame = pd.DataFrame({"region": [*"a" * 40, "b"], "turnover": [*np.full(40, 50.0), 800.0], "owner": range(41)})
    table = Table.of(Microdata(frame), "region", "turnover")
    with pytest.raises(NotApplicable, match=r"quality bands with these cutpoints would say too much.*'region b'"):
        RTA(variances="bands", base_cv=0.1).protect(table, Draws(1))
    wide = RTA(variances="bands", base_cv=0.1, cutpoints=(0.001, 0.9))
    published = wide.protect(table, Draws(1))
    assert published.quality is not None
    assert published.quality[table.cells.find(region="b")] == "B"
    assert published.variance is None
    # what reading the band may cost was added beforehand: the promise is kept in full
    plain = RTA(variances="none", base_cv=0.1).protect(table, Draws(1))
    b = int(np.argmin(table.counts))
    assert published.leaf_variance is not None
    assert plain.leaf_variance is not None
    required = (0.1 / KEPT) ** 2
    assert published.leaf_variance[b] / 800**2 == pytest.approx(0.25 * required / (0.25 - required), rel=1e-3)
    assert published.leaf_variance[b] > plain.leaf_variance[b]


def test_bands_of_public_variances_are_those_of_the_variances() -> None:
    table = table_of(firms(60, 2))
    exact, banded = (RTA(variances=v).protect(table, Draws(1)) for v in ("exact", "bands"))
    assert exact.variance is not None
    assert banded.quality is not None
    assert banded.quality.tolist() == letters(exact.values, exact.variance).tolist()


@pytest.mark.parametrize("integer", [False, True])
@pytest.mark.parametrize("holdings", [0, 15])
def test_bounds_are_a_function_of_published_values_and_lie_above_the_variances(integer: bool, holdings: int) -> None:
    frame = firms(80, 7, holdings)
    if integer:
        frame["turnover"] = np.ceil(frame.turnover)
    table = table_of(frame, size=None, integer=integer)
    rta = RTA()  # own values: bounds
    published = rta.protect(table, Draws(1))
    assert published.variance is None
    assert published.quality is not None
    known = Prior.from_sizes(0.5, 0.15).of(table)
    assert published.leaf_variance is not None
    factor = bound_factor(known, table, published.leaf_variance)
    assert factor is not None
    assert (published.leaf_variance <= (factor * table.totals**2 + integer) * (1 + 1e-9)).all()
    # the letters again, from what everybody sees: leaves are cells here, and which of them changed is public
    cells = table.cells
    seen = np.where(published.status[cells.of_leaf] == 3, factor * published.values[cells.of_leaf] ** 2 + integer, 0.0)
    step = 1.0 if integer else 0.1
    rounding = cells.sums((seen > 0) * step**2 / 12)
    assert letters(published.values, cells.sums(seen) + rounding).tolist() == published.quality.tolist()


def test_bounds_are_refused_where_contributions_cancel() -> None:
    frame = pd.DataFrame({"region": list("aab"), "turnover": [1000.0, -999.9, 3.0], "owner": [1, 2, 3]})
    table = Table.of(Microdata(frame), "region", "turnover")
    with pytest.raises(NotApplicable, match="no bound on the variances"):
        RTA(variances="bounds").protect(table, Draws(1))
    assert RTA().protect(table, Draws(1)).quality is None  # unless asked for: then nothing is published


def test_variances_that_show_how_a_contributor_divides_are_not_published_exactly() -> None:
    """Sizes are public, but a firm alone in two leaves gives ω = k (share × size)²: the ratio of both is that of its parts."""
    frame = pd.DataFrame({
        "region": ["a", "b", *"c" * 30], "owner": [1, 1, *range(2, 32)], "turnover": [300.0, 100.0, *np.full(30, 50.0)],
        "staff": [200.0, 200.0, *np.full(30, 40.0)],
    })  # fmt: skip
    table = table_of(frame, "region")
    hidden = RTA(variances="none").protect(table, Draws(1))
    assert hidden.leaf_variance is not None
    with pytest.raises(NotApplicable, match=r"show how contributors divide among cells.*'region a', 'region b'"):
        RTA(variances="exact").protect(table, Draws(1))
    assert RTA().protect(table, Draws(1)).variance is None
    apart = table_of(frame.assign(owner=range(32)), "region")
    assert RTA().protect(apart, Draws(1)).variance is not None


def test_a_leaf_of_nothing_with_noise_for_whole_numbers_is_bounded_without_a_warning() -> None:
    """Contributions cancel to 0, and the noise is no more than the 1 that bounds allow to whole numbers."""
    frame = pd.DataFrame({"region": list("aab"), "owner": [1, 2, 3], "turnover": [1, -1, 3]})
    table = table_of(frame, "region", size=None, integer=True)
    published = RTA(variances="bounds").protect(table, Draws(1))
    assert published.leaf_variance is not None
    assert 0 < published.leaf_variance[0] <= 1
    assert published.quality is not None
