"""A hierarchy written out in full: one row per value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from sfumato.errors import SchemaError
from sfumato.schema.hierarchy.base import ROOT, Hierarchy, items, label_of

Row = tuple[str, ...]
Tree = Mapping[str, Any]  # label -> tree below it, or a list of values, or None for a value


@dataclass(frozen=True, repr=False)
class TreeHierarchy(Hierarchy):
    """A table of values and their ancestors, as in an ARX hierarchy file.

    Parameters
    ----------
    rows
        One row per value: the value, its ancestors, and last the root, which is the same in all rows.
        Where a value is not generalised further its label is repeated.

    Examples
    --------
    >>> work = TreeHierarchy([["nurse", "health", "*"], ["doctor", "health", "*"], ["farmer", "farmer", "*"]])
    >>> work.path("nurse")
    ('nurse', 'health', '*')
    >>> work.generalise(["farmer", None, "doctor"], 1).tolist()
    ['farmer', None, 'health']
    """

    kind: ClassVar[str] = "tree"
    rows: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        rows = [
            tuple(label_of(label) for label in items(row, "a row of a hierarchy", "['nurse', 'health', '*']"))
            for row in items(self.rows, "the rows of a hierarchy", "[['nurse', 'health', '*']]")
        ]
        _check_shape(rows)
        object.__setattr__(self, "rows", tuple(dict.fromkeys(rows)))
        _check_parents(self.rows)

    @classmethod
    def from_levels(cls, levels: Mapping[Any, Sequence[object]]) -> TreeHierarchy:
        """Build from ``{value: [label on level 1, label on level 2, ...]}``; a root is added if the lists have none.

        >>> TreeHierarchy.from_levels({"Rome": ["Italy"], "Oslo": ["Norway"]}).path("Oslo")
        ('Oslo', 'Norway', '*')
        """
        example = "{'Rome': ['Italy'], 'Oslo': ['Norway']}"
        if not isinstance(levels, Mapping):
            raise SchemaError(f"the levels must be a mapping, such as {example}.")
        ancestors = {label_of(k): items(v, "the labels above a value", "['Italy', '*']") for k, v in levels.items()}
        return cls(with_root([(value, *map(label_of, above)) for value, above in ancestors.items()]))

    @classmethod
    def from_tree(cls, tree: Tree, root: str = ROOT) -> TreeHierarchy:
        """Build from nested mappings, the labels below the root first; shallow values are repeated to equal depth.

        >>> places = TreeHierarchy.from_tree({"Europe": {"Italy": ["Rome", "Pisa"]}, "at sea": None})
        >>> places.path("at sea")
        ('at sea', 'at sea', 'at sea', '*')
        """
        paths = list(_paths(tree, (root,)))
        depth = max((len(path) for path in paths), default=0)
        return cls([(path[0],) * (depth - len(path)) + path for path in paths])

    def __repr__(self) -> str:
        return f"TreeHierarchy({len(self.rows):,} values, height {self.height})"

    @property
    def height(self) -> int:
        """Level of the root."""
        return len(self.rows[0]) - 1

    @property
    def root(self) -> str:
        """The last label of every row; mostly ``*``, but a file may name it."""
        return self.rows[0][-1]

    @property
    def values(self) -> tuple[str, ...]:
        """The values on level 0, in the order of the rows."""
        return tuple(row[0] for row in self.rows)

    @property
    def lists_values(self) -> bool:
        """Whether it names single values: it does."""
        return True

    def limited_to(self, texts: Collection[str]) -> TreeHierarchy:
        """Return the tree of these labels alone, of the same height: what stands below a label that is no value is cut."""
        rows = [row for row in self.rows if row[0] in texts]
        known, width = {label for row in rows for label in row}, self.height + 1
        for label, path in self._path_of.items():
            if label in texts and label not in known:
                rows.append((label,) * (width - len(path)) + path)
                known |= set(path)
        return TreeHierarchy(rows or [(self.root,) * width])

    def leaves(self, value: object) -> int:
        """Return the number of rows in which the label stands."""
        return self._leaf_counts[self.path(value)[0]]

    @cached_property
    def _leaf_counts(self) -> Counter[str]:
        return Counter(label for row in self.rows for label in set(row))

    @cached_property
    def _path_of(self) -> dict[str, Row]:
        paths: dict[str, Row] = {}
        for level in range(self.height):
            for row in self.rows:
                paths.setdefault(row[level], tuple(row[level:]))
        top = (self.root,)
        paths.setdefault(ROOT, top)  # a suppressed value is '*' whatever the file calls its root
        paths[self.root] = top
        return paths

    def _path(self, value: object) -> Row | None:
        return self._path_of.get(label_of(value))

    def _why_unknown(self, values: Sequence[object]) -> str:
        return (
            f"It lists {len(self.rows):,} values. Compare the column's distinct values with `hierarchy.values`: "
            f"look for spelling, spaces, capitals, and codes for missing answers that the schema does not name."
        )


def with_root(rows: Sequence[Row]) -> list[Row]:
    """Add the level ``*`` unless all rows end in the same label already."""
    rooted = len({row[-1] for row in rows if row}) == 1 and all(len(row) > 1 for row in rows)
    return list(rows) if rooted else [(*row, ROOT) for row in rows]


def _paths(tree: object, above: Row) -> Iterable[Row]:
    if isinstance(tree, Mapping):
        for label, below in tree.items():
            path = (label_of(label), *above)
            if below is None or (isinstance(below, (Mapping, list, tuple)) and not below):
                yield path
            else:
                yield from _paths(below, path)
    else:
        for value in items(tree, "what stands under a label", "['Rome', 'Pisa'] or {'Italy': ['Rome', 'Pisa']}"):
            yield (label_of(value), *above)


def _check_shape(rows: Sequence[Row]) -> None:
    if not rows:
        raise SchemaError("a hierarchy needs at least one value.")
    width = len(rows[0])
    for number, row in enumerate(rows, 1):
        if len(row) != width:
            raise SchemaError(f"row {number} of the hierarchy has {len(row)} labels, but row 1 has {width}.")
        if "" in row:
            raise SchemaError(f"row {number} of the hierarchy has an empty label. Give every level a label.")
    if width < 2:
        raise SchemaError("a row of a hierarchy needs at least the value and the root '*'.")
    roots = sorted({row[-1] for row in rows})
    if len(roots) > 1:
        raise SchemaError(
            f"all rows of a hierarchy must end in the same root, but these end in '{roots[0]}' and '{roots[1]}'"
            f"{'' if len(roots) == 2 else ' and others'}. Add '*' to every row, or use `TreeHierarchy.from_levels`."
        )


def _check_parents(rows: Sequence[Sequence[str]]) -> None:
    """Refuse a label with two parents: it would be unclear what contains it."""
    seen: dict[str, tuple[int, str]] = {}  # label -> the highest level it stands on, and its parent there
    for level in range(len(rows[0])):
        here: dict[str, str] = {}
        for row in rows:
            label, parent = row[level], row[level + 1] if level + 1 < len(row) else ""
            if here.setdefault(label, parent) != parent:
                raise SchemaError(
                    f"'{label}' on level {level} stands under both '{here[label]}' and '{parent}', "
                    f"but a label has one parent. Rename one of the two, or correct its path."
                )
        for label, parent in here.items():
            if label in seen and seen[label] != (level - 1, label):
                lower, other = seen[label]
                raise SchemaError(
                    f"'{label}' stands on level {lower} under '{other}' and again on level {level}, which is another "
                    f"place. A label may recur only directly above itself. Rename one of the two."
                )
            seen[label] = (level, parent)
