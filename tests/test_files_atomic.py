"""Files and folders appear whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sfumato.errors import DataError
from sfumato.files import whole_file, whole_folder, write_text

ACCIDENTS = [ValueError("disk full"), KeyboardInterrupt(), SystemExit(1), DataError("no"), GeneratorExit()]


def everything(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    old = os.umask(mask)
    try:
        yield
    finally:
        os.umask(old)


# Files


def test_a_file_appears_when_the_block_ends_well(tmp_path: Path) -> None:
    target = tmp_path / "new folder" / "release.csv"
    with whole_file(target) as temporary:
        assert temporary.parent == target.parent
        assert temporary.suffix == ".csv"
        temporary.write_text("a\n1\n")
        assert not target.exists()
    assert target.read_text() == "a\n1\n"
    assert everything(tmp_path) == ["new folder", "new folder/release.csv"]


@pytest.mark.parametrize("accident", ACCIDENTS, ids=lambda a: type(a).__name__)
def test_an_accident_leaves_no_file(tmp_path: Path, accident: BaseException) -> None:
    def write() -> None:
        with whole_file(tmp_path / "release.csv") as temporary:
            temporary.write_text("half a rec")
            raise accident

    with pytest.raises(type(accident)):
        write()
    assert everything(tmp_path) == []


@pytest.mark.parametrize("accident", ACCIDENTS, ids=lambda a: type(a).__name__)
def test_an_accident_leaves_the_old_file_as_it_was(tmp_path: Path, accident: BaseException) -> None:
    target = tmp_path / "release.csv"
    target.write_text("old")

    def write() -> None:
        with whole_file(target) as temporary:
            temporary.write_text("new")
            raise accident

    with pytest.raises(type(accident)):
        write()
    assert everything(tmp_path) == ["release.csv"]
    assert target.read_text() == "old"


def test_an_old_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    target = tmp_path / "release.csv"
    target.write_text("old")
    with whole_file(target) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    target = tmp_path / "release.csv"
    with whole_file(target) as first, whole_file(target) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert target.read_text() == "first"  # the outer block ends last
    assert everything(tmp_path) == ["release.csv"]


@pytest.mark.parametrize(("mask", "expected"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o644)])
def test_a_file_gets_no_more_rights_than_the_users_umask_allows(tmp_path: Path, mask: int, expected: int) -> None:
    with umask(mask):
        write_text(tmp_path / "release.csv", "a\n")
    assert rights(tmp_path / "release.csv") == expected


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_a_confidential_file_is_for_its_owner_alone_from_the_start(tmp_path: Path, mask: int) -> None:
    with umask(mask):
        with whole_file(tmp_path / "seed.toml", 0o600) as temporary:
            assert rights(temporary) == 0o600
            temporary.write_text("secret")
        write_text(tmp_path / "other.toml", "secret", confidential=True)
    assert rights(tmp_path / "seed.toml") == rights(tmp_path / "other.toml") == 0o600


def test_a_writer_that_makes_its_own_file_does_not_widen_the_rights(tmp_path: Path) -> None:
    with umask(0o000), whole_file(tmp_path / "seed.toml", 0o600) as temporary:
        temporary.unlink()
        temporary.write_text("secret")  # made anew, with rights for everybody
    assert rights(tmp_path / "seed.toml") == 0o600


def test_a_folder_is_not_overwritten_by_a_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is a folder; give the name of a file to write\.$"), whole_file(tmp_path):
        raise AssertionError("the block must not run")


def test_a_place_that_cannot_be_written_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for target in (tmp_path / "file" / "below.csv", tmp_path / "file" / "deep" / "below.csv"):
        with pytest.raises(DataError, match=r"cannot be written: .*\.$"), whole_file(target):
            raise AssertionError("the block must not run")
    assert everything(tmp_path) == ["file"]


def test_text_is_written_in_utf_8(tmp_path: Path) -> None:
    write_text(tmp_path / "note.txt", "λ² × 0.15 – naïve")
    assert (tmp_path / "note.txt").read_bytes() == "λ² × 0.15 – naïve".encode()


# Folders


def fill(folder: Path, text: str) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "masked.csv").write_text(text)
    (folder / "recipe.toml").write_text(text)


FILLED = ["out", "out/inner", "out/inner/masked.csv", "out/recipe.toml"]


def test_a_folder_appears_when_the_block_ends_well(tmp_path: Path) -> None:
    with whole_folder(tmp_path / "out") as temporary:
        fill(temporary, "new")
        assert not (tmp_path / "out").exists()
    assert everything(tmp_path) == FILLED


@pytest.mark.parametrize("accident", ACCIDENTS, ids=lambda a: type(a).__name__)
def test_an_accident_leaves_no_folder(tmp_path: Path, accident: BaseException) -> None:
    def write() -> None:
        with whole_folder(tmp_path / "out") as temporary:
            fill(temporary, "half")
            raise accident

    with pytest.raises(type(accident)):
        write()
    assert everything(tmp_path) == []


@pytest.mark.parametrize("accident", ACCIDENTS, ids=lambda a: type(a).__name__)
def test_an_accident_leaves_the_old_folder_as_it_was(tmp_path: Path, accident: BaseException) -> None:
    (tmp_path / "out").mkdir()
    fill(tmp_path / "out", "old")

    def write() -> None:
        with whole_folder(tmp_path / "out", replace=True) as temporary:
            fill(temporary, "new")
            raise accident

    with pytest.raises(type(accident)):
        write()
    assert everything(tmp_path) == FILLED
    assert (tmp_path / "out" / "recipe.toml").read_text() == "old"


def test_an_accident_in_the_middle_of_the_exchange_brings_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    fill(tmp_path / "out", "old")
    real, calls = os.replace, []

    def interrupted(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) == 2:  # the old one is aside, the new one not yet in place
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(os, "replace", interrupted)

    def write() -> None:
        with whole_folder(tmp_path / "out", replace=True) as temporary:
            fill(temporary, "new")

    with pytest.raises(KeyboardInterrupt):
        write()
    assert everything(tmp_path) == FILLED
    assert (tmp_path / "out" / "recipe.toml").read_text() == "old"


def test_a_folder_with_files_is_replaced_only_when_asked(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "left over.txt").write_text("old")
    with pytest.raises(DataError, match="already holds files"), whole_folder(tmp_path / "out"):
        raise AssertionError("the block must not run")
    with whole_folder(tmp_path / "out", replace=True) as temporary:
        fill(temporary, "new")
    assert everything(tmp_path) == FILLED


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with whole_folder(tmp_path / "out") as temporary:
        fill(temporary, "new")
    assert everything(tmp_path) == FILLED


def test_a_file_is_not_overwritten_by_a_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x")
    with pytest.raises(DataError, match="is a file"), whole_folder(tmp_path / "out", replace=True):
        raise AssertionError("the block must not run")


@pytest.mark.parametrize(("mask", "expected"), [(0o022, 0o755), (0o077, 0o700)])
def test_a_folder_gets_no_more_rights_than_the_users_umask_allows(tmp_path: Path, mask: int, expected: int) -> None:
    with umask(mask), whole_folder(tmp_path / "out") as temporary:
        fill(temporary, "new")
    assert rights(tmp_path / "out") == expected
