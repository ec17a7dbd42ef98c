"""Text files as Windows programs write them: any of the usual encodings and line ends, names of other files, numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path, PureWindowsPath

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, listing, some

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


def numbers(fields: Sequence[str], name: str, what: str, lines: Sequence[int]) -> NDArray[np.float64]:
    """Return fields as numbers, with a point or a comma before the decimals; NaN where there is nothing."""
    import pandas as pd

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
            f"column '{name}' of {what} holds something other than a number in {some(len(wrong), 'line')}: "
            f"{listing(wrong, 5)}. Check the order of the columns and the separator in the metadata."
        )
    return found
