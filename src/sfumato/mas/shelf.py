"""Where a vault keeps its policies: one for all data sets, one of its own for any of them, and every earlier version."""

from __future__ import annotations

from pathlib import Path

from sfumato.mas.policy import Policy


class Shelf:
    """The policies of a vault. A name and a version stand for one policy in the whole vault, and earlier ones stay."""

    def __init__(self, vault: Path) -> None:
        self._vault = vault
        self._read: dict[Path, tuple[tuple[int, int], Policy]] = {}

    def _home(self, dataset: str | None) -> Path:
        return self._vault if dataset is None else self._vault / "datasets" / dataset

    def current(self, dataset: str | None = None) -> Policy | None:
        """Return the policy of the vault, or the one that a data set has of its own; None if it has none."""
        path = self._home(dataset) / "policy.toml"
        try:
            facts = path.stat()
        except OSError:
            return None
        mark = (facts.st_mtime_ns, facts.st_size)
        if path not in self._read or self._read[path][0] != mark:
            self._read[path] = (mark, Policy.read(path))
        return self._read[path][1]

    def earlier(self) -> list[Policy]:
        """Return every policy that ever held for the vault or one of its data sets."""
        found = [*self._vault.glob("policies/*.toml"), *self._vault.glob("datasets/*/policies/*.toml")]
        return [Policy.read(path) for path in sorted(found)]

    def put(self, policy: Policy, dataset: str | None = None) -> Policy:
        """Let a policy hold from now on; its version is raised where it differs from what bore its name before."""
        chosen = numbered(policy, self.earlier())
        home = self._home(dataset)
        number = 1 + max((int(p.stem) for p in home.glob("policies/*.toml") if p.stem.isdigit()), default=0)
        chosen.write(home / "policies" / f"{number}.toml")
        chosen.write(home / "policy.toml")
        return chosen

    def remove(self, dataset: str) -> None:
        """Let the policy of the vault hold for a data set again."""
        (self._home(dataset) / "policy.toml").unlink(missing_ok=True)


def numbered(policy: Policy, earlier: list[Policy]) -> Policy:
    """Return a policy with its version: that of an equal one, else one more than any of its name."""
    same = [old for old in earlier if old.title == policy.title]
    for old in same:
        if policy.with_(version=old.version) == old:
            return old
    highest = max((old.version for old in same), default=0)
    return policy.with_(version=max(policy.version, highest + 1))
