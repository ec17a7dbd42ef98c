"""Train on masked, test on real: against scikit-learn on the same folds, and the honesty of the split."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, brier_score_loss, r2_score

from sfumato import ru_map
from sfumato.contract import Draws, Release, hold_out
from sfumato.data.microdata import Microdata
from sfumato.datasets import teachers
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.masks import CopulaSynthesis, KimNoise, Recode, SuppressColumns
from sfumato.schema import Attribute, Schema
from sfumato.utility import TrainOnMasked
from sfumato.utility.propensity import folds_after, folds_of
from sfumato.utility.train_on_masked import Training

Numbers = NDArray[np.float64]
ROLES = {"w": "weight", "home": "household"}


def data_of(frame: pd.DataFrame) -> Microdata:
    schema = Schema(tuple(Attribute(n, ROLES.get(n, "confidential")) for n in frame))  # type: ignore[arg-type]
    return Microdata(pa.Table.from_pandas(frame, preserve_index=False), schema)


def people(n: int = 600, seed: int = 1) -> pd.DataFrame:
    g = np.random.default_rng(seed)
    x, z, group = g.normal(40, 9, n), g.normal(size=n), g.choice(["a", "b", "c"], n)
    y = 2 * x + 8 * (group == "b") + 5 * z + g.normal(0, 10, n)
    kind = np.array(["low", "middle", "high"])[np.digitize(y + g.normal(0, 10, n), [70, 95])]
    return pd.DataFrame({"x": x, "z": z, "group": group, "y": y, "kind": kind, "w": g.uniform(1, 5, n)})


def masked(frame: pd.DataFrame, seed: int = 2) -> pd.DataFrame:
    g = np.random.default_rng(seed)
    return frame.assign(x=frame.x + g.normal(0, 9, len(frame)), y=frame.y + g.normal(0, 12, len(frame)))


def rows(before: pd.DataFrame, after: pd.DataFrame) -> Release:
    return Release.of(data_of(before), data_of(after), "rows")


def design(frame: pd.DataFrame, of: pd.DataFrame) -> Numbers:
    """Return standardised numbers and all categories, with the mean and the standard deviation of a file."""
    numbers = (frame[["x", "z"]] - of[["x", "z"]].mean()) / of[["x", "z"]].std(ddof=0)
    return np.column_stack([numbers, *(frame.group == v for v in "abc")]).astype(float)


@pytest.mark.parametrize("weighted", [False, True])
def test_r2_is_that_of_a_ridge_by_scikit_learn_on_the_same_folds(weighted: bool) -> None:
    before = people()
    after = masked(before)
    folds, found = folds_of(data_of(before), 3), []
    for taught in (before, after):
        guess = np.empty(len(before))
        w = (taught.w / taught.w.mean()).to_numpy() if weighted else np.ones(len(before))
        for fold in range(3):
            train, test = folds != fold, folds == fold
            model = Ridge(alpha=1.0).fit(design(taught, taught)[train], taught.y[train], w[train])
            guess[test] = model.predict(design(before, taught)[test])
        found.append(r2_score(before.y, guess, sample_weight=before.w if weighted else None))
    score = TrainOnMasked("y", ["x", "z", "group"], weighted=weighted).score(rows(before, after))
    assert score.details["R², trained on the original"] == pytest.approx(found[0], abs=1e-6)
    assert score.details["R², trained on the release"] == pytest.approx(found[1], abs=1e-6)
    assert score.value == pytest.approx(1 - (found[0] - found[1]))
    assert found[0] - found[1] > 0.05


@pytest.mark.parametrize("by", ["accuracy", "brier"])
def test_categories_are_predicted_as_by_scikit_learn(by: Any) -> None:
    before = people()
    after = masked(before).assign(kind=lambda f: f.kind.sample(frac=1, random_state=1).to_numpy())
    folds, found = folds_of(data_of(before), 3), []
    for taught in (before, after):
        p = np.empty((len(before), 3))
        for fold in range(3):
            train, test = folds != fold, folds == fold
            model = LogisticRegression(C=1.0, tol=1e-10, max_iter=5000).fit(
                design(taught, taught)[train], taught.kind[train]
            )
            p[test] = model.predict_proba(design(before, taught)[test])
        if by == "accuracy":
            found.append(accuracy_score(before.kind, model.classes_[p.argmax(axis=1)]))
        else:
            found.append(brier_score_loss(before.kind, p, labels=model.classes_, scale_by_half=False))
    score = TrainOnMasked("kind", ["x", "z", "group"], by=by).score(rows(before, after))
    assert [*score.details.values()] == pytest.approx(found, abs=1e-4)
    loss = found[0] - found[1] if by == "accuracy" else found[1] - found[0]
    assert score.value == pytest.approx(1 - loss, abs=2e-4)
    assert loss > 0.05


@pytest.mark.parametrize("model", ["linear", "forest"])
@pytest.mark.parametrize("column", ["y", "kind"])
def test_a_file_that_was_not_changed_teaches_as_much(model: Any, column: str) -> None:
    before = people()
    assert TrainOnMasked(column, model=model).score(rows(before, before)).value == 1
    order = np.random.default_rng(4).permutation(len(before))
    shuffled = Release.of(data_of(before), data_of(before.iloc[order]), order)
    assert TrainOnMasked(column, model=model).score(shuffled).value == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("model", ["linear", "forest"])
def test_a_release_that_breaks_the_relation_teaches_nothing(model: Any) -> None:
    before = people(2000)
    broken = before.assign(y=before.y.sample(frac=1, random_state=1).to_numpy())
    score = TrainOnMasked("y", ["x", "z", "group"], model=model).score(rows(before, broken))
    assert score.details["R², trained on the original"] > 0.6
    assert abs(score.details["R², trained on the release"]) < 0.15
    assert score.value < 0.5


def test_nobody_is_tested_on_what_was_learned_from_him() -> None:
    # y is noise, which only a model that has seen the record, or its masked twin, can tell
    g = np.random.default_rng(1)
    before = pd.DataFrame({"x": g.normal(size=1500), "z": g.normal(size=1500), "y": g.normal(size=1500)})
    order = g.permutation(1500)
    for made in (rows(before, before), Release.of(data_of(before), data_of(before.iloc[order]), order)):
        score = TrainOnMasked("y", model="forest").score(made)
        assert max(score.details.values()) < 0.02
    y, nowhere = before.y.to_numpy(), np.full(1500, -1)
    batch = data_of(before).batch(["x", "z"])
    seen = Training(batch, ("x", "z"), y, np.ones(1500), np.zeros(1500, np.int64)).number("forest", batch, nowhere)
    assert r2_score(y, seen) > 0.2  # a forest that has seen them can tell


def test_a_released_record_is_in_the_fold_of_its_original_and_a_household_in_one() -> None:
    g = np.random.default_rng(1)
    original = data_of(pd.DataFrame({"home": np.arange(900) // 3, "y": g.normal(size=900)}))
    folds = folds_of(original, 3)
    assert (folds.reshape(300, 3) == folds.reshape(300, 3)[:, :1]).all()
    assert np.bincount(folds, minlength=3).min() > 200
    order = g.permutation(900)[:700]
    positions = np.concatenate([order, np.full(50, -1)])
    taken = pd.DataFrame({"home": positions, "y": np.arange(750.0)})
    made = Release.of(original, data_of(taken), positions)
    after = folds_after(original, made.masked, folds, 3)
    np.testing.assert_array_equal(after[:700], folds[order])
    assert set(after[700:]) == {0, 1, 2}  # simulated records are anywhere


def test_what_runs_in_a_household_is_not_taken_for_knowledge() -> None:
    g = np.random.default_rng(1)
    home = np.arange(1500) // 30
    level, rent = g.normal(size=50)[home], g.normal(size=50)[home]
    frame = pd.DataFrame({"home": home, "rent": rent, "y": level})
    honest = TrainOnMasked("y", model="forest").score(rows(frame, frame))
    fooled = TrainOnMasked("y", model="forest").score(rows(frame.drop(columns="home"), frame.drop(columns="home")))
    assert honest.details["R², trained on the original"] < 0.05
    assert fooled.details["R², trained on the original"] > 0.2


def test_records_set_aside_are_the_test_where_there_are_any() -> None:
    frame = people(900)
    kept, held = hold_out(data_of(frame), 1 / 3, Draws(1))
    made = KimNoise(["y", "x"], lambda2=0.5).apply(kept, Draws(2)).with_holdout(held)
    names = ["x", "z", "group"]

    def pandas(data: Microdata) -> pd.DataFrame:
        return pd.DataFrame({n: data.batch().column(n).arrow.to_pylist() for n in data.schema.names()})

    test, found = pandas(held), []
    for taught in (pandas(kept), pandas(made.masked)):
        model = Ridge(alpha=1.0).fit(design(taught, taught), taught.y)
        found.append(r2_score(test.y, model.predict(design(test, taught))))
    score = TrainOnMasked("y", names).score(made)
    assert [*score.details.values()] == pytest.approx(found, abs=1e-6)
    assert "tested on records set aside" in score.words
    assert "tested in 3 folds" in TrainOnMasked("y", names).score(KimNoise(["y"]).apply(kept, Draws(1))).words


def test_a_predictor_that_is_not_released_or_suppressed_is_not_learned_from() -> None:
    before = people()
    whole = TrainOnMasked("y", ["x", "z", "group"]).score(rows(before, before)).value
    without = TrainOnMasked("y", ["x", "z", "group"]).score(rows(before, before.drop(columns="x"))).value
    empty = TrainOnMasked("y", ["x", "z", "group"]).score(rows(before, before.assign(x=math.nan))).value
    assert whole == 1
    assert without < 0.6
    assert empty == pytest.approx(without, abs=0.02)


def test_where_a_predictor_was_recoded_the_tested_records_are_recoded_alike() -> None:
    data = data_of(people())
    made = Recode({"x": [30, 40, 50]}).apply(data, Draws(1))
    score = TrainOnMasked("y", ["x", "z", "group"]).score(made)
    frame = people().assign(x=lambda f: np.digitize(f.x, [30, 40, 50]).astype(str))
    dummies = (
        pd.get_dummies(frame[["x", "group"]]).assign(z=(frame.z - frame.z.mean()) / frame.z.std(ddof=0)).astype(float)
    )
    folds, guess = folds_of(data, 3), np.empty(600)
    for fold in range(3):
        model = Ridge(alpha=1.0).fit(dummies[folds != fold], frame.y[folds != fold])
        guess[folds == fold] = model.predict(dummies[folds == fold])
    assert score.details["R², trained on the release"] == pytest.approx(r2_score(frame.y, guess), abs=1e-6)
    loose = Release.of(data, made.masked)
    with pytest.raises(NotApplicable, match="Say which record is whose"):
        TrainOnMasked("y", ["x", "z"]).score(loose)


def test_missing_values_of_the_column_are_left_out() -> None:
    before = people()
    gaps = before.assign(y=before.y.where(np.arange(600) % 4 > 0))
    score = TrainOnMasked("y", ["x", "z", "group"]).score(rows(gaps, gaps))
    assert score.value == 1
    assert 0.6 < score.details["R², trained on the original"] < 0.95


def test_synthetic_records_and_several_implicates() -> None:
    data = teachers(800)
    made = CopulaSynthesis(["age", "sex", "salary", "income"], implicates=3).apply(data, Draws(1))
    given = ["age", "sex", "income"]
    each = [
        TrainOnMasked("salary", given).score(Release(made.original, (d,))).details["R², trained on the release"]
        for d in made.implicates
    ]
    score = TrainOnMasked("salary", given).score(made)
    assert score.details["R², trained on the release"] == pytest.approx(np.mean(each))


def test_what_cannot_be_predicted_is_refused_in_a_sentence() -> None:
    before = people()
    with pytest.raises(ParameterError, match="cannot be predicted from itself"):
        TrainOnMasked("y", ["x", "y"])
    with pytest.raises(DataError, match="column 'q' is not in the data"):
        TrainOnMasked("q").score(rows(before, before))
    with pytest.raises(NotApplicable, match="column 'y' is not released"):
        TrainOnMasked("y").score(rows(before, before.drop(columns="y")))
    with pytest.raises(NotApplicable, match="holds numbers in the original and text or categories in the release"):
        TrainOnMasked("y").score(rows(before, before.assign(y="many")))
    with pytest.raises(NotApplicable, match="nothing is released"):
        TrainOnMasked("y", ["x"]).score(rows(before, before.drop(columns="x")))
    with pytest.raises(NotApplicable, match="there is no other column"):
        TrainOnMasked("y").score(rows(before[["y"]], before[["y"]]))
    with pytest.raises(NotApplicable, match="too few records to learn from"):
        TrainOnMasked("y", ["x"]).score(rows(before, before.assign(y=math.nan)))
    with pytest.raises(NotApplicable, match="too few records"):
        TrainOnMasked("y", ["x"]).score(rows(before[:5], before[:5]))
    with pytest.raises(DataError, match="does not vary"):
        TrainOnMasked("y", ["x"]).score(rows(before.assign(y=2.5), before))
    with pytest.raises(DataError, match="infinite"):
        TrainOnMasked("y", ["x"]).score(rows(before.assign(y=math.inf), before))
    many = before.assign(kind=np.arange(600).astype(str))
    with pytest.raises(NotApplicable, match="at most 100 are predicted"):
        TrainOnMasked("kind", ["x"]).score(rows(many, many))


def test_dependent_and_constant_predictors_survive() -> None:
    before = people().assign(twice=lambda f: f.x * 2, one=1.0, nobody=math.nan)
    after = masked(before)
    for model in ("linear", "forest"):
        for column in ("y", "kind"):
            score = TrainOnMasked(column, ["x", "twice", "one", "nobody"], model=model).score(rows(before, after))  # type: ignore[arg-type]
            assert math.isfinite(score.value)


def test_on_a_map_the_originals_own_score_is_found_once() -> None:
    data = teachers(400)
    measure = TrainOnMasked("salary", ["income", "age"])
    grid = {"kim_noise.lambda2": [0.02, 4.0]}
    m = ru_map(data, KimNoise(), grid, risk="salary", utility=measure, replications=10, draws=1)
    assert m.estimate(1, 0)[0] > m.estimate(1, 1)[0]
    ready = measure.prepare(data)
    made = [KimNoise(lambda2=v).apply(data, Draws(1)) for v in (0.1, 0.9)]
    assert [ready.observe(r, None)[0] for r in made] == [measure.score(r).value for r in made]  # type: ignore[arg-type]
    assert len(ready.memo) == 1
    other = KimNoise(lambda2=0.1).apply(teachers(500, seed=9), Draws(1))
    assert ready.observe(other, None)[0] == measure.score(other).value  # type: ignore[arg-type]


def test_subgroups_are_predicted_by_themselves() -> None:
    made = (KimNoise(lambda2=0.5) >> SuppressColumns("zip")).apply(teachers(900), Draws(1))
    score = TrainOnMasked("salary", ["income", "age"]).score_by(made, "sex")
    assert len(score.groups) == 2
    assert all(math.isfinite(v) for v in score.groups.values())


@pytest.mark.parametrize("spread", [1e-15, 1e-9, 1e-3])
def test_a_released_predictor_that_hardly_varies_does_not_send_guesses_to_the_moon(spread: float) -> None:
    before = people(1000)
    after = before.assign(x=40 * (1 + spread * np.random.default_rng(1).normal(size=len(before))))
    score = TrainOnMasked("y", ["x"]).score(rows(before, after))
    # no guess is further from a value than twice what the values are apart
    assert score.details["R², trained on the release"] > 1 - (2 * np.ptp(before.y)) ** 2 / before.y.var(ddof=0)
    assert score.value < 0.4
    if spread == 1e-15:  # a constant, up to rounding
        assert score.details["R², trained on the release"] == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("model", ["linear", "forest"])
@pytest.mark.parametrize("by", ["accuracy", "brier"])
def test_a_release_gains_nothing_by_teaching_better(model: Any, by: Any) -> None:
    before = people(300)
    shuffled = Release.of(data_of(before), data_of(before.sample(frac=1, random_state=1)))
    for column in ("y", "kind"):
        score = TrainOnMasked(column, model=model, by=by).score(shuffled)
        assert score.value == 1  # tested records are among those that taught
        assert "not known which record is whose" in score.words
    assert "whose" not in TrainOnMasked("y").score(rows(before, before)).words
    assert "whose" not in TrainOnMasked("salary").score(CopulaSynthesis().apply(teachers(300), Draws(1))).words
