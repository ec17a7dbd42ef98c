"""Text files as τ-ARGUS writes them, and its hierarchies (.hrc)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from pathlib import Path, PureWindowsPath

import numpy as np

from sfumato.errors import DataError, ParameterError, join_names, plural
from sfumato.lazy import pd
from sfumato.schema.hierarchy import TreeHierarchy
from sfumato.tables.cells import TOTAL
from sfumato.typing import Numbers

Lines = list[tuple[int, list[str]]]
_SEPARATORS = (";", "\t", ",", "|")


def read_text(path: str | Path, what: str) -> str:
    """Return a file's text: UTF-8 or UTF-16 where it is that, else the Windows code page of western Europe."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"cannot read the {what} {path}: {error.strerror or 'unknown reason'}.") from None
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        try:
            text = raw.decode("utf-16")
        except UnicodeDecodeError:  # its message and its object hold the file
            raise DataError(
                f"the {what} {path} begins as UTF-16 text does, but is damaged further on. Save it again."
            ) from None
    else:
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = raw.decode("cp1252", errors="replace")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.removesuffix("\x1a")  # the end of a file, to DOS


def beside(path: str | Path, name: str) -> Path | None:
    """Return a file that another one names: as it is, or in the same folder; capitals do not count. None if there is none."""
    if (given := Path(name)).is_file():
        return given
    folder, plain = Path(path).parent, PureWindowsPath(name).name
    if (here := folder / name).is_file():
        return here
    if not folder.is_dir():
        return None
    return next((f for f in sorted(folder.iterdir()) if f.name.casefold() == plain.casefold() and f.is_file()), None)


def metadata_of(path: str | Path) -> Path:
    """Return the .rda file that has the name of a data file; capitals do not count."""
    found = beside(path, Path(path).with_suffix(".rda").name)
    if found is None:
        raise DataError(
            f"beside {path} is no metadata file {Path(path).with_suffix('.rda').name}. Say where the .rda file is (metadata)."
        )
    return found


def sniff(text: str) -> str:
    """Return the sign that separates the fields of most lines alike; a semicolon, if none does."""
    sample = [line for line in text.splitlines() if line.strip()][:200]
    if not sample:
        return ";"
    best, score = ";", 0.0
    for sign in _SEPARATORS:
        widths = [line.count(sign) for line in sample]
        common = max(set(widths), key=widths.count)
        share = widths.count(common) / len(widths) if common else 0.0
        if share > score:
            best, score = sign, share
    return best


def split(text: str, separator: str, what: str) -> Lines:
    """Return the fields of every line that is not empty, without the spaces around them, and the line's number."""
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    except (TypeError, ValueError, csv.Error):
        raise DataError(f"the separator of {what} must be one sign, such as ';'; got '{separator}'.") from None
    try:
        return [(reader.line_num, [f.strip() for f in fields]) for fields in reader if any(f.strip() for f in fields)]
    except csv.Error:
        raise DataError(f"line {reader.line_num} of {what} cannot be split into fields.") from None


def numbers(fields: Sequence[str], name: str, what: str, lines: Sequence[int]) -> Numbers:
    """Return fields as numbers, with a point or a comma before the decimals; NaN where there is nothing."""
    found = pd.to_numeric(pd.Series(fields, dtype=object), errors="coerce").to_numpy(np.float64).copy()
    wrong = []
    for i in np.flatnonzero(np.isnan(found)).tolist():
        text = fields[i].replace("\u00a0", "").replace(" ", "")
        if text in ("", "."):
            continue
        if "," in text:  # the last of the two signs stands before the decimals
            grouping = "," if text.rfind(".") > text.rfind(",") else "."
            text = text.replace(grouping, "").replace(",", ".")
        try:
            found[i] = float(text)
        except ValueError:
            wrong.append(str(lines[i]))
    if wrong:
        raise DataError(
            f"column '{name}' of {what} holds something other than a number in {plural(len(wrong), 'line')}: "
            f"{join_names(wrong, 5)}. Check the order of the columns and the separator in the metadata."
        )
    return found


