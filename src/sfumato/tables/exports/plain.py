"""A published table as CSV: a row for each cell."""

from __future__ import annotations

import csv
import io

import numpy as np

from sfumato.tables.exports.figures import figure, qualities, variances
from sfumato.tables.published import PublishedTable


def csv_text(published: PublishedTable) -> str:
    """Return labels, value and status of every cell, and variances and quality codes where they are published.

    The status is empty, "suppressed" or "changed": which suppressions are primary is not for the public. Values have the digits
    that the table is published with.
    """
    frame = published.frame()  # refuses dimensions with the name of a column of ours
    heads = [*published.cells.dimensions, "value", "status"]
    columns: list[list[str]] = [
        *([str(v) for v in published.cells.labels[:, i]] for i in range(len(published.cells.dimensions))),
        [figure(v, published.decimals) for v in np.asarray(published.values).tolist()],
        frame["status"].tolist(),
    ]
    if (noise := variances(published)) is not None:
        heads.append("variance")
        columns.append([figure(v) for v in noise.tolist()])
    if (codes := qualities(published)) is not None:
        heads.append("quality")
        columns.append(codes)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue()
