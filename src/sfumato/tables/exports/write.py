"""Published tables written to files, whole or not at all; the ending of the name says in which form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sfumato.errors import ParameterError, listing
from sfumato.files import whole_file, write_text
from sfumato.tables.exports.jsonstat import json_stat
from sfumato.tables.exports.plain import csv_text
from sfumato.tables.exports.sdmx import sdmx_csv
from sfumato.tables.published import PublishedTable

FORMS = {"csv": ".csv", "xlsx": ".xlsx", "json-stat": ".json", "sdmx-csv": ".sdmx.csv"}
"""The forms, and how names of files end in each."""


def form_of(path: Path, form: str | None = None) -> str:
    """Return the form of a file by its name: the longest ending that fits.

    >>> form_of(Path("table.sdmx.csv")), form_of(Path("table.csv")), form_of(Path("table.jsonstat"))
    ('sdmx-csv', 'csv', 'json-stat')
    """
    if form is not None:
        if form not in FORMS:
            raise ParameterError(f"a table is written as {listing(FORMS)}; got '{form}'.")
        return form
    name = path.name.casefold()
    for ending, found in ((".sdmx.csv", "sdmx-csv"), (".jsonstat", "json-stat"), *((e, f) for f, e in FORMS.items())):
        if name.endswith(ending):
            return found
    raise ParameterError(
        f"'{path.name}' does not say in which form to write the table: its name must end in {listing(FORMS.values())}; or name "
        f"the form ({listing(FORMS)})."
    )


def write_table(published: PublishedTable, path: str | Path, form: str | None = None, **options: Any) -> Path:
    """Write what may be published of a table; `options` are those of the form (see `json_stat` and `sdmx_csv`)."""
    target = Path(path)
    found = form_of(target, form)
    allowed = {
        "json-stat": ("title", "source"),
        "sdmx-csv": ("structure_id", "structure", "action", "constants", "distinguish"),
    }.get(found, ())
    if unknown := [o for o in options if o not in allowed]:
        raise ParameterError(f"{found} has no option '{unknown[0]}'. It has: {listing(allowed)}.")
    if found == "xlsx":
        _write_excel(published, target)
    elif found == "json-stat":
        write_text(
            target, json.dumps(json_stat(published, **options), ensure_ascii=False, allow_nan=False, indent=1) + "\n"
        )
    else:
        text = csv_text(published) if found == "csv" else sdmx_csv(published, **options)
        with whole_file(target) as temporary:
            temporary.write_bytes(text.encode("utf-8"))
    return target


def _write_excel(published: PublishedTable, target: Path) -> None:
    import narwhals as nw
    import numpy as np

    from sfumato.engines.formats import FileContents
    from sfumato.engines.formats.excel_files import excel_writer
    from sfumato.tables.exports.figures import fifteen, qualities, variances

    frame = published.frame().astype(dict.fromkeys(published.cells.dimensions, "str"))
    frame["value"] = (
        [fifteen(v) for v in published.values.tolist()]
        if published.decimals is None
        else np.round(published.values, published.decimals)
    )
    if (noise := variances(published)) is not None:
        frame["variance"] = noise
    if (codes := qualities(published)) is not None:
        frame["quality"] = codes
    write = excel_writer(FileContents(nw.from_native(frame, eager_only=True).to_arrow()))
    with whole_file(target) as temporary:
        write(temporary)
