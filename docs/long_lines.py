"""A hook of mkdocs: printed lines that are much longer than the page is wide are wrapped, so that they can be read."""

from __future__ import annotations

import html
import re
from typing import Any

LONGEST = 140
"""Characters. Printed tables are narrower, and lose their columns when they are wrapped."""

_PRINTED = re.compile(r'<div class="language-text highlight">(<pre>.*?</pre>)', re.S)
_TAG = re.compile(r"<[^>]+>")


def _marked(block: re.Match[str]) -> str:
    lines = html.unescape(_TAG.sub("", block.group(1))).splitlines()
    kind = " wrapped" if max(map(len, lines), default=0) > LONGEST else ""
    return f'<div class="language-text{kind} highlight">{block.group(1)}'


def on_page_content(content: str, **kwargs: Any) -> str:
    """Mark the printed blocks with a long line; the style sheet wraps them."""
    return _PRINTED.sub(_marked, content)
