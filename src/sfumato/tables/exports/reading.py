"""Published tables read back from JSON-stat and SDMX-CSV, ours or anybody's."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato.errors import DataError, listing
from sfumato.files import parse_json

if TYPE_CHECKING:
    import pandas as pd

_CONFIDENTIAL = ("A", "C", "D", "G", "M", "N", "O", "P", "S", "T")
"""Codes of CL_CONF_STATUS but F, which is free."""
_OURS = "adjusted, rounded or perturbed"


class ReadBack(NamedTuple):
    """What `PublishedTable.from_frame` needs to know of a file."""

    frame: pd.DataFrame
    """Labels as text, `value`, `status` ("", "suppressed", "changed"), and `variance` where there is one."""
    nested: dict[str, dict[str, str] | None]
    """The columns of labels, with the label above each where the file says."""

    @property
    def variance(self) -> str | None:
        """The column of variances, if there is one."""
        return "variance" if "variance" in self.frame else None


def read_json_stat(path: str | Path) -> ReadBack:
    """Read a dataset of JSON-stat (2.0, or the first dataset of a bundle of 1.x).

    A null with a status is a figure that is not shown; one without is no cell. Dimensions of one label are left out.
    """
    import pandas as pd

    try:
        document = parse_json(Path(path).read_text("utf-8-sig"))
        data = document if "dimension" in document else next(iter(document.values()))
        dimensions, (names, sizes) = data["dimension"], _axes(data)
        labels = [_codes(dimensions[n]["category"]) for n in names]
        if [len(c) for c in labels] != sizes:
            raise ValueError("sizes")
        metric = next((n for n in data.get("role", dimensions.get("role", {})).get("metric", ()) if n in names), None)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration):
        raise DataError(f"{path} is not a dataset of JSON-stat that can be read.") from None
    measures = labels[names.index(metric)] if metric is not None else []
    extra = [m for m in measures[1:] if not m.startswith("variance")]
    if extra or len(measures) > 2:
        raise DataError(
            f"{path} has several measures: {listing(measures)}. Keep one, and if there is one its variance."
        )
    values, flags = _filled(data["value"], sizes), _filled(data.get("status", {}), sizes)
    changed = {c for c, w in data.get("extension", {}).get("status", {}).get("label", {}).items() if w == _OURS}
    kept = [i for i, n in enumerate(names) if n != metric and (len(labels[i]) > 1 or all(s == 1 for s in sizes))]
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for place, cell in enumerate(itertools.product(*labels)):
        key = tuple(cell[i] for i in kept)
        if metric is not None and len(measures) == 2 and cell[names.index(metric)] == measures[1]:
            if key in rows:
                rows[key]["variance"] = values.get(place)
            continue
        value, flag = values.get(place), flags.get(place)
        if value is None and not flag:
            continue
        status = "suppressed" if value is None else "changed" if flag in changed else ""
        rows[key] = {**{names[i]: cell[i] for i in kept}, "value": value, "status": status}
    if not rows:
        raise DataError(f"{path} has no cells.")
    nested = {names[i]: _parents(dimensions[names[i]]["category"].get("child")) for i in kept}
    return ReadBack(pd.DataFrame(list(rows.values())), nested)


def read_sdmx_csv(path: str | Path) -> ReadBack:
    """Read SDMX-CSV (1.0 or 2.0); columns with one value, such as the time, are left out.

    A value is not shown where it is empty, or confidential by CONF_STATUS. OBS_STATUS E tells that a value was changed if
    variances or quality codes are beside it; anybody else's estimates are figures like others.
    """
    import pandas as pd

    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError):
        raise DataError(f"{path} cannot be read as SDMX-CSV.") from None
    heads = list(frame.columns)
    if "OBS_VALUE" not in heads or not heads or heads[0] not in ("STRUCTURE", "DATAFLOW"):
        raise DataError(f"{path} is not SDMX-CSV: it needs the columns STRUCTURE (or DATAFLOW) and OBS_VALUE.")
    start = 3 if heads[:3] == ["STRUCTURE", "STRUCTURE_ID", "ACTION"] else 1
    named = heads[start : heads.index("OBS_VALUE")]
    kept = [n for n in named if frame[n].nunique() > 1] or named[:1]
    empty = pd.Series([""] * len(frame))
    hidden = frame.get("CONF_STATUS", empty).isin(_CONFIDENTIAL) | frame["OBS_VALUE"].isin(("", "NaN", "#N/A"))
    noisy = bool({"VARIANCE", "QUALITY"} & set(heads))
    changed = (frame.get("OBS_STATUS", empty) == "E") & noisy & ~hidden
    made = frame[kept].copy()
    made["value"] = frame["OBS_VALUE"].where(~hidden, None)
    made["status"] = hidden.map({True: "suppressed", False: ""}).where(~changed, "changed")
    if "VARIANCE" in heads:
        made["variance"] = frame["VARIANCE"].where(frame["VARIANCE"] != "", None)
    return ReadBack(made, dict.fromkeys(kept))


def _axes(data: Mapping[str, Any]) -> tuple[list[str], list[int]]:
    home = data if "id" in data else data["dimension"]
    return [str(n) for n in home["id"]], [int(s) for s in home["size"]]


def _codes(category: Mapping[str, Any]) -> list[str]:
    index = category.get("index", list(category.get("label", ())))
    return [str(c) for c in (sorted(index, key=lambda c: index[c]) if isinstance(index, Mapping) else index)]


def _filled(given: Any, sizes: Sequence[int]) -> dict[int, Any]:
    if isinstance(given, Mapping):
        return {int(k): v for k, v in given.items()}
    if isinstance(given, str):
        count = 1
        for size in sizes:
            count *= size
        return dict.fromkeys(range(count), given)
    return dict(enumerate(given))


def _parents(child: Mapping[str, Sequence[str]] | None) -> dict[str, str] | None:
    """Return the label above each, where labels stand on more than one level below the total."""
    if not child:
        return None
    found = {str(label): str(up) for up, labels in child.items() for label in labels}
    return found if any(up in found for up in found.values()) else None
