"""Published tables as files, written and read back: CSV, Excel, JSON-stat and SDMX-CSV."""

from sfumato.tables.exports.jsonstat import json_stat
from sfumato.tables.exports.plain import csv_text
from sfumato.tables.exports.reading import ReadBack, read_json_stat, read_sdmx_csv
from sfumato.tables.exports.sdmx import sdmx_csv
from sfumato.tables.exports.write import FORMS, form_of, write_table

__all__ = [
    "FORMS", "ReadBack", "csv_text", "form_of", "json_stat", "read_json_stat", "read_sdmx_csv", "sdmx_csv", "write_table",
]  # fmt: skip