def read_argus_hierarchy(
    path: str | Path, *, leader: str = "@", total: str = TOTAL, more: Iterable[str] = ()
) -> TreeHierarchy:
    """Read an .hrc file: a line for each label, after one `leader` for each level that it stands below the first.

    Spaces around labels do not count. Labels may stand at different depths.

    Parameters
    ----------
    path
        The file.
    leader
        What stands before a label for each level: HIERLEADSTRING.
    total
        The label of the total, which stands above all and is not in the file: TOTCODE.
    more
        Labels that are not in the file and stand directly below the total, such as codes for missing.
    """
    if not leader:
        raise ParameterError("the leader of a hierarchy file is at least one sign, mostly '@'.")
    return parse_hrc(read_text(path, "hierarchy file"), f"the hierarchy file {path}", leader, total, more)


def parse_hrc(text: str, what: str, leader: str = "@", total: str = TOTAL, more: Iterable[str] = ()) -> TreeHierarchy:
    """Return the hierarchy that the text of an .hrc file describes."""
    paths: list[tuple[str, ...]] = []
    stack: list[str] = []
    seen: dict[str, str] = {}
    for number, raw in enumerate(text.split("\n"), 1):
        depth, rest = 0, raw
        while rest.startswith(leader):
            depth, rest = depth + 1, rest[len(leader) :]
        label = rest.strip()
        if not label:
            if depth and leader.strip():
                raise DataError(f"line {number} of {what} has no label after '{leader * depth}'.")
            continue
        if depth and not stack:
            raise DataError(
                f"line {number} of {what} begins with '{leader}', but the first label stands directly below the total. Remove "
                "it, or check which leader the file has."
            )
        if depth > len(stack):
            raise DataError(
                f"line {number} of {what} ('{label}') is {depth} levels deep, but the line before it is only "
                f"{len(stack) - 1}: a label goes at most one level deeper than the one before it."
            )
        above = stack[:depth]
        if label in above:
            raise DataError(
                f"line {number} of {what} goes in a circle: '{label}' stands under itself. Correct one of the two."
            )
        if label in seen:
            raise DataError(
                f"line {number} of {what} has the label '{label}' again: it stands under {seen[label]} already. A label "
                "stands in one place only."
            )
        seen[label] = f"'{above[-1]}'" if above else "the total"
        stack = [*above, label]
        paths.append((label, *above[::-1]))
    if not paths:
        raise DataError(f"{what} has no labels. It needs one on each line, after '{leader}' for each level.")
    paths += [(label,) for label in dict.fromkeys(str(m).strip() for m in more) if label and label not in seen]
    return _tree(paths, total, what)


def levels_hierarchy(
    codes: Iterable[str], widths: Sequence[int], total: str = TOTAL, more: Iterable[str] = ()
) -> TreeHierarchy:
    """Return the hierarchy of codes whose first digits are the label above: HIERLEVELS.

    A code as long as some level stands there; any other is moved to the right of its field, as τ-ARGUS does. Labels in `more`
    stand directly below the total.

    >>> levels_hierarchy(["11101", "11102", "222"], [3, 1, 1, 0, 0]).path("11101")
    ('11101', '1110', '111', 'Total')
    """
    ends = [e for e in dict.fromkeys(accumulate(widths)) if e > 0]
    if not ends or min(widths) < 0:
        raise DataError("the levels of a hierarchy by digits are numbers of digits, such as 3 1 1.")
    paths: dict[str, tuple[str, ...]] = {}
    for code in dict.fromkeys(codes):
        field = code if len(code) in ends else code.rjust(ends[-1])
        steps = [field[:e].strip() for e in ends if e <= len(field)]
        path = tuple(dict.fromkeys(s for s in reversed(steps) if s))
        for i in range(len(path)):
            paths.setdefault(path[i], path[i:])
    every = [*paths.values(), *((m,) for m in more if m and m not in paths)]
    if not every:
        raise DataError("a hierarchy by digits needs at least one code.")
    return _tree(every, total, "a hierarchy by digits")


def _tree(paths: Sequence[tuple[str, ...]], total: str, what: str) -> TreeHierarchy:
    """Return the hierarchy of paths, each from a label up to just below the total."""
    if len({p[-1] for p in paths}) == 1 and paths[0][-1] == total:  # the file has the total after all
        paths = [p[:-1] for p in paths if len(p) > 1]
    if any(total in p for p in paths):
        raise DataError(
            f"{what} has the label '{total}', which is that of the total. The total is not a line of its own."
        )
    inner = {up for p in paths for _, up in pairwise(p)}
    leaves = [(*p, total) for p in paths if p[0] not in inner]
    depth = max(len(p) for p in leaves)
    return TreeHierarchy([(p[0],) * (depth - len(p)) + p for p in leaves])
