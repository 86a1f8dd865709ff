"""Layout documents: sections, budget and options in a TOML, YAML or JSON file.

The published schemas: ``layout.schema.json`` for documents, ``result.schema.json`` for results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.exports import on_first_use

if TYPE_CHECKING:
    from tokenbox.documents.document import LayoutDocument, layout_schema, result_schema
    from tokenbox.documents.reading import FORMATS, parse_document, parse_text, read_document
    from tokenbox.documents.source import DocumentCode

__all__ = [
    "FORMATS",
    "DocumentCode",
    "LayoutDocument",
    "layout_schema",
    "parse_document",
    "parse_text",
    "read_document",
    "result_schema",
]

# Settings use the syntax of documents, and load no layouts.
if not TYPE_CHECKING:  # a type checker reads the imports above, and reports any other name
    __getattr__ = on_first_use(
        __name__,
        {
            "document": "LayoutDocument layout_schema result_schema",
            "reading": "FORMATS parse_document parse_text read_document",
            "source": "DocumentCode",
        },
    )
