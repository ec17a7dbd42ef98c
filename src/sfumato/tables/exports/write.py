"""Published tables written to files, whole or not at all; the ending of the name says in which form."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sfumato.errors import ParameterError, listing
from sfumato.files import publishing, whole_file
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


def write_table(
    published: PublishedTable,
    path: str | Path,
    form: str | None = None,
    *,
    secrets: Mapping[Path, str] | None = None,
    **options: Any,
) -> Path:
    """Write what may be published of a table; `options` are those of the form (see `json_stat` and `sdmx_csv`).

    `secrets` are the texts of confidential files (a seed, a record) that are kept before the table appears.
    """
    target = Path(path)
    write = table_writer(published, target, form, **options)
    with publishing(whole_file(target), secrets=secrets or {}) as (temporary,):
        write(temporary)
    return target


def table_writer(
    published: PublishedTable, target: Path, form: str | None = None, **options: Any
) -> Callable[[Path], object]:
    """Return what writes a table in the form of a file's name; what has no such form is refused here."""
    found = form_of(target, form)
    allowed = {
        "json-stat": ("title", "source"),
        "sdmx-csv": ("structure_id", "structure", "action", "constants", "distinguish"),
    }.get(found, ())
    if unknown := [o for o in options if o not in allowed]:
        raise ParameterError(f"{found} has no option '{unknown[0]}'. It has: {listing(allowed)}.")
    if found == "xlsx":
        return _excel(published)
    if found == "json-stat":
        text = json.dumps(json_stat(published, **options), ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    else:
        text = csv_text(published) if found == "csv" else sdmx_csv(published, **options)
    return lambda path: path.write_bytes(text.encode("utf-8"))


def _excel(published: PublishedTable) -> Callable[[Path], object]:
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
    return excel_writer(FileContents(nw.from_native(frame, eager_only=True).to_arrow()))
