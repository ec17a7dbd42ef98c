"""Records as Arrow tables that carry their hidden id as a column: how DuckDB and Spark store and send them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from sfumato.data.columns import Column, Kind, kind_of
from sfumato.data.engine import RowFunction, Rows
from sfumato.errors import DataError, ParameterError, join_names, repeated
from sfumato.files import whole_file
from sfumato.lazy import pa
from sfumato.schema.attribute import RECORD_ID


def to_rows(table: pa.Table) -> Rows:
    """Take the hidden ids of stored records out of the table."""
    ids = np.asarray(table.column(RECORD_ID).to_numpy(), np.int64)
    return Rows(ids, {n: Column(table.column(n)) for n in table.column_names if n != RECORD_ID})


def numbered(table: pa.Table, start: int) -> Rows:
    """Give the records of a table the ids start, start + 1, …"""
    ids = np.arange(start, start + table.num_rows, dtype=np.int64)
    return Rows(ids, {n: Column(table.column(n)) for n in table.column_names})


def sorted_by_id(table: pa.Table) -> pa.Table:
    """Put stored records in id order."""
    ids = np.asarray(table.column(RECORD_ID).to_numpy(), np.int64)
    return table if bool(np.all(ids[1:] >= ids[:-1])) else table.take(np.argsort(ids, kind="stable"))


def learn_schema(function: RowFunction, columns: pa.Schema) -> pa.Schema:
    """Try the function on zero records and return the schema of what it makes, without the ids.

    Categories are stored as text: each piece of the data would otherwise bring a dictionary of its own.
    """
    empty = columns.empty_table()
    made = function(numbered(empty, 0)).to_arrow().schema
    blank = {f.name for f in columns if pa.types.is_null(f.type)}
    if unclear := [f.name for f in made if pa.types.is_null(f.type) and f.name not in blank]:
        raise DataError(
            f"on zero records, the function did not say what kind of values it puts in {join_names(unclear)}. "
            "Give the new column a type, for example Column(pyarrow.array(values, pyarrow.string()))."
        )
    if twice := repeated(made.names, str.casefold):
        raise DataError(f"these column names differ only in capitals: {join_names(twice)}. Rename them to be distinct.")
    return pa.schema([pa.field(f.name, stored_type(f.type)) for f in made])


def stored_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the type in which a column is stored: text for categories and for all nulls, itself for the rest."""
    return pa.string() if pa.types.is_dictionary(arrow_type) or pa.types.is_null(arrow_type) else arrow_type


def with_ids(schema: pa.Schema) -> pa.Schema:
    """Return the schema of stored records with these columns."""
    return pa.schema([pa.field(RECORD_ID, pa.int64()), *schema])


def to_table(rows: Rows, schema: pa.Schema) -> pa.Table:
    """Return records in the stored form; `schema` is what `learn_schema` gave."""
    if list(rows.columns) != schema.names:
        raise DataError(
            "the function gave other columns for some records than for zero records: "
            f"{join_names(rows.columns)} instead of {join_names(schema.names)}."
        )
    arrays = [pa.array(np.asarray(rows.ids, np.int64))]
    for field in schema:
        column = rows.columns[field.name]
        if len(column) != len(rows):
            raise DataError(f"the function gave more or fewer values in column '{field.name}' than record ids.")
        try:
            arrays.append(column.arrow if column.arrow.type == field.type else column.arrow.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise DataError(
                f"in column '{field.name}' the function gave {kind_of(column.arrow.type)} ({column.arrow.type}) for "
                f"some records, and {kind_of(field.type)} ({field.type}) for zero records; a column holds one type."
            ) from None
    return pa.table(arrays, schema=with_ids(schema))


def pieces(batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
    """Cut a stream of batches into tables of exactly `rows` records (the last has fewer); at least one table.

    Fixed cuts make sums over the pieces the same in every run, whatever batches the source made.
    """
    held: list[pa.RecordBatch] = []
    count, made = 0, False
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        while count >= rows:
            table = pa.Table.from_batches(held, schema)
            yield table.slice(0, rows)
            made = True
            held, count = table.slice(rows).to_batches(), count - rows
    if count or not made:
        yield pa.Table.from_batches(held, schema)


def write_pieces(tables: Iterable[pa.Table], schema: pa.Schema, path: str, form: str) -> None:
    """Write tables one after another into one "csv", "parquet" or "arrow" file, which appears only when it is whole."""
    import pyarrow.parquet

    from sfumato.formats.contents import plain, refuse_kinds
    from sfumato.formats.csv_files import header_line, record_lines

    if form not in ("csv", "parquet", "arrow"):
        raise ParameterError(f"'{form}' is not a form this engine writes; it writes csv, parquet and arrow.")
    if form == "csv":
        refuse_kinds(plain(schema.empty_table()), "CSV")
    if form == "arrow":  # such a file has one dictionary for all pieces, and the later ones are not known yet
        tables, schema = (plain(table) for table in tables), plain(schema.empty_table()).schema
    try:
        with whole_file(path) as unfinished:
            if form == "csv":
                with unfinished.open("wb") as file:
                    file.write(header_line(schema.names))
                    for table in tables:
                        file.writelines(record_lines(plain(table)))
                return
            if form == "parquet":
                writer = pyarrow.parquet.ParquetWriter(str(unfinished), schema)
            else:
                writer = pa.ipc.new_file(str(unfinished), schema, options=pa.ipc.IpcWriteOptions(compression="zstd"))
            with writer:
                for table in tables:
                    writer.write_table(table)
    except pa.ArrowNotImplementedError:
        odd = [f.name for f in schema if kind_of(f.type) is Kind.OTHER]
        raise DataError(
            f"some columns hold values that have no form in a {form} file. "
            f"Drop them or turn them into text first; look at: {join_names(odd)}."
        ) from None
