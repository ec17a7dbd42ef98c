"""Published tables as files, written and read back: CSV, Excel, JSON-stat and SDMX-CSV."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from sfumato import formats
from sfumato.errors import DataError, ParameterError, join_names
from sfumato.files import parse_json, publishing, whole_file
from sfumato.lazy import pd
from sfumato.tables.cells import TOTAL, Cells, Status
from sfumato.typing import Numbers

if TYPE_CHECKING:
    from sfumato.tables.published import PublishedTable


def figure(value: float, decimals: int | None = None) -> str:
    """Return a number as text, empty for NaN.

    Without `decimals`, fifteen digits: further digits are floating-point error, and differ from run to run.

    >>> figure(12.5), figure(12.0), figure(12.5, 2), figure(1e21), figure(float("nan")), figure(-0.001, 1), figure(0.1 + 0.2)
    ('12.5', '12', '12.50', '1000000000000000000000', '', '0.0', '0.3')
    """
    if math.isnan(value):
        return ""
    if decimals is not None:
        return f"{round(value, decimals) + 0.0:.{max(decimals, 0)}f}"
    if float(value := fifteen(value)).is_integer():
        return str(int(value))
    return repr(value)


def fifteen(value: float) -> float:
    """Return a number with its first fifteen digits."""
    return float(f"{value:.15g}")


def number(value: float, decimals: int | None = None) -> float | int | None:
    """Return a number for JSON: None for NaN, whole numbers as such."""
    if math.isnan(value):
        return None
    rounded = fifteen(value) if decimals is None else round(value, decimals)
    return int(rounded) if float(rounded).is_integer() else float(rounded)


def variances(published: PublishedTable) -> Numbers | None:
    """Return the published variances, NaN where the cell itself is not published."""
    if published.variance is None:
        return None
    return np.where(np.isnan(published.values), np.nan, published.variance)


def qualities(published: PublishedTable) -> list[str] | None:
    """Return the quality codes as text, empty where there is none."""
    if published.quality is None:
        return None
    return ["" if code is None else str(code) for code in published.quality]


def order_of(cells: Cells, dimension: int) -> list[str]:
    """Return the labels of a dimension in the order of their first cell in the table, the total first."""
    labels = dict.fromkeys(str(v) for v in cells.labels[:, dimension])
    return [*([TOTAL] if TOTAL in labels else []), *(v for v in labels if v != TOTAL)]


def children_of(cells: Cells, dimension: int) -> dict[str, list[str]]:
    """Return for each label with others directly under it those labels.

    A label is under another if all its leaves are among the other's. Labels with the same leaves, such as a group with one
    member, are treated as being on the same level.
    """
    labels = order_of(cells, dimension)
    place = {label: i for i, label in enumerate(labels)}
    code = np.array([place[str(v)] for v in cells.labels[:, dimension]])
    pick = sparse.csr_array((np.ones(len(code)), (code, np.arange(len(code)))), shape=(len(labels), len(code)))
    leaves = sparse.csr_array(pick @ cells.incidence)
    leaves.data[:] = 1.0
    common = np.asarray((leaves @ leaves.T).todense())
    size = np.diag(common)
    under = (common == size[None, :]) & (size[:, None] > size[None, :])  # under[a, b]: b is under a
    found: dict[str, list[str]] = {}
    for b, label in enumerate(labels):
        above = np.flatnonzero(under[:, b])
        if len(above):
            parent = labels[int(above[np.argmin(size[above])])]
            found.setdefault(parent, []).append(label)
    return found


def csv_text(published: PublishedTable) -> str:
    """Return labels, value and status of every cell, and variances and quality codes where they are published.

    The status is empty, "suppressed" or "changed": which suppressions are primary is not public. Values have the published
    digits.
    """
    frame = published.frame()  # refuses dimensions with the name of a column of the export
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


SUPPRESSED, CHANGED = "c", "e"
_WORDS = {SUPPRESSED: "confidential: not published", CHANGED: "adjusted, rounded or perturbed"}


def json_stat(published: PublishedTable, *, title: str = "", source: str = "") -> dict[str, Any]:
    """Return the table as a JSON-stat 2.0 dataset: a cube of all labels, the total among them, in row-major order.

    `child` describes subtotals. The last dimension, with the role of a metric, holds the measure with its unit and digits, and
    the variances if they are published. A value that is not published is null and has the status "c"; one that was adjusted,
    rounded or perturbed "e". Combinations that are not cells are null without a status. Quality codes are in `extension`.
    """
    cells = published.cells
    metric = _free("measure", cells.dimensions)
    what = published.variable or "records"
    measures = [what] if published.variance is None else [what, _free("variance", (what,))]
    orders = [order_of(cells, i) for i in range(len(cells.dimensions))]
    size = [*(len(order) for order in orders), len(measures)]
    if math.prod(size) > 2**53:
        raise DataError(
            "the table has too many dimensions with too many labels for a cube. Write it as CSV or SDMX-CSV."
        )
    at = _positions(published, orders, size)
    values: dict[int, Any] = {}
    status: dict[str, str] = {}
    noise, codes = variances(published), qualities(published)
    quality: dict[str, str] = {}
    changed = published.frame()["status"].to_numpy()
    for i, place in enumerate(at):
        values[place] = number(float(published.values[i]), published.decimals)
        if changed[i]:
            status[str(place)] = SUPPRESSED if changed[i] == "suppressed" else CHANGED
        if noise is not None:
            values[place + 1] = number(float(noise[i]))
        if codes is not None and codes[i]:
            quality[str(place)] = codes[i]
    count = math.prod(size)
    dense = 2 * len(values) >= count
    extension: dict[str, Any] = {"status": {"label": _WORDS}}
    if quality:
        extension["quality"] = quality
    dimension = {name: _dimension(published, i, orders[i]) for i, name in enumerate(cells.dimensions)}
    return {
        "version": "2.0",
        "class": "dataset",
        "label": title or f"{what} by {', '.join(cells.dimensions)}",
        **({"source": source} if source else {}),
        "id": [*cells.dimensions, metric],
        "size": size,
        "role": {"metric": [metric]},
        "dimension": {**dimension, metric: _metric(published, measures)},
        "value": [values.get(i) for i in range(count)]
        if dense
        else {str(i): v for i, v in sorted(values.items()) if v is not None},
        "status": status,
        "extension": extension,
    }


def _positions(published: PublishedTable, orders: list[list[str]], size: list[int]) -> list[int]:
    """Return the position of each cell's value in the cube, row-major."""
    stride = [math.prod(size[i + 1 :]) for i in range(len(orders))]
    place = np.zeros(len(published), np.int64)
    for i, order in enumerate(orders):
        code = {label: k for k, label in enumerate(order)}
        place += np.array([code[str(v)] for v in published.cells.labels[:, i]], np.int64) * stride[i]
    return [int(p) for p in place]


