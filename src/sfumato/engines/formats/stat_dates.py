"""Dates of Stata, SPSS and SAS: numbers since a day long ago, and a format that says so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

DAY = 86_400
_SPSS_DATES = {"DATE", "ADATE", "EDATE", "JDATE", "SDATE", "MOYR", "QYR", "WKYR"}
_SPSS_STAMPS = {"DATETIME", "YMDHMS"}
_SPSS_TIMES = {"TIME", "DTIME", "MTIME"}
_SAS_DATES = re.compile(
    r"(DATE|WEEKDAT[EX]|WORDDAT[EX]|(DDMM|MMDD)YY[BCDNPS]?|YYMMDD[BCDNPS]?|(YYMM|MMYY)[CDNPS]?|MONYY|YYMON|"
    r"YYQR?[CDNPS]?|YEAR|JULIAN|JULDAY|(IS8601|E8601|B8601)DA|NLDATE)"
)
_SAS_STAMPS = re.compile(r"(DATETIME|DATEAMPM|MDYAMPM|DTDATE|DTMONYY|DTYEAR|DTYYQC|(IS8601|E8601|B8601)D[TN]|NLDATM)")
_SAS_TIMES = re.compile(r"(TIME|HHMM|TOD|TIMEAMPM|MMSS|(IS8601|E8601|B8601)TM)")
_STATA_PERIODS = {"m": 1, "q": 3, "h": 6}

EPOCH_DAYS = {"SPSS": 141_428, "SAS": 3_653, "Stata": 3_653}
"""Days from a program's day zero (14 October 1582 or 1 January 1960) to 1 January 1970."""
_LAST = 253_402_300_800
_FIRST = -62_135_596_800
"""Seconds from 1970 to the years 10000 and 1: what Python, Arrow and the programs all hold."""


def dated(
    column: pa.Array, codes: tuple[float | str, ...], shown: str, program: str
) -> tuple[pa.Array, tuple[float | str, ...], set[float | str]]:
    """Return the column as dates or times if its format says so, its missing codes, and those dropped for it.

    Missing codes are numbers, and cannot stand in a column of dates. A column with a value that no calendar has
    stays numbers, as does a time column with values of a day or more: those are lengths of time.
    """
    import pyarrow as pa

    numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    coded = np.isin(numbers, np.array(codes, float))
    kind, seconds = _seconds(np.where(coded, np.nan, numbers), shown, program)
    null = np.isnan(seconds)
    low, high = (0, DAY) if kind == "time" else (_FIRST, _LAST)
    if kind is None or ((seconds[~null] < low) | (seconds[~null] >= high)).any():
        return column, codes, set()
    micro = _microseconds(seconds)
    arrow_type = pa.time64("us") if kind == "time" else pa.timestamp("us")
    if kind == "date" and not (micro % (DAY * 1_000_000)).any():
        arrow_type = pa.date32()
        micro = (micro // (DAY * 1_000_000)).astype(np.int32)
    return pa.array(micro, mask=null).cast(arrow_type), (), set(numbers[coded].tolist())


def _seconds(values: NDArray[np.float64], shown: str, program: str) -> tuple[str | None, NDArray[np.float64]]:
    """Return what the format means ("date", "stamp", "time" or None), and seconds since 1970 (or midnight)."""
    offset = EPOCH_DAYS[program] * DAY
    if program == "Stata":
        return _stata_seconds(values, shown.replace("%-", "%"), offset)
    match = re.fullmatch(r"(.*?[A-Z])(\d+(\.\d*)?)?\.?", shown)
    base = match.group(1) if match else ""
    if program == "SPSS":
        if base in _SPSS_DATES or base in _SPSS_STAMPS:
            return "date" if base in _SPSS_DATES else "stamp", values - offset
        return ("time" if base in _SPSS_TIMES else None), values
    if _SAS_DATES.fullmatch(base):
        return "date", values * DAY - offset
    if _SAS_STAMPS.fullmatch(base):
        return "stamp", values - offset
    return ("time" if _SAS_TIMES.fullmatch(base) else None), values


def _stata_seconds(values: NDArray[np.float64], shown: str, offset: int) -> tuple[str | None, NDArray[np.float64]]:
    if shown.startswith(("%td", "%d")):
        return "date", values * DAY - offset
    if shown.startswith("%tcHH:MM"):
        return "time", values / 1000
    if shown.startswith("%tc"):
        return "stamp", values / 1000 - offset
    period = shown[2:3] if shown.startswith("%t") else ""
    if period not in ("w", *_STATA_PERIODS):
        return None, values
    null = np.isnan(values)
    count = np.where(null, 0, values).clip(-100_000, 100_000).astype(np.int64)
    if period == "w":  # Stata's weeks: 52 a year, the first begins on 1 January
        years = np.datetime64("1960", "Y") + count // 52
        days = years.astype("datetime64[D]") + 7 * (count % 52)
    else:
        days = (np.datetime64("1960-01", "M") + count * _STATA_PERIODS[period]).astype("datetime64[D]")
    return "date", np.where(null, np.nan, days.astype(np.int64) * float(DAY))


def _microseconds(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return whole microseconds; a double holds seconds since 1582 to two of them, so near a millisecond is on it."""
    known = np.where(np.isnan(seconds), 0, seconds)
    whole = np.floor(known)
    micro = whole.astype(np.int64) * 1_000_000 + np.rint((known - whole) * 1e6).astype(np.int64)
    beside = (micro + 500) % 1000 - 500
    return np.where(np.abs(beside) <= 2, micro - beside, micro)
