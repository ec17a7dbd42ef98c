"""Local recoding of rare values: a value that few records have is cut short; the others stay as they are."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from sfumato.contract import Draws, Guarantee, Mask, learned, param
from sfumato.errors import DataError
from sfumato.masks.merging import path_of
from sfumato.masks.recoded_schema import as_text
from sfumato.masks.recoding import count_values, relabel
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Attribute, Scale, Schema
from sfumato.schema.hierarchy.base import ROOT, label_of


class RecodeRare(Mask):
    """Values that fewer than t records have lose their last digits (global-risk paper, section 4: the rule for zip codes).

    A value goes up its hierarchy where the schema has one (48201 to 482**), and else loses its last characters. Once, as in
    the paper, or again and again until what is released is no longer rare or stands for everything (``*``).
    """

    no_matrix: ClassVar[str] = "it groups some values, which no matrix does (matrix-masking paper, section IV)"

    columns: tuple[str, ...] = param(doc="columns to recode", columns="many", holds="categories")
    least: int = param(
        default=5,
        doc="t: a value that fewer records have is rare",
        low=1,
        high=1e9,
        integer=True,
        scale="log",
        usual=(2, 200),
    )
    cut: int = param(
        default=2,
        doc="levels of the hierarchy, or last characters, that a rare value loses",
        low=1,
        high=100,
        integer=True,
    )
    repeat: Literal["once", "until_frequent"] = param(
        default="once", doc="cut once, or until nothing is rare", choices=("once", "until_frequent")
    )
    unit: Literal["record", "household"] = param(
        default="record", doc="what is counted", choices=("record", "household")
    )
    tables: Any = learned("columns", "least", "cut", "repeat", "unit", default=None)

    @property
    def _counted(self) -> Literal["records", "households"]:
        return "records" if self.unit == "record" else "households"

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn what each value is released as."""
        return self.learn(tables={name: self._table(data, name) for name in self.columns})

    def _table(self, data: Microdata, name: str) -> dict[str, str]:
        """Return the released label of each value; one pass over the data for each cut."""
        counts = count_values(data, name, self._counted)
        if not counts:
            raise DataError(f"column '{name}' has no values at all, so there is nothing to recode. Leave it out.")
        chains = self._chains(data.schema[name], counts)
        at = dict.fromkeys(chains, 0)
        while True:
            rare = {label for label, n in counts.items() if n < self.least}
            moved = [v for v, chain in chains.items() if chain[at[v]] in rare and at[v] + 1 < len(chain)]
            for value in moved:
                at[value] += 1
            if not moved or self.repeat == "once":
                return {value: chain[at[value]] for value, chain in chains.items()}
            counts = count_values(data, name, self._counted, lambda v: chains[label_of(v)][at[label_of(v)]])

    def _chains(self, attribute: Attribute, counts: dict[Any, int]) -> dict[str, list[str]]:
        """Return each value's label and what it becomes with each cut; counts are renamed to labels in place."""
        chains = {label_of(value): self._chain(attribute, value) for value in counts}
        for value, n in list(counts.items()):
            label = chains[label_of(value)][0]
            del counts[value]
            counts[label] = counts.get(label, 0) + n
        return chains

    def _chain(self, attribute: Attribute, value: object) -> list[str]:
        if attribute.hierarchy is None:
            chain, text = [label_of(value)], label_of(value)
            while len(text := text[: -self.cut]):
                chain.append(text.ljust(len(chain[0]), ROOT))
            return [*chain, ROOT]
        path = path_of(attribute, value)
        return list(dict.fromkeys([*path[:: self.cut], path[-1]]))  # a label repeated on the next level is no cut

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema: the columns hold text, values and cut values side by side."""
        after = {}
        for name in self.columns:
            old = schema[name]
            scale = Scale.PARTIALLY_ORDERED if old.scale is Scale.ORDERED else old.scale
            after[name] = as_text(old, scale, old.hierarchy)
        return Schema(tuple(after.get(a.name, a) for a in schema))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Release each value as its label; a value that was not there when counting is rare."""
        out = batch
        for name, table in self.tables.items():
            attribute = batch.schema[name]
            out = relabel(out, name, lambda values, a=attribute, t=table: [self._released(a, v, t) for v in values])  # type: ignore[misc]
        return out

    def _released(self, attribute: Attribute, value: object, table: dict[str, str]) -> str:
        if (label := label_of(value)) in table:
            return table[label]
        chain = self._chain(attribute, value)
        return chain[-1] if self.repeat == "until_frequent" else chain[min(1, len(chain) - 1)]

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that no rare value is released as it was (or at all, if cuts are repeated), and count what was cut."""
        said, t = [], self.least
        for name, table in self.tables.items():
            counts = count_values(after, name, self._counted)
            uncut = {chain[0] for v in table if (chain := self._chain(before.schema[name], v))[0] == table[v]} - {ROOT}
            checked = uncut if self.repeat == "once" else set(counts) - {ROOT}
            if wrong := sum(counts.get(label, 0) < t for label in checked if label in counts):
                raise DataError(f"{wrong:,} released values of '{name}' are still held by fewer than {t:,} {self._counted}; "
                                "nothing is released.")  # fmt: skip
            cut = sum(n for label, n in count_values(after, name).items() if label not in uncut)
            what = "value is released uncut" if self.repeat == "once" else f"value but '{ROOT}' is released"
            says = f"{name}: no {what} that fewer than {t:,} {self._counted} have; {cut:,} records have a cut one"
            said.append(Guarantee(step, says, "released values counted"))
        return tuple(said)
