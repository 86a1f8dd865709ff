"""Read a :class:`LayoutDocument` from a file, text or data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenbox.compose.constraints import check_policy, checked_groups
from tokenbox.content.group import GROUP_FIELDS, Group
from tokenbox.content.lenses import parse_pipeline
from tokenbox.content.section import Section, Text
from tokenbox.documents import values
from tokenbox.documents.document import LayoutDocument
from tokenbox.documents.files import FileProblemError, NamedFiles, decode, read_bytes
from tokenbox.documents.source import DocumentCode, DocumentSource, KeyPath, PlacedValue, located
from tokenbox.documents.syntax_json import parse_json
from tokenbox.documents.syntax_toml import parse_toml
from tokenbox.documents.syntax_yaml import parse_yaml
from tokenbox.engine.result import Policy
from tokenbox.errors import DocumentError, InvalidSection, InvalidText, LensError, shown
from tokenbox.files import listing_of
from tokenbox.tokenizers.registry import FILE_PREFIX

if TYPE_CHECKING:
    from tokenbox.content.lenses import Pipeline

MEBIBYTE = 1024 * 1024
# The parser of each suffix, and its size limit in bytes: larger for JSON, which programs write and whose
# parser is fast.
FORMATS: dict[str, tuple[Callable[[str, str | None, int], DocumentSource], int]] = {
    ".toml": (parse_toml, 16 * MEBIBYTE),
    ".yaml": (parse_yaml, 16 * MEBIBYTE),
    ".yml": (parse_yaml, 16 * MEBIBYTE),
    ".json": (parse_json, 256 * MEBIBYTE),
}

# The readers of the document's own options.
_OPTIONS: dict[str, Callable[[PlacedValue], object]] = {
    "budget": values.budget,
    "tokenizer": values.name,
    "separator": values.text,
    "policy": values.policy,
    "reclaim": values.boolean,
}
# The fields that :class:`Section` reads as they are, and those that are whole numbers.
_FIELDS = ("priority", "min", "grow", "shrink", "role", "keep", "max", "group", "cut", "marker")
_WHOLE = ("priority", "min", "max")
_TOP_KEYS = ("$schema", *_OPTIONS, "groups", "defaults", "sections")
_DEFAULT_KEYS = (*_FIELDS, "strategy", "forms")
_SECTION_KEYS = ("id", "content", "content_file", "extra", "extra_files", "with", *_DEFAULT_KEYS)


def read_document(path: str | Path, *, allow_outside: bool = False) -> LayoutDocument:
    """Read the layout document in the file ``path``: TOML, YAML or JSON, by its suffix.

    Files that it names are relative to its folder; files outside of it are refused unless ``allow_outside``.
    Raises :class:`DocumentError`, whose ``code`` is one of :class:`DocumentCode`.
    """
    path = Path(path)
    name = str(path)
    if path.suffix.lower() not in FORMATS and not path.is_dir():
        raise _unknown_format(path.suffix, name)
    _, most = FORMATS.get(path.suffix.lower(), (None, 0))
    try:
        bound = "are what a document of this format may have"
        data = read_bytes(path, "the document", most, bound, listing_of(path))
        text = decode(data, "the document")
    except FileProblemError as problem:
        raise located(problem.code, problem.message, name, None, (), **problem.details) from None
    # Some editors write a byte order mark, which is not part of the content.
    text = text.removeprefix("\ufeff")
    return parse_text(text, path.suffix, base=path.parent, name=name, allow_outside=allow_outside)


def parse_text(
    text: str,
    suffix: str,
    *,
    base: str | Path,
    name: str | None = None,
    allow_outside: bool = False,
    first_line: int = 1,
) -> LayoutDocument:
    """Parse the layout document in ``text``, in the format of ``suffix`` (one of FORMATS).

    ``base``: the folder of the files it names. ``name`` and ``first_line``: the file and line at which the
    text begins, for errors (as in a JSONL stream). Raises :class:`DocumentError`.
    """
    if suffix.lower() not in FORMATS:
        raise _unknown_format(suffix, name)
    if not text.strip():
        message = "the document is empty. It needs at least `sections`."
        raise located(DocumentCode.SYNTAX, message, name, first_line)
    parse, _ = FORMATS[suffix.lower()]
    return _document(parse(text, name, first_line), NamedFiles(Path(base), allow_outside=allow_outside))


def parse_document(
    data: object, *, base: str | Path, name: str | None = None, allow_outside: bool = False
) -> LayoutDocument:
    """Return the layout document in parsed ``data``. Errors have no line.

    Parameters and errors as for :func:`parse_text`.
    """
    return _document(DocumentSource(data, name), NamedFiles(Path(base), allow_outside=allow_outside))


def _unknown_format(suffix: str, name: str | None) -> DocumentError:
    found = f", not {shown(suffix)}" if suffix else ""
    message = f"a layout document has one of the suffixes {', '.join(FORMATS)}{found}."
    return located(DocumentCode.UNKNOWN_FORMAT, message, name, known=list(FORMATS))


def _document(source: DocumentSource, files: NamedFiles) -> LayoutDocument:
    document = PlacedValue(source, (), source.data)
    top = values.table(document, _TOP_KEYS)
    if "$schema" in top:
        values.text(top["$schema"])
    options: dict[str, Any] = {key: read(top[key]) for key, read in _OPTIONS.items() if key in top}
    if "sections" not in top:
        message = (
            "the document has no `sections`: a list, each with an `id` and a `content` or `content_file`."
        )
        raise document.at("sections").error(DocumentCode.MISSING_KEY, message)
    if "tokenizer" in options:
        options["tokenizer"] = _vocabulary(top["tokenizer"], files, options["tokenizer"])
    sections = _Sections(files).read(top)
    groups = _groups(top["groups"]) if "groups" in top else ()
    read = LayoutDocument(sections, groups=groups, name=source.name, **options)
    _check_names(source, read)
    return read


def _groups(given: PlacedValue) -> tuple[Group, ...]:
    groups = []
    for name, bounds in values.table(given).items():
        try:
            groups.append(Group.of(name, _plain(values.table(bounds, GROUP_FIELDS))))
        except InvalidSection as error:
            raise _placed(bounds, f"group {name!r}", error) from None
    return tuple(groups)


def _plain(table: Mapping[str, PlacedValue]) -> dict[str, Any]:
    """Return the values of a table for a section or a group, which check them."""
    return {
        key: values.as_whole(given.value) if key in _WHOLE else given.value for key, given in table.items()
    }


def _placed(given: PlacedValue, subject: str, error: InvalidSection | InvalidText) -> DocumentError:
    """Return the error of a section or a group as one of the document, at the key that it is about."""
    field = error.details.get("field")
    place = given if field is None else given.at(str(field))
    message = error.message.removeprefix(f"{subject}: ").removeprefix(f"{field}: ")
    return place.error(DocumentCode.BAD_VALUE, message)


def _check_names(source: DocumentSource, document: LayoutDocument) -> None:
    """Validate the references between sections and groups, independent of the policy."""
    try:
        check_policy(document.sections, checked_groups(document.grouped), Policy.DEGRADE)
    except InvalidSection as error:
        field = str(error.details.get("field"))
        place = next((i for i, s in enumerate(document.sections) if s.id == error.details.get("id")), None)
        path: KeyPath = ("groups",) if place is None else ("sections", place, field)
        raise PlacedValue(source, path, None).error(DocumentCode.UNKNOWN_NAME, error.message) from None


def _vocabulary(given: PlacedValue, files: NamedFiles, tokenizer: str) -> str:
    """Return the tokenizer; a vocabulary file is relative to the document's folder, like all its files."""
    if not tokenizer.startswith(FILE_PREFIX):
        return tokenizer
    try:
        return FILE_PREFIX + files.place(tokenizer.removeprefix(FILE_PREFIX))
    except FileProblemError as problem:
        raise given.error(problem.code, problem.message, **problem.details) from None


