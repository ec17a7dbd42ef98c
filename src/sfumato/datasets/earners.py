"""Earners of the generated census: a plain file of mixed columns, for searches and examples."""

from __future__ import annotations

import numpy as np

from sfumato.datasets.census import census
from sfumato.errors import ParameterError
from sfumato.microdata import Microdata

COLUMNS = ("region", "area", "size", "sex", "age", "marital", "education", "occupation", "salary", "interest")
_EARNERS = 0.85
"""Complete earners per household, at least: about 0.9."""


def earners(n: int = 30_000, seed: int = 1990) -> Microdata:
    """Return n persons of `census` who earn a salary and gave every answer, without households and weights.

    Keys: region, kind of area, household size, sex, age, marital status, education and occupation (with its groups as a
    hierarchy). Confidential: salary and interest.

    Examples
    --------
    >>> data = earners(500)
    >>> len(data), data.schema.names(role="confidential")
    (500, ('salary', 'interest'))
    """
    if n < 1:
        raise ParameterError("a file needs at least one record.")
    data = census(int(n / _EARNERS) + 400, 1.0, seed).sample.local(COLUMNS)
    batch = data.batch()
    known = ~np.any([batch.missing(name) for name in COLUMNS], axis=0)
    rows = np.flatnonzero(known & (batch.numbers("salary") > 0))
    return data.take(rows[:n])
