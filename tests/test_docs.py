"""The documentation: its code runs and prints what it says, nothing is left undocumented, and nothing is fetched."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import sfumato
from sfumato.contract import registered

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))

import fetches  # noqa: E402
import make_figures  # noqa: E402
import outputs  # noqa: E402

PAGES = sorted(DOCS.rglob("*.md"))
TEXT = {page.relative_to(DOCS).as_posix(): page.read_text("utf-8") for page in PAGES}
ALL = "\n".join(TEXT.values())
RUN = [page for page in outputs.pages() if page.name != "README.md"]
PUBLIC = [
    f"sfumato.{name}"
    for name in (
        "schema", "data", "formats", "contract", "masks", "attacks", "risk", "utility", "maps", "tables", "mas", "room",
        "reports", "datasets", "papers", "testing",
    )
]  # fmt: skip


class _Loose(yaml.SafeLoader):
    """mkdocs.yml without its Python tags."""


_Loose.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: suffix)
CONFIG: dict[str, Any] = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), _Loose)


# -- the code on the pages


@pytest.mark.parametrize("page", RUN, ids=lambda p: p.relative_to(DOCS).as_posix())
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(page: Path) -> None:
    printed = outputs.run(page)
    for block, now in zip(outputs.blocks(page.read_text("utf-8")), printed, strict=True):
        if block.printed is not None:
            assert outputs.same(block.printed, now), (
                f"{page.name}, line {block.line}: the page is old. Run: python docs/outputs.py, and read the diff.\n{now}"
            )


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("sfumato risk a.csv \\\n    --keys x,y\n", [["sfumato", "risk", "a.csv", "--keys", "x,y"]]),
        ("""sfumato ask v --universe "a == 'b|c'"\npython -c "print(1)"\n""",
         [["sfumato", "ask", "v", "--universe", "a == 'b|c'"], ["python", "-c", "print(1)"]]),
        *[(code, None) for code in (
            "ls", "sfumato a | b", "sfumato a > b", "sfumato a || b", "sfumato *", "sfumato ~", 'sfumato "$X"', "python a.py",
        )],
    ],
)  # fmt: skip
def test_commands_are_left_to_a_shell_where_they_need_one(code: str, words: list[list[str]] | None) -> None:
    assert outputs.plain_commands(code) == words


def test_every_page_that_teaches_has_code_that_runs() -> None:
    taught = {p.name for p in (DOCS / "howto").glob("*.md")} - {"index.md"}
    assert taught <= {p.name for p in RUN}
    assert {"tutorial.md", "paper-figures.md"} <= {p.name for p in RUN}


def test_code_is_marked_as_python_or_bash_so_that_none_escapes() -> None:
    marks = set(re.findall(r"^```(\w+)", ALL, re.M))
    assert marks <= {"python", "bash", "text", "console", "toml"}
    for block in re.findall(r"^```console\n(.*?)^```", ALL, re.M | re.S):
        assert "sfumato " not in block  # commands of ours are bash, and are run


# -- the pages hang together


def _nav(entries: Any) -> Iterator[str]:
    for entry in entries:
        for target in entry.values() if isinstance(entry, dict) else [entry]:
            yield from _nav(target) if isinstance(target, list) else [target]


def test_the_nav_names_every_page_once() -> None:
    named = list(_nav(CONFIG["nav"]))
    assert sorted(named) == sorted(TEXT)


@pytest.mark.parametrize("name", TEXT)
def test_links_and_pictures_of_a_page_exist(name: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", _without_code(TEXT[name])):
        if re.match(r"[a-z]+://", target):
            continue
        path, _, anchor = target.partition("#")
        file = (DOCS / name).parent / path if path else DOCS / name
        assert file.exists(), f"{name} links to {target}"
        if anchor:
            assert anchor in _anchors(file.read_text("utf-8")), f"{name} links to {target}"


def _without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def _anchors(text: str) -> set[str]:
    from markdown.extensions.toc import slugify

    heads = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {slugify(head.replace("`", ""), "-") for head in heads}


def test_no_page_fetches_a_picture_or_a_script() -> None:
    for name, text in TEXT.items():
        assert not re.search(r"!\[[^\]]*\]\(https?:", text), name
        assert not re.search(r"<(script|link|img|iframe)\b", text), name


# -- nothing is left undocumented


@pytest.mark.parametrize("name", sfumato.__all__)
def test_every_name_of_the_front_door_is_in_the_reference(name: str) -> None:
    assert re.search(rf"^\| (\[`{name}`\]\[[\w.]+\]|`{name}`) \|", TEXT["reference/index.md"], re.M), name


def _documented() -> set[str]:
    reference = "\n".join(text for name, text in TEXT.items() if name.startswith("reference/"))
    return set(re.findall(r"^::: (\S+)", reference, re.M))


def test_every_entry_of_the_reference_is_a_name_that_exists() -> None:
    for path in _documented():
        module, _, name = path.rpartition(".")
        if path == "sfumato.datasets.teacher_survey.teachers_schema":  # the function teachers hides its module
            module, name = "sfumato.datasets.teacher_survey", "teachers_schema"
        assert hasattr(importlib.import_module(module), name), f"'::: {path}' names nothing"


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_of_a_module_has_its_entry(module: str) -> None:
    names = importlib.import_module(module).__all__
    shown = _documented()
    elsewhere = {path.rpartition(".")[2] for path in shown}
    absent = [n for n in names if f"{module}.{n}" not in shown and n not in elsewhere]
    assert not absent, f"{module}: add '::: {module}.NAME' to a page of docs/reference for {absent}"


NO_MEASURE = ("risk/index.md", "risk/calibration.md", "utility/index.md")
MEASURE_PAGES = {n: t for n, t in TEXT.items() if n.startswith(("risk/", "utility/")) and n not in NO_MEASURE}
MEASURE_SECTIONS = ("Example", "Definition", "Parameters", "When to use it", "Source")


@pytest.mark.parametrize("name", MEASURE_PAGES)
def test_the_page_of_a_measure_shows_it_defines_it_and_says_when_to_use_it(name: str) -> None:
    heads = re.findall(r"^## (.+)$", MEASURE_PAGES[name], re.M)
    assert [h for h in heads if h in MEASURE_SECTIONS] == list(MEASURE_SECTIONS)
    section = MEASURE_PAGES[name].partition("## Example\n")[2].partition("\n## ")[0]
    assert re.search(r"^```python\n.*?^```\n\n```text\n.+?^```", section, re.M | re.S), (
        f"{name}: the example shows nothing"
    )


MEASURES = [c for c in registered("measure").values() if c.__module__.startswith(("sfumato.risk.", "sfumato.utility."))]


@pytest.mark.parametrize("cls", MEASURES)
def test_every_measure_has_its_page_with_each_parameter_in_words(cls: type[Any]) -> None:
    pages = [
        n
        for n, t in {**MEASURE_PAGES, "measures.md": TEXT["measures.md"]}.items()
        if re.search(rf"\b{cls.__name__}\b", t)
    ]
    side = cls.__module__.split(".")[1]
    assert pages, f"no page of docs/{side} defines {cls.__name__}"
    if f"## {cls.__name__}\n" not in TEXT["measures.md"]:
        told = set(re.findall(r"`(\w+)", "\n".join(re.findall(r"^\| (`.+?) \|", "".join(map(TEXT.get, pages)), re.M))))  # type: ignore[arg-type]
        assert set(cls.parameters()) <= told, f"{pages} does not say what these mean: {set(cls.parameters()) - told}"
        index = TEXT[f"{side}/index.md"]
        assert any(f"({Path(n).name})" in index for n in pages), f"docs/{side}/index.md lacks {pages}"


@pytest.mark.parametrize("family", ["mask", "measure", "estimator", "attack"])
def test_every_registered_class_is_documented_with_its_parameters(family: str) -> None:
    shown = {path.rpartition(".")[2] for path in _documented()}
    classes = [c for c in registered(family).values() if c.__module__.startswith("sfumato.")]
    assert classes
    for cls in classes:
        assert cls.__name__ in shown, f"{family} {cls.__name__} has no entry in docs/reference"
        assert (cls.__doc__ or "").strip(), f"{family} {cls.__name__} has no docstring"
        for name, parameter in cls.parameters().items():
            assert parameter.doc, f"{cls.__name__}.{name} has no words"
    if family in ("measure", "estimator"):
        pages = TEXT["measures.md"] + "".join(MEASURE_PAGES.values())
        for cls in classes:
            assert re.search(rf"\b{cls.__name__}\b", pages), (
                f"neither docs/measures.md nor docs/risk or docs/utility defines {cls.__name__}"
            )


MASK_PAGES = {n: t for n, t in TEXT.items() if n.startswith("masks/") and n != "masks/index.md"}
SECTIONS = ("Five records", "Parameters", "When to use it", "On the R-U map", "Source")


@pytest.mark.parametrize("name", MASK_PAGES)
def test_the_page_of_a_method_shows_five_records_its_parameters_its_use_its_map_and_its_source(name: str) -> None:
    heads = re.findall(r"^## (.+)$", MASK_PAGES[name], re.M)
    assert [h for h in heads if h in SECTIONS] == list(SECTIONS)
    for head in ("Five records", "On the R-U map"):
        section = MASK_PAGES[name].partition(f"## {head}\n")[2].partition("\n## ")[0]
        assert re.search(r"^```python\n.*?^```\n\n```text\n.+?^```", section, re.M | re.S), (
            f"{name}: {head} shows nothing"
        )


@pytest.mark.parametrize("cls", [c for c in registered("mask").values() if c.__module__.startswith("sfumato.")])
def test_every_mask_has_its_page_with_each_parameter_in_words(cls: type[Any]) -> None:
    pages = [n for n, t in MASK_PAGES.items() if re.search(rf"\b{cls.__name__}\(", t)]
    assert pages, f"no page of docs/masks uses {cls.__name__}"
    said = set(re.findall(r"^\| (`.+?) \|", "\n".join(MASK_PAGES[n] for n in pages), re.M))
    told = {name for cell in said for name in re.findall(r"`(\w+)", cell)}
    assert set(cls.parameters()) <= told, f"{pages} does not say what these mean: {set(cls.parameters()) - told}"
    assert any(f"({Path(n).name})" in TEXT["masks/index.md"] for n in pages), f"docs/masks/index.md lacks {pages}"


def _commands() -> dict[str, Any]:
    import typer

    from sfumato.cli.command_line import app

    group: Any = typer.main.get_command(app)
    inner = {f"{n} {m}": c for n, g in group.commands.items() for m, c in getattr(g, "commands", {}).items()}
    return {"": group, **group.commands, **inner}


def test_every_command_and_option_is_on_the_page_of_the_command_line() -> None:
    page = TEXT["howto/command-line.md"]
    for name, command in _commands().items():
        start = page.find(f"### `sfumato {name}") if name else 0
        assert start >= 0, f"command '{name}' is not described"
        end = page.find("\n### ", start + 1) if name else len(page)
        section = page[start : end if end > 0 else len(page)]
        for parameter in command.params:
            for option in (o for o in parameter.opts if o.startswith("--")):
                assert f"`{option}" in section, f"{option} of 'sfumato {name}' is not described"


def test_exit_codes_are_described() -> None:
    from sfumato.cli.console import ERROR, FINE, INFEASIBLE, INTERRUPTED, USAGE

    for code in (FINE, ERROR, USAGE, INFEASIBLE, INTERRUPTED):
        assert re.search(rf"^\| {code} \|", TEXT["howto/command-line.md"], re.M)


# -- the pictures


@pytest.mark.parametrize("name", ["figure1", "figure2", "global-risk"])
def test_a_figure_of_the_paper_is_drawn_from_the_numbers_it_was_drawn_from_before(name: str) -> None:
    make, max_risk = make_figures.MAPS[name]
    m = make()
    now = make_figures.values(m)
    kept = json.loads((DOCS / "img" / "numbers.json").read_text("utf-8"))[name]
    assert now == pytest.approx(kept, rel=1e-5), "the picture is old. Run: python docs/make_figures.py"
    drawn = np.array(make_figures.numbers(make_figures.chart_of(m, max_risk)))
    absent = [v for v in now if not np.isclose(drawn, v, rtol=1e-5).any()]
    assert not absent, f"numbers of the map that the chart does not show: {absent[:5]}"


def test_figure_1_shows_the_unmasked_utilities_the_threshold_and_the_choice() -> None:
    make, max_risk = make_figures.MAPS["figure1"]
    drawn = np.array(make_figures.numbers(make_figures.chart_of(make(), max_risk)))
    unmasked = (1000 / 13.3**2, 1000 / (17.5**2 + 13.3**2 - 2 * 8.3**2))  # ERRATA 0.6
    for expected in (*unmasked, 1 / 25, 25 / 13.3**2):  # ERRATA 0.1
        assert np.isclose(drawn, expected, rtol=1e-6).any(), expected


def test_every_picture_has_its_numbers_and_fetches_nothing() -> None:
    kept = json.loads((DOCS / "img" / "numbers.json").read_text("utf-8"))
    for name in make_figures.MAPS:
        assert kept[name]
        svg = (DOCS / "img" / f"{name}.svg").read_text("utf-8")
        assert not re.search(r"""(href|src|url)\s*[=(]\s*["']?https?:""", svg)


# -- the site


def test_the_site_is_set_up_to_fetch_nothing() -> None:
    assert CONFIG["theme"]["font"] is False
    assert "analytics" not in CONFIG["extra"]
    names = {next(iter(p)) if isinstance(p, dict) else p for p in CONFIG["plugins"]}
    assert names == {"search", "offline", "mkdocstrings"}
    for address in (*CONFIG["extra"]["polyfills"], *CONFIG["extra_css"]):
        assert (DOCS / address).is_file()


def test_the_build_fails_if_a_page_would_fetch_something() -> None:
    assert "docs/fetches.py" in CONFIG["hooks"]
    page = """<link rel="canonical" href="https://example.org/"><a href="https://example.org/paper.pdf">a link is fine</a>
    <img src="img/ru-map.svg"><script src="js/iframe-worker.js"></script>"""
    assert fetches.fetched(page, ".html") == []
    for bad in (
        '<script src="https://example.org/iframe-worker/shim"></script>',
        '<link rel="stylesheet" href="//fonts.example.org/css">',
        '<img src="http://example.org/badge.svg">',
        "<style>@import 'https://example.org/a.css';</style>",
    ):
        assert len(fetches.fetched(page + bad, ".html")) == 1, bad
    assert fetches.fetched("@font-face { src: url(https://example.org/f.woff2) }", ".css")


def test_the_site_that_was_built_last_fetches_nothing() -> None:
    assert fetches.check(ROOT / "site") == []  # `make docs` builds it, and checks the same
