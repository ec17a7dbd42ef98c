"""Load once what most pages wait for: docs/outputs.py runs every page in a fork of a process that has imported this.

The names of a page are empty all the same, so a page imports what it uses.
"""

from __future__ import annotations

import altair  # noqa: F401
import duckdb  # noqa: F401
import numpy as np
import pyarrow.dataset  # noqa: F401
import scipy.stats  # noqa: F401

import sfumato.testing  # noqa: F401
from sfumato import Draws

Draws(1).normals(np.arange(2_000), "page")  # enough for numba to be set up to load compiled loops
