"""The promises of every measure of risk or utility, and of every estimator."""

from __future__ import annotations

import json
import math

import numpy as np

from sfumato.contract import Draws, Holdout, Measure, Need, Recipe, Release, Score, Side, Snooper
from sfumato.data import Microdata
from sfumato.errors import NotApplicable, SfumatoError
from sfumato.masks import KimNoise, TopCode
from sfumato.testing.instances import NUMBERS, Values, holds_function, instances_of, keep_all, require
from sfumato.testing.records import DRAWS, EXTREMES, RECIPE, SCHEMA, arrow_table, microdata, require_sentence
from sfumato.utility import Estimator

# --- promises of measures


def snooper_for(measure: Measure) -> Snooper:
    """Return a snooper who has what the measure needs: a table of the population, where it needs one."""
    return Snooper().learn(population=microdata()) if Need.POPULATION in measure.needs else Snooper()


def with_holdout(measure: Measure, release: Release) -> Release:
    """Return the release with other people's records, which no mask has seen, where the measure needs them."""
    if Need.HOLDOUT not in measure.needs:
        return release
    return release.with_holdout(Holdout.of(Microdata(arrow_table(seed=2014), SCHEMA)))


def score_of(measure: Measure, release: Release) -> Score:
    """Score a release, with what the measure needs beside it."""
    return measure.score(with_holdout(measure, release), snooper_for(measure))


def require_score(score: Score, measure: Measure) -> None:
    """Require a score that says what it is, and shows no record."""
    require(isinstance(score, Score), "It returns no Score.")
    require(not math.isnan(score.value), "The value is not a number.")
    require(score.words and "nan" not in score.words, f"The words do not say what the value means: '{score.words}'")
    require(score.measure == measure.label() != "", "The score has not the label of the measure.")
    require(score.side is measure.side in Side, "The score has not the side of the measure.")
    direction = "lower is safer" if measure.side is Side.RISK else "higher is more useful"
    require(score.direction == direction, f"The direction must be '{direction}'.")
    inside = score.interval is None or score.interval[0] <= score.value <= score.interval[1]
    require(inside, "The value is outside its interval.")
    require(measure.label() in str(score), "The text of the score does not name the measure.")
    json.dumps(score.to_dict(), allow_nan=False)
    hidden = "records" not in score.to_dict() and "records=" not in repr(score)
    require(hidden, "The score shows its values of single records.")


def scores_a_release(measure: Measure, release: Release) -> None:
    """A release has a score, and the values of its records agree with it."""
    found = score_of(measure, release)
    require_score(found, measure)
    if found.records is not None:
        require(len(found.records) == len(release.original), "There is not one value for each original record.")
        of_all = measure.of_records(found.records[~np.isnan(found.records)])
        same = of_all is None or math.isclose(of_all, found.value, rel_tol=1e-9, abs_tol=1e-12)
        require(same, "The values of the records give another score.")


def scores_alike_twice(measure: Measure, release: Release) -> None:
    """The same release has the same score."""
    recipe = KimNoise() >> TopCode()
    one, two = (score_of(measure, recipe.apply(release.original, Draws(3))) for _ in range(2))
    require(one == two, "The score differs the next time.")


def leaves_both_files_untouched(measure: Measure, release: Release) -> None:
    """Measuring leaves both files untouched."""
    made = KimNoise().apply(release.original, DRAWS)
    before = made.original.digest(), made.masked.digest()
    score_of(measure, made)
    fresh = KimNoise().apply(microdata(), DRAWS)
    after, again = ((r.original.digest(), r.masked.digest()) for r in (made, fresh))
    require(after == before == again, "A file has changed.")


def learns_nothing_into_itself(measure: Measure, release: Release) -> None:
    """A measure keeps nothing of what it saw: prepared and used, it is what it was."""
    shown, written = repr(measure), None if holds_function(measure) else measure.to_dict()
    ready = measure.prepare(release.original)
    score_of(measure, release)
    require(ready == measure, "Prepared, it is no longer equal to itself.")
    require(repr(ready) == repr(measure) == shown, "Its repr shows what it learned.")
    same = written is None or ready.to_dict() == measure.to_dict() == written
    require(same, "to_dict writes what it learned.")


def observes_what_it_declares(measure: Measure, release: Release) -> None:
    """Observations have the declared size, and their average has a value."""
    ready = measure.prepare(release.original)
    recipe = KimNoise(lambda2=0.3) >> TopCode()
    made = [with_holdout(measure, recipe.apply(release.original, Draws(s))) for s in range(3)]
    snooper = snooper_for(measure)
    observations = np.stack([ready.observe(r, snooper) for r in made])
    require(observations.shape == (3, measure.size), f"Three observations have the shape {observations.shape}.")
    require(ready.value(observations).shape == (3,), "`value` does not give one number for each observation.")
    same = float(ready.value(observations.mean(axis=0))) == ready.estimate(observations)[0]
    require(same, "The value of the mean is not the estimate.")


