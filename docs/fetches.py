"""A hook of mkdocs: the build fails if a page would fetch anything from a network."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

_OUTSIDE = re.compile(r"\s*(https?:)?//")
_STYLE = re.compile(r"(?:@import\s+|url\(\s*)[\"']?((?:https?:)?//[^\"')\s]+)")
_LOADS = ("src", "srcset", "href", "xlink:href", "data", "poster")
_POINTERS = ("canonical", "prev", "next", "edit")  # links in the head that a browser does not follow


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag != "a" and (tag != "link" or given.get("rel") not in _POINTERS):
            self.found += [given[name] for name in _LOADS if _OUTSIDE.match(given.get(name, ""))]


def fetched(text: str, suffix: str) -> list[str]:
    """Return the outside addresses that a page, a style sheet or a picture loads."""
    if suffix == ".css":
        return _STYLE.findall(text)
    page = _Page()
    page.feed(text)
    return page.found + _STYLE.findall(text)


def check(site: Path) -> list[str]:
    """Return what is wrong with a built site, one line for each file."""
    files = sorted(f for f in site.rglob("*") if f.suffix in (".html", ".css", ".svg"))
    return [
        f"{file.relative_to(site)} loads {', '.join(sorted(set(found)))}"
        for file in files
        if (found := fetched(file.read_text("utf-8"), file.suffix))
    ]


def on_post_build(config: Any, **kwargs: Any) -> None:
    """Look at every file of the site when it is built."""
    from mkdocs.exceptions import PluginError

    if wrong := check(Path(config.site_dir)):
        raise PluginError("the site must work without a network:\n" + "\n".join(wrong))