def _dimension(published: PublishedTable, i: int, order: list[str]) -> dict[str, Any]:
    category: dict[str, Any] = {"index": order, "label": {label: label for label in order}}
    if child := children_of(published.cells, i):
        category["child"] = child
    return {"label": published.cells.dimensions[i], "category": category}


def _metric(published: PublishedTable, measures: list[str]) -> dict[str, Any]:
    unit: dict[str, Any] = {}
    if published.unit:
        unit["base"] = published.unit
    if published.decimals is not None:
        unit["decimals"] = published.decimals
    category: dict[str, Any] = {"index": measures, "label": {m: m for m in measures}}
    if unit:
        category["unit"] = {measures[0]: unit}
    return {"label": "measure", "category": category}


def _free(name: str, taken: tuple[str, ...]) -> str:
    while name in taken:
        name += "_"
    return name


_STRUCTURE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*:[A-Za-z0-9_@$-]+\(\d+(\.\d+)*\)")
_OWN = (
    "STRUCTURE", "STRUCTURE_ID", "ACTION", "OBS_VALUE", "OBS_STATUS", "CONF_STATUS", "UNIT_MEASURE", "VARIANCE", "QUALITY",
)  # fmt: skip


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

    OBS_STATUS (code list CL_OBS_STATUS) is A for a normal value, E for one that was adjusted, rounded or perturbed, Q for a
    suppressed one; CONF_STATUS (CL_CONF_STATUS) is F for free, C for confidential. The total is `_T`. Labels become codes: a
    character that SDMX does not allow becomes an underscore.

    Parameters
    ----------
    published
        The table.
    structure_id
        Agency, name and version of the structure, such as ``ESTAT:SBS(1.0.0)``.
    structure
        The kind of structure.
    action
        What the receiver should do: I, information; A, append; M, merge; R, replace; D, delete.
    constants
        Further columns with one value for all rows, such as ``{"TIME_PERIOD": "2026", "FREQ": "A"}``, before the dimensions.
    distinguish
        Whether CONF_STATUS distinguishes secondary suppressions (D) from primary ones (C). Not for the public: whoever knows
        the primary ones knows where one contributor dominates.
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
    # observation status and confidentiality of each status
    codes = {
        Status.SHOWN: "AF",
        Status.CHANGED: "EF",
        Status.PRIMARY: "QC",
        Status.SECONDARY: "QD" if distinguish else "QC",
    }
    for i, value in enumerate(np.asarray(published.values).tolist()):
        row = [structure, structure_id, action, *fixed.values(), *(column[i] for column in labels)]
        row += [figure(value, published.decimals), *codes[Status(int(published.status[i]))]]
        row += [published.unit] if published.unit else []
        row += [] if noise is None else [figure(float(noise[i]))]
        row += [] if quality is None else [quality[i]]
        writer.writerow(row)
    return text.getvalue()


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
        plain = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", name))  # letters without accents
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


