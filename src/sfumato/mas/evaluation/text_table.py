"""A small table as lines of text: the first column to the left, the others to the right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def text_table(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the head and one line for each row.

    >>> text_table({"q": ["q = 2"], "chance": ["0.5"]})
    ['q      chance', 'q = 2     0.5']
    """
    widths = [max(map(len, [name, *cells])) for name, cells in columns.items()]
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    return [
        "  ".join(c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]
