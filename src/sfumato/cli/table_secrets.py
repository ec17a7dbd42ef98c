"""What a random protection must keep secret: its seed, and for later tables the record of what was published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.cli.handling import Misuse
from sfumato.errors import DataError

if TYPE_CHECKING:
    from sfumato.contract import Draws
    from sfumato.tables import Protection, PublishedTable, Record, Table


@dataclass(frozen=True)
class Secrets:
    """The randomness of a table, an earlier table's record, and where both are kept."""

    draws: Draws
    seed: Path | None
    """Where the seed is; None where nothing is random."""
    new_seed: bool
    record_file: Path | None
    earlier: Record | None

    @classmethod
    def of(
        cls,
        chosen: Protection,
        out: Path,
        seed_file: Path | None,
        seed_from: Path | None,
        record_file: Path | None,
        record_from: Path | None,
        replace: bool,
        others: Sequence[Path] = (),
    ) -> Secrets:
        """Read what is kept already, and refuse what cannot be kept, before any work is done.

        `others` are the other files of the command, which no secret may take the place of.
        """
        from sfumato.tables import RTA, Record

        if (record_file is not None or record_from is not None) and not isinstance(chosen, RTA):
            raise Misuse(
                f"only random adjustment (--method rta) has a record for later tables; {chosen.name} needs none. "
                "Leave --record-file and --record-from out."
            )
        for what, path in (("seed", seed_file), ("record", record_file)):
            if path is not None and path.resolve() == out.resolve():
                raise DataError(f"the {what} must be kept apart from what is published: choose another file for it.")
            if path is not None and path.resolve() in {p.resolve() for p in others}:
                raise DataError(
                    f"--{what}-file names a file that the command reads or writes; choose another one for the {what}."
                )
            if path is not None and path.is_dir():
                raise DataError(f"{path} is a folder; give the name of a file for the {what}.")
        if record_file is not None and seed_file is not None and record_file.resolve() == seed_file.resolve():
            raise Misuse("--seed-file and --record-file name the same file.")
        draws, seed = _seed(chosen, seed_file, seed_from, replace)
        if record_file is not None and record_file.exists() and not replace:
            raise DataError(
                f"{record_file} is there already: the record of an earlier table, which later ones need. Choose another name, or "
                "add --replace."
            )
        earlier = None if record_from is None else Record.read(record_from)
        return cls(draws, seed, seed_from is None and seed is not None, record_file, earlier)

    def protect(self, chosen: Protection, table: Table) -> PublishedTable:
        """Protect a table, in agreement with the earlier one where there is one."""
        from sfumato.tables import RTA

        if self.earlier is not None and isinstance(chosen, RTA):
            return chosen.protect_later(table, self.earlier, self.draws)
        return chosen.protect(table, self.draws)

    def texts(self, published: PublishedTable) -> dict[Path, str]:
        """Return what must be kept before the table appears: the text of each confidential file."""
        kept = {}
        if self.new_seed and self.seed is not None:
            kept[self.seed] = self.draws.seed_text()
        if self.record_file is not None:
            if published.record is None:
                raise DataError("this table has no record for later ones.")
            kept[self.record_file] = published.record.text()
        return kept

    def words(self, published: PublishedTable) -> list[str]:
        """Say where the secrets are, and what they are for."""
        said = []
        if self.seed is not None:
            said.append(
                f"The seed is in {self.seed}. Never publish it; use it (--seed-from {self.seed}) for all tables of these data, "
                "so that nobody can average the noise away."
            )
        if self.record_file is not None:
            said.append(
                f"The record is in {self.record_file}. It holds true values: never publish it; a later table of these data needs "
                f"it (--record-from {self.record_file})."
            )
        elif published.record is not None:
            said.append("Other tables of these data may follow? Keep the record for them, too: --record-file.")
        return said


def _seed(
    chosen: Protection, seed_file: Path | None, seed_from: Path | None, replace: bool
) -> tuple[Draws, Path | None]:
    """Return the randomness, and where its seed is kept; a method without randomness needs none."""
    from sfumato.contract import Draws

    if seed_file is not None and seed_from is not None:
        raise Misuse("give --seed-file for a new seed, or --seed-from for one that is kept already, not both.")
    if not chosen.random:
        return Draws("no randomness"), None
    if seed_from is not None:
        return Draws.read(seed_from), seed_from
    if seed_file is None:
        raise Misuse(
            f"{chosen.name} is random: say with --seed-file where to keep its secret seed. (Or --seed-from, to use a seed again: "
            "all tables of the same data should have the same one.)"
        )
    if seed_file.exists() and not replace:
        raise DataError(
            f"{seed_file} is there already, and a new seed would take the place of an old one. To use that seed again, as for "
            f"another table of the same data: --seed-from {seed_file}. To make a new one: another name, or --replace."
        )
    return Draws.secret(), seed_file