_CONFIDENTIAL = ("A", "C", "D", "G", "M", "N", "O", "P", "S", "T")
"""Codes of CL_CONF_STATUS except F, which is free."""
_OURS = "adjusted, rounded or perturbed"


class ReadBack(NamedTuple):
    """The arguments of `PublishedTable.from_frame`, from a file."""

    cells: pd.DataFrame
    """Labels as text, `value`, `status` ("", "suppressed", "changed"), and `variance` where there is one."""
    nested: dict[str, dict[str, str] | None]
    """The columns of labels, with the label above each if the file gives it."""

    @property
    def variance(self) -> str | None:
        """The column of variances, if there is one."""
        return "variance" if "variance" in self.cells else None


def read_json_stat(path: str | Path) -> ReadBack:
    """Read a dataset of JSON-stat (2.0, or the first dataset of a bundle of 1.x).

    A null with a status is a figure that is not published; one without is no cell. Dimensions of one label are left out.
    """
    try:
        rows, nested = _json_stat_cells(parse_json(Path(path).read_text("utf-8-sig")), path)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, StopIteration, RecursionError, OverflowError):
        raise DataError(f"{path} is not a dataset of JSON-stat that can be read.") from None
    if not rows:
        raise DataError(f"{path} has no cells.")
    return ReadBack(pd.DataFrame(rows), nested)


def _json_stat_cells(document: Any, path: str | Path) -> tuple[list[dict[str, Any]], dict[str, dict[str, str] | None]]:
    """Return the cells of a dataset, and the label above each label; whatever is not as it should be raises any error."""
    data = document if "dimension" in document else next(iter(document.values()))
    dimensions, (names, sizes) = data["dimension"], _axes(data)
    labels = [_codes_read(dimensions[n]["category"]) for n in names]
    if [len(c) for c in labels] != sizes:
        raise ValueError("sizes")
    metric = next((n for n in data.get("role", dimensions.get("role", {})).get("metric", ()) if n in names), None)
    measures = labels[names.index(metric)] if metric is not None else []
    extra = [m for m in measures[1:] if not m.startswith("variance")]
    if extra or len(measures) > 2:
        raise DataError(
            f"{path} has several measures: {join_names(measures)}. Keep one, and if there is one its variance."
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
    return list(rows.values()), {names[i]: _parents(dimensions[names[i]]["category"].get("child")) for i in kept}


def read_sdmx_csv(path: str | Path) -> ReadBack:
    """Read SDMX-CSV (1.0 or 2.0); columns with one value, such as the period, are left out.

    A value is not published where it is empty, or confidential by CONF_STATUS. OBS_STATUS E means that a value was changed if
    there are variances or quality codes; otherwise an estimate is a figure like others.
    """
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError):
        raise DataError(f"{path} cannot be read as SDMX-CSV.") from None
    if not isinstance(frame.index, pd.RangeIndex):  # pandas takes surplus cells for labels of rows
        raise DataError(f"{path} is not SDMX-CSV: it has lines with more cells than the first line names.")
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


