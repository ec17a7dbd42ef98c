"""What a data file holds: a table, and the words that describe its columns and codes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class FileContents:
    """A table and its labels; what `read_file` gives and `write_file` takes.

    Labels of columns that the table does not have are allowed, and are not written.

    Parameters
    ----------
    table
        The records, without metadata.
    labels
        Column name to variable label: ``{"inc": "monthly income"}``.
    value_labels
        Column name to the words for its codes, keyed by the text of the code: ``{"sex": {"1": "male"}}``.
    missing
        Column name to the codes that mean "no answer" and stand in the table as ordinary values: ``{"inc": (98, 99)}``.
    """

    table: pa.Table
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    value_labels: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    missing: Mapping[str, tuple[float | str, ...]] = dataclasses.field(default_factory=dict)


def code_text(code: object) -> str:
    """Return the text of a code, the same for 1 and 1.0.

    >>> code_text(1.0), code_text(2.5), code_text("A")
    ('1', '2.5', 'A')
    """
    if isinstance(code, float) and math.isfinite(code) and code.is_integer():
        return str(int(code))
    return str(code)