@dataclass(slots=True)
class _Sections:
    """Reads the sections of one document."""

    files: NamedFiles

    def read(self, top: Mapping[str, PlacedValue]) -> tuple[Section, ...]:
        defaults = self._defaults(top["defaults"]) if "defaults" in top else {}
        sections: list[Section] = []
        positions: dict[str, int] = {}
        for position, item in enumerate(values.array(top["sections"])):
            section = self._section(item, defaults)
            if section.id in positions:
                self._refuse_repeated(item, section.id, positions[section.id], position)
            positions[section.id] = position
            sections.append(section)
        return tuple(sections)

    def _defaults(self, given: PlacedValue) -> dict[str, object]:
        fields = self._fields(given, values.table(given, _DEFAULT_KEYS))
        section = self._made(given, {"id": "defaults", "content": "", **fields})
        return {name: getattr(section, name) for name in fields}

    def _section(self, given: PlacedValue, defaults: Mapping[str, object]) -> Section:
        table = values.table(given, _SECTION_KEYS)
        if "id" not in table:
            raise given.error(DocumentCode.MISSING_KEY, "a section needs an `id`.", key="id")
        fields = {
            **defaults,
            "id": values.name(table["id"]),
            "content": self._content(given, table),
            "extra": self._extra(given, table),
        }
        if "with" in table:
            fields["with_"] = table["with"].value
        if "strategy" in table or "forms" in table:  # they exclude each other
            fields.pop("forms" if "strategy" in table else "strategy", None)
        return self._made(given, fields | self._fields(given, table))

    def _made(self, given: PlacedValue, fields: Mapping[str, Any]) -> Section:
        try:
            return Section(**fields)
        except (InvalidSection, InvalidText) as error:
            raise _placed(given, f"section {fields['id']!r}", error) from None

    def _fields(self, given: PlacedValue, table: Mapping[str, PlacedValue]) -> dict[str, object]:
        """Return the fields that a section and the defaults have in common."""
        if "strategy" in table and "forms" in table:
            self._refuse_both("strategy", "forms", given)
        fields = _plain({key: value for key, value in table.items() if key in _FIELDS})
        if "strategy" in table:
            stated = table["strategy"]
            fields["strategy"] = None if stated.value is None else self._pipeline(stated)
        if "forms" in table:
            fields["forms"] = tuple(map(self._form, values.array(table["forms"])))
        return fields

    def _form(self, given: PlacedValue) -> Pipeline | Text:
        if not isinstance(given.value, Mapping):
            return self._pipeline(given)
        table = values.table(given, ("text", "text_file"))
        if len(table) != 1:
            message = "a form is a pipeline of lenses, or has a `text` or a `text_file`."
            raise given.error(DocumentCode.CONFLICT, message)
        return Text(values.text(table["text"]) if "text" in table else self._file(table["text_file"]))

    def _pipeline(self, given: PlacedValue) -> Pipeline:
        try:
            return parse_pipeline(values.text(given))
        except LensError as error:
            raise given.error(DocumentCode.BAD_STRATEGY, error.message, lens=error.to_dict()) from None

    def _content(self, given: PlacedValue, table: Mapping[str, PlacedValue]) -> object:
        if "content" in table and "content_file" in table:
            self._refuse_both("content", "content_file", given)
        if "content" in table:
            content = table["content"].value
            is_items = isinstance(content, Mapping | list | tuple)
            return content if is_items else values.text(table["content"])
        if "content_file" in table:
            return self._file(table["content_file"])
        message = f"section {shown(str(table['id'].value))} needs a `content` or a `content_file`."
        raise given.error(DocumentCode.MISSING_KEY, message, key="content")

    def _extra(self, given: PlacedValue, table: Mapping[str, PlacedValue]) -> tuple[str, ...]:
        if "extra" in table and "extra_files" in table:
            self._refuse_both("extra", "extra_files", given)
        for key, read in (("extra", values.text), ("extra_files", self._file)):
            if key in table:
                return tuple(map(read, values.array(table[key])))
        return ()

    def _file(self, given: PlacedValue) -> str:
        name = values.name(given)
        try:
            return self.files.text(name)
        except FileProblemError as problem:
            raise given.error(problem.code, problem.message, name=name, **problem.details) from None

    def _refuse_both(self, one: str, other: str, given: PlacedValue) -> None:
        message = f"a section has `{one}` or `{other}`, not both. Remove one."
        raise given.at(other).error(DocumentCode.CONFLICT, message, keys=[one, other])

    def _refuse_repeated(self, given: PlacedValue, name: str, first: int, second: int) -> None:
        line = given.source.line(("sections", first, "id"))
        place = f"sections[{first}]" + (f" (line {line})" if line is not None else "")
        message = f"{place} and sections[{second}] both have the id {shown(name)}. Ids are unique."
        raise given.at("id").error(
            DocumentCode.DUPLICATE_ID, message, id=name, first=first, second=second, first_line=line
        )