def _codes_read(category: Mapping[str, Any]) -> list[str]:
    index = category.get("index", list(category.get("label", ())))
    return [str(c) for c in (sorted(index, key=lambda c: index[c]) if isinstance(index, Mapping) else index)]


def _filled(given: Any, sizes: Sequence[int]) -> dict[int, Any]:
    if isinstance(given, Mapping):
        return {int(k): v for k, v in given.items()}
    if isinstance(given, str):
        return dict.fromkeys(range(math.prod(sizes)), given)
    return dict(enumerate(given))


def _parents(child: Mapping[str, Sequence[str]] | None) -> dict[str, str] | None:
    """Return the label above each, where there is more than one level below the total."""
    if not child:
        return None
    found = {str(label): str(up) for up, labels in child.items() for label in labels}
    return found if any(up in found for up in found.values()) else None


FORMS = {"csv": ".csv", "xlsx": ".xlsx", "json-stat": ".json", "sdmx-csv": ".sdmx.csv"}
"""The forms, and the file extension of each."""


def form_of(path: Path, form: str | None = None) -> str:
    """Return the form of a file by its name: the longest extension that matches.

    >>> form_of(Path("table.sdmx.csv")), form_of(Path("table.csv")), form_of(Path("table.jsonstat"))
    ('sdmx-csv', 'csv', 'json-stat')
    """
    if form is not None:
        if form not in FORMS:
            raise ParameterError(f"a table is written as {join_names(FORMS)}; got '{form}'.")
        return form
    name = path.name.casefold()
    for ending, found in ((".sdmx.csv", "sdmx-csv"), (".jsonstat", "json-stat"), *((e, f) for f, e in FORMS.items())):
        if name.endswith(ending):
            return found
    raise ParameterError(
        f"'{path.name}' does not say in which form to write the table: its name must end in {join_names(FORMS.values())}; or name "
        f"the form ({join_names(FORMS)})."
    )


def write_table(
    published: PublishedTable,
    path: str | Path,
    form: str | None = None,
    *,
    secrets: Mapping[Path, str] | None = None,
    **options: Any,
) -> Path:
    """Write a published table to a file; `options` are those of the form (see `json_stat` and `sdmx_csv`).

    `secrets` are the texts of confidential files (a seed, a record) that are written before the table appears.
    """
    target = Path(path)
    write = table_writer(published, target, form, **options)
    with publishing(whole_file(target), secrets=secrets or {}) as (temporary,):
        write(temporary)
    return target


def table_writer(
    published: PublishedTable, target: Path, form: str | None = None, **options: Any
) -> Callable[[Path], object]:
    """Return the writer for the form of a file's name; refuse a table or option that the form does not allow."""
    found = form_of(target, form)
    allowed = {
        "json-stat": ("title", "source"),
        "sdmx-csv": ("structure_id", "structure", "action", "constants", "distinguish"),
    }.get(found, ())
    if unknown := [o for o in options if o not in allowed]:
        raise ParameterError(f"{found} has no option '{unknown[0]}'. It has: {join_names(allowed)}.")
    if found == "xlsx":
        return _excel(published)
    if found == "json-stat":
        text = json.dumps(json_stat(published, **options), ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    else:
        text = csv_text(published) if found == "csv" else sdmx_csv(published, **options)
    return lambda path: path.write_bytes(text.encode("utf-8"))


def _excel(published: PublishedTable) -> Callable[[Path], object]:
    import narwhals as nw

    from sfumato.formats.excel_files import excel_writer

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
    return excel_writer(formats.FileContents(nw.from_native(frame, eager_only=True).to_arrow()))
