"""``tokenbox schema``: the published JSON Schemas."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tokenbox.cli.outcome import Exit, reporting
from tokenbox.cli.streams import json_bytes, write_bytes


class Which(StrEnum):
    LAYOUT = "layout"
    RESULT = "result"
    BATCH = "batch"


def schema(
    which: Annotated[
        Which, typer.Argument(help="Of layout documents, or of the JSON of a result or of a batch.")
    ] = Which.LAYOUT,
) -> int:
    """Print the JSON Schema of documents or results.

    Example: tokenbox schema > layout.schema.json
    """
    with reporting():
        from tokenbox.batch.summary import summary_schema  # noqa: PLC0415
        from tokenbox.documents import layout_schema, result_schema  # noqa: PLC0415

        schemas = {Which.LAYOUT: layout_schema, Which.RESULT: result_schema, Which.BATCH: summary_schema}
        write_bytes(json_bytes(schemas[which]()))
    return Exit.OK
