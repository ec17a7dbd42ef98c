"""A page as PDF, by WeasyPrint (an extra); nothing is fetched."""

from __future__ import annotations

import logging

from sfumato.errors import DataError, MissingExtra, missing_extra


def to_pdf(html: str) -> bytes:
    """Return a page as PDF, tagged for screen readers; a page that points outside itself is refused."""
    try:
        from weasyprint import HTML
        from weasyprint.urls import FatalURLFetchingError, URLFetcher
    except ImportError:
        raise missing_extra("weasyprint", "pdf", "a PDF report") from None
    except OSError:  # the package is there, but not what it stands on
        raise MissingExtra(
            "a PDF report needs the system library Pango, which WeasyPrint did not find. On Debian: "
            "apt install libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0; or write the report as .html and print it."
        ) from None

    logging.getLogger("weasyprint").setLevel(logging.ERROR)  # it remarks on styles that are for screens
    nothing = URLFetcher(allowed_protocols=(), fail_on_errors=True)
    try:
        return bytes(HTML(string=html, url_fetcher=nothing).write_pdf(pdf_variant="pdf/ua-1"))
    except FatalURLFetchingError:
        raise DataError("the report points outside the page; a report must stand on its own.") from None
