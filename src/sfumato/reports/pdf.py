"""A page as PDF, by WeasyPrint (an extra); nothing is fetched."""

from __future__ import annotations

import logging
from types import ModuleType

from sfumato.errors import DataError, MissingExtra, missing_extra


def load_weasyprint() -> ModuleType:
    """Return WeasyPrint, or say in a sentence how to get it."""
    try:
        import weasyprint
        import weasyprint.urls
    except ImportError:
        raise missing_extra("weasyprint", "pdf", "a PDF report") from None
    except OSError:  # the package is there, but not what it stands on
        raise MissingExtra(
            "a PDF report needs the system library Pango, which WeasyPrint did not find. On Debian: "
            "apt install libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0; or write the report as .html and print it."
        ) from None
    made: ModuleType = weasyprint
    return made


def to_pdf(html: str) -> bytes:
    """Return a page as PDF, tagged for screen readers; a page that points outside itself is refused."""
    weasyprint = load_weasyprint()
    nothing = weasyprint.urls.URLFetcher(allowed_protocols=(), fail_on_errors=True)
    remarks = logging.getLogger("weasyprint")
    before = remarks.level
    remarks.setLevel(logging.ERROR)  # it remarks on styles that are for screens
    try:
        return bytes(weasyprint.HTML(string=html, url_fetcher=nothing).write_pdf(pdf_variant="pdf/ua-1"))
    except weasyprint.urls.FatalURLFetchingError:
        raise DataError("the report points outside the page; a report must stand on its own.") from None
    finally:
        remarks.setLevel(before)
