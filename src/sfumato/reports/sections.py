"""Sections about the data, about how a release was made, and about the search that chose it."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sfumato import charts, utility
from sfumato.charts.captions import counted, first_line, spoken, tabled
from sfumato.contract import Figure, Recipe, Release, Section, TextTable
from sfumato.data import Kind, Microdata
from sfumato.errors import DataError, ParameterError, SfumatoError
from sfumato.files import parse_json
from sfumato.lazy import pd
from sfumato.maps.choice import named
from sfumato.maps.rumap import RUMap
from sfumato.schema.attribute import Attribute, Role
from sfumato.version import VERSION

_EXACT = 20
"""Largest number of distinct values that are counted exactly; more are rounded to two digits."""

_ROLES = (
    "Identifiers name a respondent and are always removed. Keys are what a snooper may know from elsewhere; confidential "
    "columns are what he may want to learn."
)
_PLURAL = {Role.IDENTIFIER: "identifiers", Role.KEY: "keys", Role.STRATUM: "strata", Role.CONTRIBUTOR: "contributors"}


def data_section(data: Microdata) -> Section:
    """Return a description of the columns: role, scale, kind, meaning and unit, share missing, number of distinct values.

    Columns are read into memory one at a time.
    """
    rows = tuple(_column(data, attribute) for attribute in data.schema)
    number = {role: len(data.schema.names(role=role)) for role in Role}
    each = spoken(f"{n} {_PLURAL.get(role, role.value) if n > 1 else role.value}" for role, n in number.items() if n)
    sentences = (
        f"The file has {counted(len(data), 'record')} and {counted(len(data.schema), 'column')}: {each}.",
        _ROLES,
    )
    heads = ("column", "meaning", "role", "scale", "holds", "missing", "distinct values")
    caption = f"The columns. More than {_EXACT} distinct values are rounded; no value itself is shown."
    return Section("The data", sentences, (TextTable(heads, rows, caption),))


def _column(data: Microdata, attribute: Attribute) -> tuple[str, ...]:
    kind = data.kind(attribute.name)
    missing, distinct = _facts(data, attribute, kind)
    unit = f" ({attribute.unit})" if attribute.label else f"in {attribute.unit}"
    meaning = attribute.label + (unit if attribute.unit else "")
    holds = "whole numbers" if kind is Kind.NUMBER and attribute.integer else kind.value
    return (attribute.name, meaning or "–", attribute.role.value, attribute.scale.value, holds, missing, distinct)


def _facts(data: Microdata, attribute: Attribute, kind: Kind) -> tuple[str, str]:
    """Return the share missing (declared codes for "no answer" count as missing) and the number of distinct values."""
    column = data.batch([attribute.name]).column(attribute.name)
    absent = column.missing.copy()
    if attribute.missing and kind is Kind.NUMBER:
        absent |= np.isin(column.numbers, [c for c in attribute.missing if isinstance(c, int | float)])
    elif attribute.missing and kind is not Kind.OTHER:
        codes, values = column.codes
        declared = {str(code) for code in attribute.missing}
        absent |= np.isin(codes, [k for k, value in enumerate(values) if str(value) in declared])
    if not len(absent):
        return "–", "0"
    if kind is Kind.OTHER:
        return _share(float(absent.mean())), "not counted"
    return _share(float(absent.mean())), _rounded(len(np.unique(column.hashes[~absent])))


def _share(share: float) -> str:
    if 0 < share < 0.001:
        return "<\N{NO-BREAK SPACE}0.1\N{NO-BREAK SPACE}%"
    return f"{100 * share:.0f}\N{NO-BREAK SPACE}%" if share in (0, 1) else f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def _rounded(count: int) -> str:
    return f"{count}" if count <= _EXACT else f"about {int(float(f'{count:.2g}')):,}"


# -- how the release was made


def recipe_section(release: Release) -> Section:
    """Return how a release was made: steps in words, parameters, guarantees and how each was verified, versions.

    It contains neither the seed nor anything that the masks learned from the data.
    """
    made = [counted(len(release.masked), "record"), f"made from {counted(len(release.original), 'original record')}"]
    many = f", in {len(release.implicates)} versions" if len(release.implicates) > 1 else ""
    sentences = [f"The release has {' '.join(made)}{many}."]
    recipe = release.recipe
    if recipe is None:
        sentences.append("It was masked elsewhere, so this report cannot say how, and vouches for no guarantee.")
        return Section("How the release was made", tuple(sentences))
    tables = [step_table(recipe, release), *parameter_tables(recipe), *_guarantees(release)]
    sentences[0] += f" It was made in {counted(len(recipe.steps), 'step')}, each on what the step before it left."
    sentences.append(" ".join(_secrets(recipe)))
    versions = f"Versions: sfumato {VERSION}, Python {platform.python_version()}, NumPy {np.__version__}."
    digest = (
        f" Digest of the data, which only the holder of the seed can check: {recipe.digest}." if recipe.digest else ""
    )
    return Section("How the release was made", (*sentences, versions + digest), tuple(tables))


def summary_section(release: Release) -> Section:
    """Return what masking changed: statistics, distributions, tables and correlations, before and after."""
    try:
        summary = utility.release_summary(release)
        figure = Figure(summary.chart().to_dict(), "The release before (grey) and after (blue) masking.")
    except SfumatoError as reason:
        return Section("Before and after", (f"Not compared: {reason}",))
    fewest = f"Figures that rest on fewer than {summary.fewest} original records are not shown, or stand together."
    return Section("Before and after", (*summary.verdict, fewest), (figure,))


def step_table(recipe: Recipe, release: Release) -> TextTable:
    """Return the steps in words, in order, with the columns of each."""
    rows: list[tuple[str, ...]] = []
    for step in recipe.steps:
        columns = [c for c in step.mask.touches(release.original.schema) if c in release.original.schema]
        rows.append((step.name, f"{first_line(type(step.mask))}.", ", ".join(columns) or "–"))
    return TextTable(("step", "what it does", "columns"), tuple(rows), "The steps, in order.")


def parameter_tables(recipe: Recipe) -> list[TextTable]:
    """Return a table of the parameters that were set, with whether each may be published; none if none was set."""
    rows = []
    for step in recipe.steps:
        secret = step.mask.withheld()
        for name, parameter in step.mask.parameters().items():
            value = getattr(step.mask, name)
            if value is not None:
                shown, told = ("withheld", "no") if name in secret else (_value(value), "yes")
                rows.append((step.name, name, shown, parameter.doc, told))
    heads = ("step", "parameter", "value", "meaning", "may be published")
    return [TextTable(heads, tuple(rows), "The parameters that were set.")] if rows else []


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k}: {_value(v)}" for k, v in value.items())
    if isinstance(value, tuple | list):
        return ", ".join(_value(v) for v in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _guarantees(release: Release) -> list[TextTable]:
    rows = tuple((g.step, g.says, g.verified) for g in release.guarantees)
    return [TextTable(("step", "guarantee", "how it was verified"), rows, "What the masks guarantee.")] if rows else []


def _secrets(recipe: Recipe) -> list[str]:
    said = [
        "The seed of the random numbers must stay confidential: whoever has it can compute the noise and take it off again.",
        "What the masks learned from the data (covariances, thresholds) is confidential too. Neither is in this report.",
    ]
    never = [path for path, parameter in recipe.parameters().items() if not parameter.published]
    hidden = list(dict.fromkeys([*never, *recipe.withheld()]))
    return said + ([f"Not to be told to analysts: {spoken(hidden)}."] if hidden else [])


_NEEDED = {
    "families": list, "snoopers": dict, "thresholds": dict, "refused": dict, "choice": dict, "frontier": list, "points": list,
    "records": int,
}  # fmt: skip
_CHOICE = ("feasible", "family", "settings", "reason", "risks", "utilities", "limits")
_INSIDE = {
    "families": ("name", "recipe", "searched"),
    "points": (
        "point", "family", "recipe", "replications", "side", "measure", "scenario", "value", "low", "high", "limit",
        "threshold", "meets", "chosen", "probability",
    ),
    "frontier": (
        "point", "family", "recipe", "risk", "risk_low", "risk_high", "limit", "utility", "utility_low", "utility_high",
        "probability", "meets", "chosen",
    ),
}  # fmt: skip
_NUMBERS = (
    "value", "low", "high", "limit", "threshold", "unmasked", "probability", "risk", "risk_low", "risk_high", "utility",
    "utility_low", "utility_high",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class SearchFindings:
    """The results of a search, as data: `facts` is `RUMap.to_dict()`."""

    facts: Mapping[str, Any]
    search: RUMap | None = field(default=None, repr=False)

    @classmethod
    def of(cls, given: RUMap | Mapping[str, Any]) -> SearchFindings:
        """Take a search, or its data."""
        if isinstance(given, RUMap):
            return replace(cls.of(given.to_dict()), search=given)
        wrong = [
            k for k, sort in _NEEDED.items() if not isinstance(given, Mapping) or not isinstance(given.get(k), sort)
        ]
        wrong += [] if wrong else [k for k in _CHOICE if k not in given["choice"]]
        wrong += (
            []
            if wrong
            else [f"{k}.{n}" for k, names in _INSIDE.items() for row in given[k] for n in _absent(row, names)]
        )
        if wrong:
            raise DataError(
                f"this is not what a search writes: '{wrong[0]}' is missing or of another kind. Take the output of "
                "`sfumato search --json`, or RUMap.to_dict()."
            )
        return cls({k: given[k] for k in _NEEDED})

    @classmethod
    def read(cls, path: str | Path) -> SearchFindings:
        """Read a file that `sfumato search --json` wrote."""
        try:
            given = parse_json(Path(path).read_text("utf-8"))
        except FileNotFoundError:
            raise DataError(f"there is no file {path}.") from None
        except (OSError, ValueError):
            raise DataError(
                f"{path} cannot be read as the JSON of a search: take the output of `sfumato search --json`."
            ) from None
        try:
            return cls.of(given)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None

    @property
    def choice(self) -> Mapping[str, Any]:
        """The choice, as data."""
        chosen: Mapping[str, Any] = self.facts["choice"]
        return chosen

    @property
    def feasible(self) -> bool:
        """Whether there is an answer."""
        return bool(self.choice["feasible"])

    @property
    def families(self) -> tuple[str, ...]:
        """The names of the recipes that were tried."""
        return tuple(str(f["name"]) for f in self.facts["families"])

    def frame(self) -> pd.DataFrame:
        """Return every point on the whole file, as `RUMap.frame()`."""
        return charts.map_data.unmasked_rows(_frame(self.facts["points"]))

    @cached_property
    def points(self) -> pd.DataFrame:
        """The rows of the frame without those of the unmasked file."""
        frame = self.frame()
        return frame[frame["masked"]] if len(frame) else frame

    @cached_property
    def frontier(self) -> pd.DataFrame:
        """The frontier, as `RUMap.frontier()`."""
        return _frame(self.facts["frontier"])

    @cached_property
    def recipe(self) -> Recipe | None:
        """The recipe of the chosen family; None if it has parameters that were withheld, so that it cannot be read."""
        if self.search is not None:
            return None if self.search.choice is None else self.search.choice.method
        text = next((f["recipe"] for f in self.facts["families"] if f["name"] == self.choice["family"]), "")
        try:
            return Recipe.from_toml(text)
        except SfumatoError:
            return None

    @property
    def secret(self) -> bool:
        """Whether the chosen recipe has, or may have, parameters that analysts must not know."""
        return self.recipe is None or bool(secret_steps(self.recipe))

    def published(self) -> dict[str, Any]:
        """Return the chosen parameters that analysts may know; none where that is not certain."""
        known = {} if self.recipe is None else self.recipe.parameters()
        told = {path: ".".join(path.split(".")[:2]) for path in self.choice["settings"]}
        settings = self.choice["settings"]
        return {p: settings[p] for p, own in told.items() if own in known and known[own].tells(settings[p])}


def _absent(row: Any, names: Sequence[str]) -> list[str]:
    return [n for n in names if not isinstance(row, Mapping) or n not in row]


def secret_steps(recipe: Recipe) -> set[str]:
    """Return the steps with a parameter that analysts must not know, set or left out of a published recipe."""
    return {path.partition(".")[0] for path, parameter in recipe.parameters().items() if not parameter.published}


def _frame(rows: list[Mapping[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows).rename(columns={"recipe": "settings"})
    for name in (n for n in _NUMBERS if n in frame):
        frame[name] = [math.nan if v is None else float(v) for v in frame[name]]
    return frame


_ROWS = 12
"""Points of the frontier that are tabled."""


def tried_section(found: SearchFindings) -> Section:
    """Return the recipes tried, their parameters, and how many settings of each kept the risk low."""
    searched = {str(f["name"]): str(f["searched"]) for f in found.facts["families"]}
    rows = []
    for name, over in searched.items():
        own = found.points[found.points["family"] == name] if len(found.points) else found.points
        if name in found.facts["refused"] or not len(own):
            why = found.facts["refused"].get(name, "less useful on a part of the file; not looked at on all of it")
            rows.append((name, over, "–", "–", why))
            continue
        points = own.drop_duplicates("point")
        meets = int(points["meets"].sum())
        chosen = "chosen" if bool(points["chosen"].any()) else "" if meets else "no setting is safe enough"
        rows.append((name, over, str(len(points)), str(meets), chosen or "–"))
    heads = ("recipe", "searched", "settings on all records", "safe enough", "remark")
    total = found.points["point"].nunique() if len(found.points) else 0
    sentences = (
        (
            f"The search tried {counted(len(searched), 'recipe')} on a file of {counted(int(found.facts['records']), 'record')}, "
            f"at {counted(int(total), 'setting')} of {'its' if len(searched) == 1 else 'their'} parameters on all the records. "
            f"{_limits(found)}"
        ),
    )
    caption = (
        "The recipes that were tried. Safe enough: every risk stays within its limit in 95 % of the releases made so."
    )
    return Section("Methods tried", sentences, (TextTable(heads, tuple(rows), caption),))


def _limits(found: SearchFindings) -> str:
    risks = found.points[found.points["side"] == "risk"] if len(found.points) else found.points
    named = dict(zip(risks["measure"], risks["threshold"], strict=True)) if len(risks) else found.facts["thresholds"]
    return f"The largest risk allowed was {spoken(f'{v:g} for {k}' for k, v in named.items())}."


def frontier_section(found: SearchFindings) -> Section:
    """Return the settings that no other beats in both risk and utility, as a chart and as a table."""
    sentences = [
        (
            "A setting is on the frontier if no other has both less risk and more utility. Risk and utility were estimated by "
            "masking again and again, so each setting has a probability of truly being there."
        )
    ]
    if not len(found.frontier):
        return Section("The frontier", ("No setting could be measured on all the records, so there is no frontier.",))
    risk, frontier = _plane(found)
    several = found.points.loc[found.points["side"] == "risk", "scenario"].nunique() > 1
    worst = " (against the snooper who learns most)" if several else ""
    figure = Figure(
        charts.map_chart.methods_chart(found.frame(), frontier, risk).to_dict(),
        f"Every setting that was tried: {risk}{worst} and utility. Lower is safer, further right is more useful.",
    )
    if found.feasible and not frontier["chosen"].any():
        sentences.append(
            f"The chosen setting is not on it: others are better in {risk} and in utility, but pass the limit of another risk."
        )
    return Section("The frontier", tuple(sentences), (figure, _frontier(frontier, risk)))


def _plane(found: SearchFindings) -> tuple[str, pd.DataFrame]:
    """Return the risk closest to its limit at the chosen setting, and its frontier; for a search read as data, the first risk."""
    risks = [row for row in found.points.to_dict("records") if row["side"] == "risk"]
    chosen = [row for row in risks if row["chosen"] and row["threshold"] > 0]
    if found.search is None or not chosen:
        return str(risks[0]["measure"]), found.frontier
    tight = str(max(chosen, key=lambda row: row["limit"] / row["threshold"])["measure"])
    return tight, found.search.frontier(risk=tight)


def _frontier(frontier: pd.DataFrame, risk: str) -> TextTable:
    rows = frontier.to_dict("records")
    kept = sorted(range(len(rows)), key=lambda i: (not rows[i]["chosen"], -rows[i]["probability"]))[:_ROWS]
    shown = [rows[i] for i in sorted(kept)]
    body = tuple(
        (
            f"{row['family']}, {row['settings']}" + (" (chosen)" if row["chosen"] else ""),
            _estimate(row["risk"], row["risk_low"], row["risk_high"]), tabled(row["limit"]),
            _estimate(row["utility"], row["utility_low"], row["utility_high"]),
            f"{100 * row['probability']:.0f}\N{NO-BREAK SPACE}%", "yes" if row["meets"] else "no",
        )
        for row in shown
    )  # fmt: skip
    less = f" The {len(shown)} of {len(rows)} most likely to be on it." if len(shown) < len(rows) else ""
    heads = ("setting", "risk", "95 % of releases stay below", "utility", "on the frontier", "safe enough")
    return TextTable(heads, body, f"The frontier for {risk}, safest first; 95 % intervals in brackets.{less}")


def _estimate(value: float, low: float, high: float) -> str:
    if math.isnan(low) or math.isclose(low, high, rel_tol=1e-9):  # not random
        return tabled(value)
    space = "\N{NO-BREAK SPACE}"
    return f"{tabled(value)} ({tabled(low)}{space}to{space}{tabled(high)})"


def choice_section(found: SearchFindings) -> Section:
    """Return the chosen recipe with every risk and utility, in natural units and with intervals; or why there is none."""
    if not found.feasible:
        return Section("The chosen recipe", (f"There is no answer: {found.choice['reason']}",))
    choice = found.choice
    at = f" with {named(choice['settings'])}" if choice["settings"] else ""
    sentences = [f"The chosen recipe is {choice['family']}{at}: {choice['reason']}."]
    content: list[TextTable | Figure] = [_measured(choice, found.facts["thresholds"])]
    content.append(Figure(charts.measures.measures_chart(found.frame()).to_dict(), _DOTS))
    with suppress(ParameterError):  # it has fewer than two parameters
        chart = charts.parameter_surface.parameters_chart(found.frame())
        content.append(Figure(chart.to_dict(), "Utility and risk over the parameters of the chosen recipe."))
    return Section("The chosen recipe", tuple(sentences), tuple(content))


_DOTS = (
    "The chosen recipe, measure by measure. Each risk is divided by its own limit, so that 1 is the limit; the thin line "
    "ends where 95 % of the releases stay below. Each utility is a share of that of the unmasked file, where that is known."
)


def _measured(choice: Mapping[str, Any], thresholds: Mapping[str, float]) -> TextTable:
    rows: list[tuple[str, ...]] = []
    scores: Sequence[Mapping[str, Any]] = (*choice["risks"], *choice["utilities"])
    for score in scores:
        name, value = str(score["measure"]), _number(score["value"])
        low, high = (_number(v) for v in score["interval"] or (None, None))
        limit, stays = thresholds.get(name), _number(choice["limits"].get(name))
        held = "–" if limit is None else "passes" if stays <= limit else "fails"
        interval = (
            "–" if math.isnan(low) or math.isclose(low, high, rel_tol=1e-9) else f"{tabled(low)} to {tabled(high)}"
        )
        within = "–" if limit is None else f"at\N{NO-BREAK SPACE}most\N{NO-BREAK SPACE}{limit:g}"
        rows.append((name, tabled(value), interval, tabled(stays), within, held, str(score["words"])))
    heads = ("measure", "value", "95 % interval", "95 % of releases stay below", "limit", "result", "in words")
    return TextTable(
        heads, tuple(rows), "What to expect of a release made with the chosen recipe, over fresh random numbers."
    )


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
