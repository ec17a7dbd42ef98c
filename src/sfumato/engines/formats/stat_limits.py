"""What Stata, SPSS and SAS files can hold, said before anything is written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.engines.formats.contents import FileContents
from sfumato.errors import DataError, listing, repeated

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

EXACT = 2**53
"""Whole numbers up to here are exact in floating point, which is all that SPSS, SAS and Excel have."""


@dataclass(frozen=True)
class Limits:
    """The limits of one form; lengths in bytes of UTF-8, or in characters where `characters` is set."""

    program: str
    name: str
    """What a column name must look like, as a pattern."""
    name_rule: str
    name_length: int
    reserved: frozenset[str]
    case_matters: bool
    text: int
    keeps_last_blanks: bool
    label: int
    value_label: int
    largest: float
    smallest: float = 0.0
    characters: bool = False

    def length(self, text: str) -> int:
        """Return how long a name or label is for this form."""
        return len(text) if self.characters else len(text.encode())


_STATA_WORDS = ["_all", "_b", "_coef", "_cons", "_n", "_N", "_pi", "_pred", "_rc", "_skip", "_weight", "byte", "double"]
_STATA_WORDS += ["float", "if", "in", "int", "long", "using", "with", "strL", *(f"str{i}" for i in range(1, 2046))]
_SPSS_WORDS = ["ALL", "AND", "BY", "EQ", "GE", "GT", "LE", "LT", "NE", "NOT", "OR", "TO", "WITH"]

LIMITS = {
    "dta": Limits(
        program="Stata",
        name=r"[^\W\d]\w*",
        name_rule="letters, digits and underscores, not beginning with a digit, and not a word such as 'if' or 'byte'",
        name_length=32,
        reserved=frozenset(_STATA_WORDS),
        case_matters=True,
        text=2_000_000_000,
        keeps_last_blanks=True,
        label=80,
        value_label=32_000,
        largest=8.98e307,
        characters=True,
    ),
    "sav": Limits(
        program="SPSS",
        name=r"[^\W\d_]([\w.$#@]*[\w$#@])?",
        name_rule="letters, digits and . _ $ # @, beginning with a letter, and not a word such as 'all' or 'to'",
        name_length=64,
        reserved=frozenset(_SPSS_WORDS),
        case_matters=False,
        text=32_767,
        keeps_last_blanks=False,
        label=256,
        value_label=120,
        largest=1.79e308,
    ),
    "xpt": Limits(
        program="SAS",
        name=r"[A-Za-z_][A-Za-z0-9_]*",
        name_rule="English letters, digits and underscores, not beginning with a digit",
        name_length=32,
        reserved=frozenset(),
        case_matters=False,
        text=32_767,
        keeps_last_blanks=False,
        label=256,
        value_label=0,
        largest=7.2e75,
        smallest=5.4e-79,
    ),
}


def check_names_for(names: list[str], limits: Limits) -> None:
    """Refuse column names that the program does not take, all of them in one sentence."""

    def bad(name: str) -> bool:
        word = name if limits.case_matters else name.upper()
        return (
            not re.fullmatch(limits.name, name) or limits.length(name) > limits.name_length or word in limits.reserved
        )

    if wrong := [name for name in names if bad(name)]:
        raise DataError(
            f"{limits.program} does not take these column names: {listing(wrong)}. A name has at most "
            f"{limits.name_length} {'characters' if limits.characters else 'bytes'}: {limits.name_rule}. Rename them."
        )
    if same := repeated(names, str if limits.case_matters else str.upper):
        raise DataError(f"{limits.program} sees no capitals, so these column names are the same: {listing(same)}.")


def check_labels_for(contents: FileContents, limits: Limits) -> None:
    """Refuse labels that would be cut."""
    names = contents.table.column_names
    unit = "characters" if limits.characters else "bytes"
    if long := [n for n in names if limits.length(contents.labels.get(n, "")) > limits.label]:
        raise DataError(
            f"{limits.program} holds variable labels of at most {limits.label} {unit}, and these columns have longer "
            f"ones: {listing(long)}. Shorten them."
        )

    def longest(name: str) -> int:
        return max((len(word.encode()) for word in contents.value_labels.get(name, {}).values()), default=0)

    if limits.value_label and (long := [n for n in names if longest(n) > limits.value_label]):
        raise DataError(
            f"{limits.program} holds value labels of at most {limits.value_label} bytes, and these columns have "
            f"longer ones: {listing(long)}. Shorten them."
        )


def check_text(name: str, column: pa.ChunkedArray, limits: Limits) -> None:
    """Refuse text that would be cut: too long, ending in blanks where they are padding, or with zero characters."""
    import pyarrow.compute as pc

    if (pc.max(pc.binary_length(column)).as_py() or 0) > limits.text:
        raise DataError(f"column '{name}' has texts longer than the {limits.text} bytes that {limits.program} holds.")
    if pc.any(pc.match_substring(column, "\0")).as_py():
        raise DataError(f"column '{name}' has texts with a zero character, where {limits.program} ends a text.")
    if not limits.keeps_last_blanks and pc.any(pc.ends_with(column, " ")).as_py():
        raise DataError(
            f"column '{name}' has texts that end in a blank, which {limits.program} would lose. Trim them first."
        )


def check_numbers(name: str, numbers: NDArray[np.float64], limits: Limits) -> None:
    """Refuse infinities and numbers out of range; NaN is missing."""
    size = np.abs(numbers[~np.isnan(numbers)])
    if np.isinf(size).any():
        raise DataError(f"column '{name}' has infinite numbers, which {limits.program} has no place for.")
    if (size > limits.largest).any() or ((size > 0) & (size < limits.smallest)).any():
        least = f", or nearer to 0 than {limits.smallest:g}," if limits.smallest else ""
        raise DataError(f"column '{name}' has numbers beyond {limits.largest:g}{least} which this form cannot hold.")


def check_whole(name: str, column: pa.ChunkedArray, program: str) -> None:
    """Refuse whole numbers that floating point would round."""
    import pyarrow.compute as pc

    ends = pc.min_max(column).as_py()
    if any(end is not None and abs(end) > EXACT for end in ends.values()):
        raise DataError(
            f"column '{name}' has whole numbers beyond 2^53, which {program} would round. If they are identifiers, "
            f"turn them into text."
        )
