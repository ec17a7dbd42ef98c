"""Sections about the data and about how a release was made. Neither shows a record's value, nor the smallest or largest."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

from sfumato.charts.words import counted, first_line, spoken
from sfumato.contract import Recipe, Release, Section, Table
from sfumato.engines import Kind
from sfumato.microdata import Microdata
from sfumato.schema import Attribute, Role
from sfumato.version import VERSION

_EXACT = 20
"""Up to so many distinct values are counted exactly; more are rounded to two digits."""

_ROLES = (
    "Identifiers name a respondent and are always removed. Keys are what a snooper may know from elsewhere; confidential "
    "columns are what he may want to learn."
)
_PLURAL = {Role.IDENTIFIER: "identifiers", Role.KEY: "keys", Role.STRATUM: "strata", Role.CONTRIBUTOR: "contributors"}


def data_section(data: Microdata) -> Section:
    """Return what the columns are: role, scale, kind, meaning and unit, how much is missing, how many distinct values.

    One column at a time is brought into memory.
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
    return Section("The data", sentences, (Table(heads, rows, caption),))


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

    Neither the seed nor anything that the masks learned from the data is in it.
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


def step_table(recipe: Recipe, release: Release) -> Table:
    """Return the steps in words, in order, with the columns that each is about."""
    rows: list[tuple[str, ...]] = []
    for step in recipe.steps:
        columns = [c for c in step.mask.touches(release.original.schema) if c in release.original.schema]
        rows.append((step.name, f"{first_line(type(step.mask))}.", ", ".join(columns) or "–"))
    return Table(("step", "what it does", "columns"), tuple(rows), "The steps, in order.")


def parameter_tables(recipe: Recipe) -> list[Table]:
    """Return a table of the parameters that were set, with whether each may be published; none if none was set."""
    rows = []
    for step in recipe.steps:
        secret = step.mask.withheld()
        for field, parameter in step.mask.parameters().items():
            value = getattr(step.mask, field)
            if value is not None:
                shown, told = ("withheld", "no") if field in secret else (_value(value), "yes")
                rows.append((step.name, field, shown, parameter.doc, told))
    heads = ("step", "parameter", "value", "meaning", "may be published")
    return [Table(heads, tuple(rows), "The parameters that were set.")] if rows else []


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k}: {_value(v)}" for k, v in value.items())
    if isinstance(value, tuple | list):
        return ", ".join(_value(v) for v in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _guarantees(release: Release) -> list[Table]:
    rows = tuple((g.step, g.says, g.verified) for g in release.guarantees)
    return [Table(("step", "guarantee", "how it was verified"), rows, "What the masks guarantee.")] if rows else []


def _secrets(recipe: Recipe) -> list[str]:
    said = [
        "The seed of the random numbers must stay confidential: whoever has it can compute the noise and take it off again.",
        "What the masks learned from the data (covariances, thresholds) is confidential too. Neither is in this report.",
    ]
    never = [path for path, parameter in recipe.parameters().items() if not parameter.published]
    hidden = list(dict.fromkeys([*never, *recipe.withheld()]))
    return said + ([f"Not to be told to analysts: {spoken(hidden)}."] if hidden else [])