def applies_without_alignment_or_says_not(measure: Measure, release: Release) -> None:
    """Without alignment of records a measure scores, or says in a sentence why it does not apply."""
    try:
        require_score(score_of(measure, Release.of(release.original, release.masked)), measure)
    except NotApplicable as reason:
        require_sentence(reason, release.original)


def names_its_columns(measure: Measure, release: Release) -> None:
    """A measure names the columns it looks at: without the others, the score is the same."""
    columns = measure.columns(release.original.schema)
    if columns is None:
        return
    require(set(columns) <= set(release.masked.schema.names()), "It names columns that are not in the release.")
    part = RECIPE.apply(release.original.local({*columns, *NUMBERS, "home"}), DRAWS)
    require(
        score_of(measure, part).value == score_of(measure, release).value, "Without other columns the score differs."
    )


def scores_extreme_data(measure: Measure, release: Release) -> None:
    """Extreme data are scored, or refused in a sentence that quotes no record."""
    try:
        with np.errstate(invalid="ignore"):  # a warning on the way to a refusal does no harm
            found = measure.score(release, snooper_for(measure))
    except SfumatoError as error:
        require_sentence(error, release.original)
        return
    require_score(found, measure)


MEASURE_PROMISES = (
    leaves_both_files_untouched, scores_a_release, scores_alike_twice, learns_nothing_into_itself, observes_what_it_declares,
    applies_without_alignment_or_says_not, names_its_columns,
)  # fmt: skip
"""On a masked form of the ordinary file (`RECIPE`); `scores_extreme_data` on the extreme ones, unmasked."""


# --- promises of estimators


def estimates_a_number(estimator: Estimator, data: Microdata) -> None:
    """An estimator gives the same finite number each time, and describes itself."""
    estimator.check(data)
    value = estimator.estimate(data, {})
    require(isinstance(value, float) and math.isfinite(value), "The estimate is no finite number.")
    require(estimator.estimate(data, {}) == value, "The estimate differs the next time.")
    require(estimator.label(), "The label is empty.")
    require(isinstance(estimator.unit(data.schema), str), "The unit is no text.")
    columns = estimator.columns()
    require(columns is None or set(columns) <= set(data.schema.names()), "It names columns that are not in the data.")


def refuses_data_without_its_column(estimator: Estimator, data: Microdata) -> None:
    """An estimator refuses data that lack its column, and names the column."""
    columns = estimator.columns()
    if not columns:
        return
    try:
        estimator.check(data.local(set(data.schema.names()) - {columns[0]}))
    except SfumatoError as error:
        require(columns[0] in str(error), f"The refusal does not name column '{columns[0]}': {error}")
        require_sentence(error, data)
        return
    raise AssertionError(f"It does not notice that column '{columns[0]}' is not there.")


def estimates_extreme_data(estimator: Estimator, data: Microdata) -> None:
    """Extreme data have an estimate, or are refused in a sentence that quotes no record."""
    try:
        estimator.check(data)
        value = estimator.estimate(data, {})
    except SfumatoError as error:
        require_sentence(error, data)
        return
    require(not math.isnan(value), "The estimate is not a number.")


ESTIMATOR_PROMISES = (estimates_a_number, refuses_data_without_its_column)


def check_measure(measure: Measure | type[Measure], values: Values | None = None) -> None:
    """Check a measure of risk or utility against every promise of the contract, on releases of the file of `check_mask`.

    Examples
    --------
    >>> from sfumato.risk import AttributeRisk
    >>> check_measure(AttributeRisk("pay"))
    """
    extremes = {name: Recipe(()).apply(microdata(name), DRAWS) for name in EXTREMES}
    for thing in instances_of(Measure, measure, values):  # type: ignore[type-abstract]
        keep_all(thing, MEASURE_PROMISES, RECIPE.apply(microdata(), DRAWS), scores_extreme_data, extremes)


def check_estimator(estimator: Estimator | type[Estimator], values: Values | None = None) -> None:
    """Check an estimator against every promise of the contract, on the file of `check_mask`.

    Examples
    --------
    >>> from sfumato.utility import Mean
    >>> check_estimator(Mean)
    """
    # sums of infinite or huge values have no limit to keep
    extremes = {name: microdata(name) for name in EXTREMES if not name.endswith("values")}
    for thing in instances_of(Estimator, estimator, values):  # type: ignore[type-abstract]
        keep_all(thing, ESTIMATOR_PROMISES, microdata(), estimates_extreme_data, extremes)
