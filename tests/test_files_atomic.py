"""Files and folders appear whole or not at all."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from sfumato.contract import Draws
from sfumato.datasets import five
from sfumato.errors import DataError
from sfumato.files import whole_file, whole_folder, write_text
from sfumato.masks import IndependentNoise

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
    monkeypatch.setattr("sfumato.files._exchange", lambda *_: False)  # a system that cannot exchange them in one step

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


# Processes that are killed, and full disks


def run_python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own; it may kill itself with `die()`."""
    head = "import os, signal, sys\nfrom pathlib import Path\ndef die(*_): os.kill(os.getpid(), signal.SIGKILL)\n"
    command = [sys.executable, "-c", head + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def test_what_a_killed_process_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    code = """
from sfumato.files import whole_file, whole_folder
with whole_folder(sys.argv[1] + "/out") as folder, whole_file(sys.argv[1] + "/a.csv") as file:
    (folder / "x").write_text("secret")
    file.write_text("secret")
    print(oct(file.stat().st_mode & 0o777), flush=True)
    die()
"""
    ended = run_python(code, tmp_path)
    assert ended.returncode == -signal.SIGKILL
    assert ended.stdout.strip() == "0o600"  # while it is written, only its owner can read it
    assert len(everything(tmp_path)) == 3
    write_text(tmp_path / "a.csv", "new")
    with whole_folder(tmp_path / "out") as folder:
        fill(folder, "new")
    assert everything(tmp_path) == sorted(["a.csv", *FILLED])


def test_a_sweep_leaves_the_files_of_living_processes_alone(tmp_path: Path) -> None:
    with whole_file(tmp_path / "a.csv") as mine, whole_folder(tmp_path / "out") as folder:
        with whole_file(mine) as inner:  # takes the place of the temporary file, which stays locked
            inner.write_text("mine")
        code = """
from sfumato.files import sweep, write_text
sweep(Path(sys.argv[1]))
write_text(sys.argv[1] + "/a.csv", "theirs")
"""
        assert run_python(code, tmp_path).returncode == 0
        assert mine.read_text() == "mine"
        assert folder.is_dir()
    assert (tmp_path / "a.csv").read_text() == "mine"


def test_confidential_copies_of_a_killed_process_are_removed_when_the_next_one_makes_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = """
import duckdb
from sfumato.data import Microdata
data = Microdata(duckdb.sql("SELECT range AS salary FROM range(100)"))
masked = data.transform(lambda batch: batch, data.schema)
for path in Path(os.environ["TMPDIR"]).rglob("*"):
    print(path.stat().st_mode & 0o077)
"""
    count = "print(len(list(Path(os.environ['TMPDIR']).rglob('*.parquet'))), flush=True)\ndie()"
    assert run_python(code + count).stdout.split() == ["0", "0", "0", "1"]
    (home,) = tmp_path.iterdir()
    from sfumato.files import private

    with private() as folder:
        assert not home.exists()
        assert run_python(code).returncode == 0  # which ends well, and leaves what is ours
        assert folder.is_dir()
        assert rights(folder) == rights(folder.parent) == 0o700
    assert everything(tmp_path) == []


def test_a_folder_that_was_moved_aside_when_the_process_was_killed_comes_back(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    fill(tmp_path / "out", "old")
    code = """
import sfumato.files as files
files._exchange = lambda *_: False
real = os.replace
os.replace = lambda a, b: die() if str(b).endswith("out") else real(a, b)
with files.whole_folder(sys.argv[1] + "/out", replace=True) as folder:
    (folder / "recipe.toml").write_text("new")
"""
    assert run_python(code, tmp_path).returncode == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    with pytest.raises(DataError, match="already holds files"), whole_folder(tmp_path / "out"):
        pass
    assert (tmp_path / "out" / "recipe.toml").read_text() == "old"


@pytest.mark.parametrize("step", range(6))
def test_a_release_never_stands_with_the_seed_of_another_whenever_the_process_is_killed(
    step: int, tmp_path: Path
) -> None:
    code = """
import sfumato.files as files
from sfumato import Draws\nfrom sfumato.masks import IndependentNoise
from sfumato.datasets import five
release = IndependentNoise(columns=("salary",), lambda2=0.2).apply(five(), draws := Draws(sys.argv[2]))
left = int(sys.argv[3])
def counted(real):
    def call(*arguments, **more):
        global left
        left -= 1
        return die() if left < 0 else real(*arguments, **more)
    return call
files._exchange = counted(files._exchange)
real = os.replace
end = sys.argv[1] + "/seed.toml"
os.replace = lambda a, b: counted(real)(a, b) if str(b) == end else real(a, b)
files.shutil.rmtree = counted(files.shutil.rmtree)
out, seed = Path(sys.argv[1]) / "out", Path(sys.argv[1]) / "seed.toml"
release.write(out, draws, seed, forms=["csv"], replace=True)
"""

    def write(name: str) -> None:
        release = IndependentNoise(columns=("salary",), lambda2=0.2).apply(five(), draws := Draws(name))
        release.write(tmp_path / "out", draws, tmp_path / "seed.toml", forms=["csv"], replace=True)

    write("old")
    ended = run_python(code, tmp_path, "new", step)
    assert ended.returncode in (-signal.SIGKILL, 0), ended.stderr
    seed = Draws.read(tmp_path / "seed.toml")
    says = tomllib.loads((tmp_path / "out" / "recipe.toml").read_text())["data_digest"]
    assert seed.digest(five().digest()) == says
    write("newer")
    assert everything(tmp_path) == ["out", "out/masked.csv", "out/recipe.toml", "out/schema.toml", "seed.toml"]
    assert "next" not in (tmp_path / "seed.toml").read_text()


@pytest.mark.parametrize("form", ["csv", "csv.gz", "parquet", "arrow", "dta", "sav", "zsav", "xpt", "xlsx"])
def test_a_file_that_outgrows_its_limit_is_told_so_and_leaves_nothing(form: str, tmp_path: Path) -> None:
    code = """
import resource
import numpy as np, pyarrow as pa
from sfumato.formats import FileContents, write_file
contents = FileContents(pa.table({"a": np.random.default_rng(1).normal(size=20_000)}))
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    write_file(contents, sys.argv[1] + "/masked." + sys.argv[2])
except Exception as error:
    print(type(error).__name__, error)
"""
    said = run_python(code, tmp_path, form)
    assert said.stdout.startswith("DataError"), said.stderr
    assert "larger than this disk" in said.stdout or "the disk is full" in said.stdout, said.stdout
    assert str(tmp_path) in said.stdout
    assert everything(tmp_path) == []


def test_a_full_disk_is_told_by_its_name() -> None:
    from sfumato.files import full_disk

    if not Path("/dev/full").is_char_device():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(OSError) as caught, Path("/dev/full").open("w") as file:
        file.write("x" * 100_000)
    assert str(full_disk(caught.value, "/dev")).startswith("the disk is full: there is no room left in /dev.")
    # never by its path: pyarrow removes a file that it could not write, and root would lose the device
    with pytest.raises(OSError) as arrow, Path("/dev/full").open("wb", buffering=0) as device:
        pyarrow.parquet.write_table(pa.table({"a": np.arange(100_000)}), device)
    assert "the disk is full" in str(full_disk(arrow.value, "/dev"))
    assert full_disk(FileNotFoundError(2, "no such file"), "/dev") is None
