"""A published table as SDMX-CSV 2.0, the exchange format of statistical offices (sdmx.org, SDMX 3.0)."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

from sfumato.errors import DataError, ParameterError
from sfumato.tables.dimension import TOTAL
from sfumato.tables.exports.figures import figure, qualities, variances
from sfumato.tables.published import PublishedTable, Status

_STRUCTURE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*:[A-Za-z0-9_@$-]+\(\d+(\.\d+)*\)")
_OWN = (
    "STRUCTURE",
    "STRUCTURE_ID",
    "ACTION",
    "OBS_VALUE",
    "OBS_STATUS",
    "CONF_STATUS",
    "UNIT_MEASURE",
    "VARIANCE",
    "QUALITY",
)


def sdmx_csv(
    published: PublishedTable,
    *,
    structure_id: str = "SFUMATO:TABLE(1.0.0)",
    structure: Literal["dataflow", "datastructure", "dataprovision"] = "dataflow",
    action: Literal["I", "A", "M", "R", "D"] = "I",
    constants: Mapping[str, str] | None = None,
    distinguish: bool = False,
) -> str:
    """Return the table as SDMX-CSV 2.0: structure, dimensions, OBS_VALUE, and attributes with the codes of SDMX.

    OBS_STATUS (code list CL_OBS_STATUS) is A for a normal value, E for one that was adjusted, rounded or perturbed, Q for one
    that is suppressed; CONF_STATUS (CL_CONF_STATUS) is F for free, C for confidential. The total is `_T`. Labels become codes:
    what SDMX does not allow in one becomes an underscore.

    Parameters
    ----------
    published
        The table.
    structure_id
        Agency, name and version of the structure, such as ``ESTAT:SBS(1.0.0)``.
    structure
        Of which sort it is.
    action
        What the receiver is to do: I, information; A, append; M, merge; R, replace; D, delete.
    constants
        Further columns with one value for all rows, such as ``{"TIME_PERIOD": "2026", "FREQ": "A"}``; they stand before the
        dimensions.
    distinguish
        Whether CONF_STATUS tells secondary suppressions (D) from primary ones (C). Not for the public: whoever knows the primary
        ones knows where one contributor dominates.
    """
    if not _STRUCTURE.fullmatch(structure_id):
        raise ParameterError(
            f"a structure is named AGENCY:ID(VERSION), such as ESTAT:SBS(1.0.0); got '{structure_id}'."
        )
    if structure not in ("dataflow", "datastructure", "dataprovision"):
        raise ParameterError(f"structure must be 'dataflow', 'datastructure' or 'dataprovision'; got '{structure}'.")
    if action not in ("I", "A", "M", "R", "D"):
        raise ParameterError(f"action must be I, A, M, R or D; got '{action}'.")
    cells = published.cells
    fixed = dict(constants or {})
    names = _codes(cells.dimensions, "dimension", upper=True)
    if taken := [n for n in (*names, *fixed) if n in _OWN] or [n for n in fixed if n in names]:
        raise DataError(f"a dimension or constant is called {taken[0]}, which is a column of SDMX-CSV. Rename it.")
    noise, quality = variances(published), qualities(published)
    heads = ["STRUCTURE", "STRUCTURE_ID", "ACTION", *fixed, *names, "OBS_VALUE", "OBS_STATUS", "CONF_STATUS"]
    heads += ["UNIT_MEASURE"] * bool(published.unit) + ["VARIANCE"] * (noise is not None)
    heads += ["QUALITY"] * (quality is not None)
    labels = [_column(cells.labels[:, i].tolist(), d) for i, d in enumerate(cells.dimensions)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(heads)
    confidential = _confidential(published, distinguish)
    for i, value in enumerate(np.asarray(published.values).tolist()):
        row = [structure, structure_id, action, *fixed.values(), *(column[i] for column in labels)]
        row += [figure(value, published.decimals), _status(int(published.status[i])), confidential[i]]
        row += [published.unit] if published.unit else []
        row += [] if noise is None else [figure(float(noise[i]))]
        row += [] if quality is None else [quality[i]]
        writer.writerow(row)
    return text.getvalue()


def _status(status: int) -> str:
    return {Status.SHOWN: "A", Status.CHANGED: "E"}.get(Status(status), "Q")


def _confidential(published: PublishedTable, distinguish: bool) -> list[str]:
    secondary = "D" if distinguish else "C"
    codes = {Status.SHOWN: "F", Status.CHANGED: "F", Status.PRIMARY: "C", Status.SECONDARY: secondary}
    return [codes[Status(int(s))] for s in published.status]


def _column(labels: Sequence[str], dimension: str) -> list[str]:
    distinct = list(dict.fromkeys(labels))
    codes = _codes([v for v in distinct if v != TOTAL], f"label of '{dimension}'")
    found = {**dict(zip([v for v in distinct if v != TOTAL], codes, strict=True)), TOTAL: "_T"}
    return [found[v] for v in labels]


def _codes(names: Iterable[str], what: str, upper: bool = False) -> list[str]:
    """Return names as codes of SDMX; refuse two that would become the same."""
    seen: dict[str, str] = {}
    codes = []
    for name in names:
        plain = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", name))  # letters without their accents
        code = re.sub(r"[^A-Za-z0-9_@$\-]", "_", plain)
        code = code.upper() if upper else code
        if code in seen or code in ("", "_T"):
            raise DataError(
                f"the {what} '{name}' has no code of its own in SDMX: {f'{seen[code]!r} has the same' if code in seen else 'it'} "
                "becomes a code that is taken. Rename it."
            )
        seen[code] = name
        codes.append(code)
    return codes
