"""Codes that generalise by their first characters: zip codes, NACE, ICD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from sfumato.errors import SchemaError
from sfumato.schema.hierarchy.base import ROOT, Hierarchy, items, label_of, whole_number


@dataclass(frozen=True)
class PrefixHierarchy(Hierarchy):
    """Codes of fixed length that lose characters from the right.

    Numbers, also as text, are padded with zeros on the left. "482*" is read as "482**".

    Parameters
    ----------
    length
        Number of characters of a code.
    keep
        How many characters stay on each level, from fine to coarse. Unless told otherwise every shorter length is a
        level: (4, 3, 2, 1) for zip codes of length 5.
    fill
        The sign that stands for a dropped character.
    alphabet
        How many characters are possible in each place: 10 for digits, 36 with capitals. Only `leaves` uses it.

    Examples
    --------
    >>> PrefixHierarchy(5).path(48201)
    ('48201', '4820*', '482**', '48***', '4****', '*')
    >>> PrefixHierarchy(5).common("48201", "49301")
    '4****'
    """

    kind: ClassVar[str] = "prefix"
    length: int
    keep: Sequence[int] | None = None
    fill: str = "*"
    alphabet: int = 10

    def __post_init__(self) -> None:
        length = whole_number(self.length, "the length of a prefix hierarchy", 1)
        given = tuple(range(length - 1, 0, -1)) if self.keep is None else items(self.keep, "keep", "[3, 2]")
        keep = tuple(whole_number(k, "each number in keep", 1) for k in given)
        if any(below <= above for below, above in zip((length, *keep), keep, strict=False)):
            raise SchemaError(
                f"keep must fall from level to level and stay under the length {length}, such as [3, 2]; "
                f"it is {list(keep)}."
            )
        if not isinstance(self.fill, str) or len(self.fill) != 1 or self.fill.isalnum() or self.fill.isspace():
            raise SchemaError("the fill must be one sign that is neither a letter, a digit nor a space, such as '*'.")
        for name, value in (("length", length), ("keep", keep)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "alphabet", whole_number(self.alphabet, "the size of the alphabet", 2))

    @property
    def height(self) -> int:
        """Level of the root."""
        return len(self._kept) + 1

    def leaves(self, value: object) -> int:
        """Return the number of possible codes under `value`: alphabet ** (number of dropped characters).

        The codes are those that could exist, since the hierarchy holds no list of those that do.
        """
        label = self.path(value)[0]
        kept = 0 if label == ROOT else len(label.rstrip(self.fill))
        return int(self.alphabet ** (self.length - kept))

    @property
    def _kept(self) -> tuple[int, ...]:
        return tuple(self.keep or ())

    def _path(self, value: object) -> tuple[str, ...] | None:
        code = label_of(value)
        prefix = code.rstrip(self.fill)
        if code in (ROOT, self.fill * self.length):
            return (ROOT,)
        if prefix == code and code.isascii() and code.isdigit():
            prefix = code = code.zfill(self.length)
        elif prefix != code and len(code) < self.length:
            code = code.ljust(self.length, self.fill)
        known = len(prefix) in (self.length, *self._kept)
        if isinstance(value, bool) or len(code) != self.length or not known or self.fill in prefix:
            return None
        kept = [k for k in (self.length, *self._kept) if k <= len(prefix)]
        return (*(prefix[:k].ljust(self.length, self.fill) for k in kept), ROOT)

    def _why_unknown(self, values: Sequence[object]) -> str:
        long = sum(len(label_of(value)) > self.length for value in values)
        cause = f"{long:,} of them have more than {self.length} characters, the length of its codes. " if long else ""
        return (
            f"{cause}It takes codes of {self.length} characters, numbers (padded with zeros), and codes that keep "
            f"{' or '.join(map(str, self._kept)) or 'no'} characters followed by '{self.fill}'. "
            f"Look for extensions, spaces, and codes for missing answers."
        )
