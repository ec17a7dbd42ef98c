"""Randomness: seeded, keyed by what it is for, and independent of parameter values."""

from __future__ import annotations

import hashlib
import secrets
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sfumato import kernels
from sfumato.errors import ParameterError
from sfumato.files import write_text
from sfumato.toml import dump, parse
from sfumato.typing import Numbers, Whole


class Draws:
    """A source of random numbers.

    Row methods use `normals` and `uniforms`: a pure function of (seed, path, column, record id), the same on every
    engine, whatever the order or the batches of the records. Global methods use `generator`. Neither sees a
    parameter's value, so neighbouring points of a map share random numbers.

    A seed is a secret: whoever has it can subtract the noise. `Draws.secret()` takes 256 bits from the operating
    system; `Draws(2024)` is for tests and examples, since a small number can be guessed. One seed serves one release:
    two releases of the same records at different noise levels, made with the same seed, give the records away.

    Examples
    --------
    >>> Draws(7).child("noise").normals(np.array([0, 1, 5]), "salary").shape
    (3,)
    """

    __slots__ = ("_key", "_memory", "_path")

    def __init__(self, seed: int | str | bytes | np.integer[Any]) -> None:
        seed = int(seed) if isinstance(seed, np.integer) else seed
        if isinstance(seed, bool) or not isinstance(seed, int | str | bytes):
            raise ParameterError("a seed is a whole number, a text or bytes. For a secret one use Draws.secret().")
        raw = seed if isinstance(seed, bytes) else f"{type(seed).__name__}:{seed}".encode()
        self._key = hashlib.blake2b(raw, digest_size=32, person=b"sfumato.seed").digest()
        self._path: tuple[str, ...] = ()
        self._memory: dict[tuple[Any, ...], Any] | None = None

    @classmethod
    def secret(cls) -> Draws:
        """Return draws from a fresh 256-bit secret of the operating system."""
        return cls._from_key(secrets.token_bytes(32))

    @classmethod
    def _from_key(cls, key: bytes) -> Draws:
        draws = cls(0)
        draws._key = key
        return draws

    def __repr__(self) -> str:
        return f"Draws(seed not shown, path={'/'.join(self._path)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._key, self._path)

    # -- which stream

    def child(self, *names: str | int) -> Draws:
        """Return the draws of a named part: a step of a recipe, a replication."""
        child = Draws._from_key(self._key)
        child._path = (*self._path, *map(str, names))
        child._memory = self._memory
        return child

    def replicate(self, number: int) -> Draws:
        """Return the draws of one replication."""
        return self.child("replicate", number)

    def remembering(self) -> Draws:
        """Return draws that keep what they drew, for the many parameter values of one replication of a map."""
        copy = self.child()
        copy._memory = {}
        return copy

    def _stream(self, name: str) -> bytes:
        text = "\x1f".join((*self._path, name)).encode()
        return hashlib.blake2b(text, digest_size=32, key=self._key, person=b"sfumato.draws").digest()

    # -- numbers

    def generator(self, name: str = "") -> np.random.Generator:
        """Return a NumPy generator, for resampling and the like.

        It is Philox, which is fast but no cipher: noise that protects people comes from `normals` and `uniforms`.
        """
        return np.random.Generator(np.random.Philox(key=int.from_bytes(self._stream(name)[:16], "little")))

    def uniforms(self, ids: Whole, name: str) -> Numbers:
        """Return one number in (0, 1) per record id; shape as `ids`."""
        return kernels.keyed_numbers.uniforms(self._stream(name), np.asarray(ids, np.int64).view(np.uint64))

    def normals(self, ids: Whole, name: str) -> Numbers:
        """Return one standard normal number per record id; shape as `ids`."""
        return kernels.keyed_numbers.normals_from(self.uniforms(ids, name))

    def remember(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """Return what `make` drew the first time for this key (by identity of its parts), if these draws remember."""
        if self._memory is None:
            return make()
        place = (self._path, *map(id, key))
        if place not in self._memory:
            self._memory[place] = (key, make())  # the key is kept, so that no id is used again
        return self._memory[place][1]

    def digest(self, data: bytes) -> str:
        """Return a short keyed digest: without the seed nobody can recompute it, so it confirms nothing to others."""
        return hashlib.blake2b(data, digest_size=16, key=self._key, person=b"sfumato.digest").hexdigest()

    # -- the seed's own file

    def write(self, path: str | Path, purpose: str = "", data_digest: str = "") -> None:
        """Write the seed to a file of its own, readable by its owner only. Never publish it.

        `purpose` is the digest of the one release that the seed is for (`Release.purpose`), `data_digest` what that release's
        recipe.toml says of the data: it tells which release on the disk the seed belongs to.
        """
        write_text(path, self.seed_text(purpose, data_digest), confidential=True)

    def seed_text(self, purpose: str = "", data_digest: str = "") -> str:
        """Return what stands in the seed's file: a secret."""
        text = (
            "# CONFIDENTIAL. Whoever has this seed can subtract the noise from the release.\n"
            "# Keep it apart from what is published; it lets you make the same release again, and no other one:\n"
            "# two releases of the same records with one seed and two levels of noise give the values away.\n"
            f'version = 1\nseed = "{self._key.hex()}"\n'
        )
        return text + "".join(f'{k} = "{v}"\n' for k, v in (("purpose", purpose), ("data_digest", data_digest)) if v)

    def next_text(self, path: str | Path, folder: Path, purpose: str, data_digest: str) -> str:
        """Return what stands in a seed file while the release in a folder is being replaced: both seeds.

        Whenever the process is killed, the file then holds the seed of the release that stands in the folder; `read` finds out
        which one that is.
        """
        head = (
            "# CONFIDENTIAL. The release in `folder` is being replaced; the seed under [next] is that of the new one.\n"
        )
        known = {k: v for k, v in _current(path).items() if k in ("seed", "purpose", "data_digest")}
        new = {"folder": str(folder), "seed": self._key.hex(), "purpose": purpose, "data_digest": data_digest}
        return head + dump({"version": 1, **known}, "next", [new])

    @classmethod
    def check_purpose(cls, path: str | Path, purpose: str) -> None:
        """Refuse the seed in a file if it was used for another release: other records, or another recipe."""
        cls.read(path)
        recorded = _current(path).get("purpose", purpose)
        if recorded != purpose:
            raise ParameterError(
                f"the seed in {path} was used for another release, with other data or another recipe. Two releases with one "
                "seed and two levels of noise give the values away exactly. Draw a fresh seed for this one."
            )

    @classmethod
    def read(cls, path: str | Path) -> Draws:
        """Read a seed file written by `write`."""
        try:
            key = bytes.fromhex(_current(path)["seed"])
        except FileNotFoundError:
            raise ParameterError(f"there is no seed file at {path}.") from None
        except (OSError, tomllib.TOMLDecodeError, KeyError, ValueError, TypeError):
            raise ParameterError(f"{path} is not a seed file of sfumato.") from None
        if len(key) != 32:
            raise ParameterError(f"{path} is not a seed file of sfumato: the seed must have 64 hexadecimal digits.")
        return cls._from_key(key)


def _current(path: str | Path) -> dict[str, Any]:
    """Return what a seed file says of the release that stands on the disk.

    A file with two seeds was left by a process that was killed while it replaced a release. The folder is exchanged in one
    step, so the recipe in it says whose seed is needed.
    """
    table = parse(Path(path).read_text("utf-8"))
    if not (waiting := table.get("next")):
        return table
    new = waiting[0]
    try:
        stands = parse((Path(new["folder"]) / "recipe.toml").read_text("utf-8")).get("data_digest")
    except (OSError, ValueError):
        raise ParameterError(
            f"{path} holds the seeds of two releases, since replacing the one in {new['folder']} was interrupted, and "
            "neither is in that folder now. Put the release back, or make the new one again with --replace."
        ) from None
    return dict(new) if stands == new["data_digest"] else {k: v for k, v in table.items() if k != "next"}


def check_draws(draws: Draws) -> Draws:
    """Return the draws; refuse what is none, such as a plain number."""
    if not isinstance(draws, Draws):
        raise ParameterError("randomness must be given as Draws: Draws.secret() for a release, Draws(2024) for a test.")
    return draws


def _restore(key: bytes, path: tuple[str, ...]) -> Draws:
    return Draws._from_key(key).child(*path)
