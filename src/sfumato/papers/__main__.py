"""Write the page of papers to standard output: `python -m sfumato.papers > docs/papers.md`."""

from __future__ import annotations

import sys

from sfumato.papers.paper_rows import to_markdown

# Bytes, so that the page is the same UTF-8 file under every console encoding and line ending.
sys.stdout.buffer.write(to_markdown().encode("utf-8"))
