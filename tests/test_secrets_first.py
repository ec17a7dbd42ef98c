"""A command that is killed at any step leaves no published file whose seed or record was not kept."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from commands import run
from test_argus_batch import BATCH, RDA, TAB

from sfumato import Draws
from sfumato.contract import Section
from sfumato.datasets import business, teachers
from sfumato.errors import DataError
from sfumato.files import publishing, whole_file
from sfumato.reports import Report
from sfumato.tables import Record

_STEPS = ("os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.chmod")


class Killed(BaseException):
    """What a kill is to the file system: nothing of the command is done any more, not even tidying up."""


class _Killer:
    """Counts the changes that Python makes below a folder, and lets none through from the n-th on."""

    def __init__(self) -> None:
        self.folder, self.at, self.seen, self.on = "", 0, 0, False

    def __call__(self, event: str, args: tuple[object, ...]) -> None:
        if not self.on or not (event in _STEPS or (event == "open" and self._writes(args))):
            return
        if any(isinstance(a, str | os.PathLike) and os.fspath(a).startswith(self.folder) for a in args):
            self.seen += 1
            if self.seen >= self.at:
                raise Killed

    @staticmethod
    def _writes(args: tuple[object, ...]) -> bool:
        return isinstance(args[2], int) and bool(args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


_KILLER = _Killer()
sys.addaudithook(_KILLER)


@contextmanager
def killed(folder: Path, at: int) -> Iterator[_Killer]:
    _KILLER.folder, _KILLER.at, _KILLER.seen, _KILLER.on = str(folder), at, 0, True
    try:
        yield _KILLER
    finally:
        _KILLER.on = False


def at_every_step(tmp_path: Path, work: Callable[[Path], None], check: Callable[[Path], None]) -> int:
    """Do the work in a new folder, killed at its first step, its second, and so on until it gets through."""
    for at in range(1, 200):
        folder = tmp_path / f"killed-at-{at}"
        folder.mkdir()
        with killed(folder, at) as killer:
            with suppress(Killed):
                work(folder)
            ended = killer.seen < at
        check(folder)
        if ended:
            return at - 1
    raise AssertionError("it never ended")


def seeds(folder: Path) -> list[Draws]:
    """Every seed that lies in a folder, also one that was set aside."""
    return [Draws.read(p) for p in folder.glob("seed.toml*") if p.stat().st_size]


@pytest.fixture(scope="module")
def firms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("firms")
    data = business(60, regions=3, sectors=2, hierarchies=False)
    data.write(folder / "firms.csv")
    data.schema.write(folder / "firms.toml")
    return folder


def table(firms: Path, folder: Path, *more: object) -> None:
    done = run(
        "table", firms / "firms.csv", "--schema", firms / "firms.toml", "--formula", "region", "--out", folder / "t.csv",
        "--seed-file", folder / "seed.toml", *more,
    )  # fmt: skip
    if isinstance(done.exception, Killed):
        raise done.exception
    assert done.exit_code == 0, done.stderr


ADJUSTED = ("--variable", "turnover", "--method", "rta", "--set", "base_cv=0.2")
ROUNDED = ("--method", "random_rounding", "--set", "base=5")


def test_a_table_never_exists_without_its_seed_and_its_record(firms: Path, tmp_path: Path) -> None:
    def check(folder: Path) -> None:
        if (folder / "t.csv").exists():
            assert len(seeds(folder)) == 1
            Record.read(folder / "record.json")

    steps = at_every_step(
        tmp_path, lambda folder: table(firms, folder, *ADJUSTED, "--record-file", folder / "record.json"), check
    )
    assert steps > 5


def test_a_table_that_takes_the_place_of_another_never_loses_the_seed_of_the_one_that_is_there(
    firms: Path, tmp_path: Path
) -> None:
    table(firms, tmp_path, *ROUNDED)
    old, seed = (tmp_path / "t.csv").read_bytes(), (tmp_path / "seed.toml").read_bytes()

    def work(folder: Path) -> None:
        table(firms, folder, *ROUNDED, "--replace")

    def check(folder: Path) -> None:
        kept = [p.read_bytes() for p in folder.glob("seed.toml*")]
        assert (folder / "t.csv").read_bytes() != old or seed in kept

    def with_the_old(folder: Path) -> None:
        _KILLER.on = False
        (folder / "t.csv").write_bytes(old)
        (folder / "seed.toml").write_bytes(seed)
        _KILLER.on = True
        work(folder)

    at_every_step(tmp_path, with_the_old, check)


def test_a_release_never_exists_without_its_seed_nor_loses_the_one_that_it_replaces(tmp_path: Path) -> None:
    survey = tmp_path / "survey.csv"
    teachers(30, seed=5).write(survey)

    def mask(folder: Path, *more: object) -> None:
        done = run(
            "mask", survey, "--out", folder / "out", "--mask", "kim_noise", "--set", "columns=salary", "--form", "csv",
            "--seed-file", folder / "seed.toml", *more,
        )  # fmt: skip
        if isinstance(done.exception, Killed):
            raise done.exception
        assert done.exit_code == 0, done.stderr

    mask(tmp_path)
    old = (tmp_path / "out" / "masked.csv").read_bytes()
    seed = (tmp_path / "seed.toml").read_bytes()

    def work(folder: Path) -> None:
        _KILLER.on = False
        (folder / "out").mkdir()
        (folder / "out" / "masked.csv").write_bytes(old)
        (folder / "seed.toml").write_bytes(seed)
        _KILLER.on = True
        mask(folder, "--replace")

    def check(folder: Path) -> None:
        kept = [p.read_bytes() for p in folder.glob("seed.toml*")]
        for there in folder.rglob("masked.csv"):
            if there.read_bytes() == old:
                assert seed in kept
            elif there.parent.name == "out":
                assert any(s and s != seed for s in kept)

    at_every_step(tmp_path, work, check)


def test_a_batch_never_publishes_a_table_without_its_seed(tmp_path: Path) -> None:
    text = BATCH.replace("OPT(1,1)", "RND(1,5)").replace("C:\\out\\safe.txt", "safe.csv")

    def batch(folder: Path) -> None:
        _KILLER.on = False
        (folder / "t.rda").write_text(RDA)
        (folder / "t.tab").write_text(TAB.format("U"))
        (folder / "t.arb").write_text(text)
        _KILLER.on = True
        done = run("table", folder / "t.arb", "--seed-file", folder / "seed.toml")
        if isinstance(done.exception, Killed):
            raise done.exception
        assert done.exit_code == 0, done.stderr

    def check(folder: Path) -> None:
        assert not (folder / "safe.csv").exists() or len(seeds(folder)) == 1

    at_every_step(tmp_path, batch, check)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_that_ends_at_any_step_has_kept_what_it_published(tmp_path: Path) -> None:
    names = ("replace", "link", "unlink", "open", "fsync", "chmod")
    for at in range(1, 100):
        folder = tmp_path / str(at)
        folder.mkdir()
        (folder / "seed.toml").write_text("old")
        (folder / "table.csv").write_text("old")
        child = os.fork()
        if not child:
            _end_at(at, names)
            with publishing(whole_file(folder / "table.csv"), secrets={folder / "seed.toml": "new"}) as (temporary,):
                temporary.write_text("new")
            os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        kept = {p.read_text() for p in folder.glob("seed.toml*")}
        assert (folder / "table.csv").read_text() in kept
        if ended == 0:
            assert sorted(p.name for p in folder.iterdir()) == ["seed.toml", "table.csv"]
            assert kept == {"new"}
            assert at > 8
            return
    raise AssertionError("it never ended")


def _end_at(at: int, names: tuple[str, ...]) -> None:
    """Let the process end, as by a kill, at the n-th of its calls."""
    seen = 0

    def ending(real: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object, **options: object) -> object:
            nonlocal seen
            seen += 1
            if seen >= at:
                os._exit(9)
            return real(*args, **options)

        return step

    for name in names:
        setattr(os, name, ending(getattr(os, name)))


def test_where_a_secret_cannot_be_kept_nothing_is_published_and_older_secrets_stay(tmp_path: Path) -> None:
    (tmp_path / "seed.toml").write_text("old")
    (tmp_path / "file").write_text("x")
    secrets = {tmp_path / "seed.toml": "new", tmp_path / "file" / "record.json": "new"}
    with pytest.raises(DataError, match="cannot be written"):  # noqa: SIM117
        with publishing(whole_file(tmp_path / "table.csv"), secrets=secrets) as (temporary,):
            temporary.write_text("new")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "seed.toml"]
    assert (tmp_path / "seed.toml").read_text() == "old"


def test_a_seed_never_takes_the_place_of_a_file_of_the_command(firms: Path, tmp_path: Path) -> None:
    before = (firms / "firms.csv").read_bytes()
    done = run(
        "table", firms / "firms.csv", "--schema", firms / "firms.toml", "--formula", "region", "--out", tmp_path / "t.csv",
        *ROUNDED, "--seed-file", firms / "firms.csv", "--replace",
    )  # fmt: skip
    assert done.exit_code == 1
    assert "names a file that the command reads or writes" in done.stderr
    assert (firms / "firms.csv").read_bytes() == before


def test_a_report_never_stands_without_the_data_that_were_asked_for(tmp_path: Path) -> None:
    def check(folder: Path) -> None:
        assert (folder / "r.json").exists() or not (folder / "r.html").exists()
        for file in folder.glob("r.*"):
            assert file.stat().st_mode & 0o777 == 0o600

    report = Report("T", [Section("One", ("A sentence.",))], version="confidential")
    assert at_every_step(tmp_path, lambda folder: report.write(folder / "r.html", json=True), check) > 3
