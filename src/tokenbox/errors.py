"""The errors that tokenbox raises.

Each has a stable ``code`` for programs, a message for people that says what was wrong and what to do next,
and ``details``: the figures behind the message, as plain data.

    TokenboxError                     tokenbox_error
    ├── TokenizerError                tokenizer_error
    │   ├── InvalidText               invalid_text             lone surrogates, so not Unicode text
    │   ├── UnknownTokenizer          unknown_tokenizer
    │   ├── DuplicateTokenizer        duplicate_tokenizer
    │   ├── NoTokenizer               no_tokenizer             no tokenizer is known for a model
    │   ├── InvalidTokenizer          invalid_tokenizer        a user's tokenizer fails its trial
    │   ├── VocabularyError           vocabulary_invalid       a vocabulary file is unusable
    │   └── UnsupportedOperation      unsupported_operation    an estimate has no tokens to decode
    ├── CodeNotAllowed                code_not_allowed         code named in a file is not allowed
    ├── MissingExtra                  missing_extra            an optional package is not installed
    ├── LensError                     lens_error
    │   ├── LensSyntaxError           lens_syntax
    │   ├── UnknownLens               unknown_lens
    │   └── DuplicateLens             duplicate_lens
    ├── LayoutError                   layout_error
    │   ├── InvalidSection            invalid_section
    │   ├── InvalidBudget             invalid_budget
    │   └── ContextCriticalOverflow   context_critical_overflow
    ├── RenderError                   render_error
    │   ├── EmptyInput                empty_input
    │   │   └── NothingFits           nothing_fits             not even the smallest form of anything
    │   └── InvalidContent            invalid_content
    ├── DocumentError                 document_invalid         or one of its narrower codes
    │
    │   defined in their own modules:
    ├── InvalidMessage                invalid_message          content.message: a server would reject it
    ├── UndeclaredCost                undeclared_cost          content.message: of an image or a file
    ├── UnknownHandle                 unknown_handle           conversation.record: of an omitted text
    ├── TemplateError                 chat_template_error      conversation.llama.syntax
    │   └── TemplateTooLarge          chat_template_too_large
    ├── InvalidOverride               invalid_override         policy.override
    ├── InvalidCachePlan              invalid_cache_plan       caching.plan
    ├── CatalogError                  catalog_invalid          catalog.published
    ├── InvalidDay                    invalid_day              catalog.prices
    ├── InvalidModelName              invalid_model_name       catalog.names
    ├── ConfigError                   config_invalid           config.errors
    ├── NotCanonical                  not_canonical            proof.canonical
    ├── ContentStoreError             content_store_error      store.content_store
    ├── LcpError ...                  lcp_error                lcp.errors draws its subclasses
    ├── PolicyError ...               policy_error             policy.errors
    ├── BatchError ..., RowError ...  batch_error, row_invalid  batch.errors
    ├── ProofError ...                proof_error              proof.errors, store.bundles
    ├── LedgerError ...               ledger_error             ledger.errors, ledger.cap, ledger.quota
    ├── StoreError ...                store_error              store.errors, store.quotas, store.keys
    ├── ProviderError ...             provider_error           providers.errors
    ├── ShellError ...                shell_error              shell.errors
    ├── FocusProblem, GitProblem, LevelProblem, ManifestProblem, NothingToPack, PackTooLarge, PathProblem,
    │   PriorityProblem, ProjectProblem, SettingProblem, SplitProblem    folder
    ├── ScorerProblem                 scorer_failed            worth.scorers
    ├── EndpointProblem, GatewayProblem, SpoolError               gateway
    ├── NothingToInspect, PageTooLarge                            inspect
    ├── InvalidArguments, NoRoots, OutsideRoots                   mcp
    ├── NotGuarded, OverWindow                                    integrations.fitting
    └── NoBudgets, OutputFailed, UnknownModel, UnreadableInput, UsageProblem    cli
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from enum import StrEnum
from typing import Any, ClassVar, TypeVar, cast

from tokenbox.__about__ import DISTRIBUTION


class TokenboxError(Exception):
    """The base class of all tokenbox errors. ``str(error)`` is a full sentence for a person."""

    code: ClassVar[str] = "tokenbox_error"

    def __init_subclass__(cls, *, code: str | None = None) -> None:
        super().__init_subclass__()
        if code is not None:
            cls.code = code

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.details: Mapping[str, object] = details

    def __reduce__(self) -> tuple[object, ...]:
        # Constructors take keyword arguments, which pickle does not pass. Pickle the finished error instead.
        return _unpickle, (type(self), self.args, self.__dict__)

    def to_dict(self) -> dict[str, object]:
        """Return ``{"code", "message", ...details}``, which a program gets instead of the result."""
        return {"code": self.code, "message": self.message, **self.details}


def _unpickle(kind: type[TokenboxError], args: tuple[object, ...], state: dict[str, object]) -> TokenboxError:
    """Rebuild an error without calling its constructor."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class TokenizerError(TokenboxError, code="tokenizer_error"):
    """A text could not be counted, encoded or decoded."""


class InvalidText(TokenizerError, code="invalid_text"):
    """The text contains lone surrogates, so it cannot be encoded as UTF-8 and sent to a model."""

    @classmethod
    def at(cls, text: str) -> InvalidText:
        """Return the error for ``text``, with the position of its first lone surrogate."""
        place = next((i for i, c in enumerate(text) if "\ud800" <= c <= "\udfff"), 0)
        return cls(
            f"the text is not valid Unicode: character {place} is the lone surrogate "
            f"U+{ord(text[place]):04X}. Decode the source with errors='replace', or remove it.",
            character=place,
        )


class UnknownTokenizer(TokenizerError, code="unknown_tokenizer"):
    """No tokenizer has that name."""


class DuplicateTokenizer(TokenizerError, code="duplicate_tokenizer"):
    """A tokenizer of that name is registered already."""


class NoTokenizer(TokenizerError, code="no_tokenizer"):
    """The tokenizer of a model is unknown. ``details["remedies"]`` are commands that set it."""


class InvalidTokenizer(TokenizerError, code="invalid_tokenizer"):
    """A user's tokenizer failed its trial: a wrong, changing or missing count."""


class VocabularyError(TokenizerError, code="vocabulary_invalid"):
    """A vocabulary cannot be read, is not what it claims to be, or fails its checksum."""


class UnsupportedOperation(TokenizerError, code="unsupported_operation"):
    """The tokenizer lacks this operation: an estimate has no tokens to decode."""


class CodeNotAllowed(TokenboxError, code="code_not_allowed"):
    """A file, a bundle or a call names code (``module:function``) that is not allowed to run here."""

    @classmethod
    def of(cls, name: str, already: Sequence[str] = ()) -> CodeNotAllowed:
        """Return the error for ``name``. Its commands keep what is allowed ``already``."""
        setting = "tokenbox config set --user code.allowed"
        kept = "".join(f"{entry}," for entry in already)
        command = f"{setting} {shlex.quote(kept + name)}"
        return cls(
            f"{name} is code, and the file that names it may come from somebody else. Read the code first. "
            "Then allow it for every file; or, if your project's settings name it, trust that folder."
            f"\nRun: {command}",
            name=name,
            remedies=[command, f"{setting} {shlex.quote(kept) if kept else ''}$PWD"],
        )


class MissingExtra(TokenboxError, code="missing_extra"):
    """An optional package is not installed. The message has the command that installs it."""

    @classmethod
    def of(cls, what: str, extra: str) -> MissingExtra:
        """Return the error for ``what``, which needs the packages of the extra ``extra``."""
        remedy = f"pip install '{DISTRIBUTION}[{extra}]'"
        return cls(f"{what} needs an optional package. Run: {remedy}", extra=extra, remedies=[remedy])


@contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Wrap the imports of ``what``. Raises :class:`MissingExtra` if a package of the extra is missing."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").startswith("tokenbox"):
            raise
        raise MissingExtra.of(what, extra) from None


class LensError(TokenboxError, code="lens_error"):
    """A lens (compression strategy) could not be built or applied."""


class LensSyntaxError(LensError, code="lens_syntax"):
    """A pipeline does not parse. ``details`` has ``position`` (characters from 0) and ``pipeline``."""


class UnknownLens(LensError, code="unknown_lens"):
    """No lens has that name. The message suggests the nearest."""


class DuplicateLens(LensError, code="duplicate_lens"):
    """A lens of that name is registered already."""

    @classmethod
    def of(cls, name: str, version: str) -> DuplicateLens:
        """Return the error for ``name``, which the lens of this version has."""
        return cls(f"there is a lens {name!r} already (version {version}). Choose another name.", lens=name)


class LayoutError(TokenboxError, code="layout_error"):
    """The input of a layout is invalid, or does not fit."""


class InvalidSection(LayoutError, code="invalid_section"):
    """A section has a field of the wrong type or range, or a duplicate id."""


class InvalidBudget(LayoutError, code="invalid_budget"):
    """The budget is not a non-negative integer number of tokens."""


class ContextCriticalOverflow(LayoutError, code="context_critical_overflow"):
    """The critical sections do not fit into the budget (Token Box Model, step 1).

    ``fixed_load``, ``budget`` and ``deficit`` are tokens. ``critical`` lists every critical section as
    ``(id, size)`` in declared order. ``smallest_change`` is the smallest single change that makes it fit.
    """

    def __init__(
        self,
        *,
        fixed_load: int,
        budget: int,
        critical: Sequence[tuple[str, int]],
        smallest_change: Mapping[str, object],
        estimate: bool,
        what: str = "sections",
    ) -> None:
        self.fixed_load = fixed_load
        self.budget = budget
        self.deficit = fixed_load - budget
        self.critical = tuple(critical)
        self.smallest_change = dict(smallest_change)
        about = "~" if estimate else ""
        largest = sorted(self.critical, key=lambda item: -item[1])[:3]
        names = ", ".join(f"{named(name)} {about}{size:,}" for name, size in largest)
        rest = len(self.critical) - len(largest)
        more = f" and {rest} more" if rest else ""
        super().__init__(
            f"the critical {what} need {about}{plural(fixed_load, 'token')}, the budget is {budget:,}: "
            f"{about}{self.deficit:,} too many ({names}{more}). "
            f"Smallest change: {self.smallest_change['say']}.",
            fixed_load=fixed_load,
            budget=budget,
            deficit=self.deficit,
            critical=[{"id": name, "size": size} for name, size in self.critical],
            smallest_change=self.smallest_change,
            exact=not estimate,
        )


def raise_budget(budget: int, needed: int) -> dict[str, object]:
    """Return the change that raises the budget to what is needed, as an overflow suggests it."""
    by = needed - budget
    return {
        "change": "raise_budget",
        "by": by,
        "minimum_budget": needed,
        "say": f"raise the budget by {by:,} to {needed:,}",
    }


class RenderError(TokenboxError, code="render_error"):
    """Blocks cannot be rendered."""


class EmptyInput(RenderError, code="empty_input"):
    """There is no block to render: you gave none, or none of a requested type."""


class NothingFits(EmptyInput, code="nothing_fits"):
    """The budget is too small for even the smallest form of anything. ``budget`` is in tokens."""


class InvalidContent(RenderError, code="invalid_content"):
    """The content of a block to show in full is not UTF-8. ``details["index"]`` is the block's position."""


class DocumentError(TokenboxError, code="document_invalid"):
    """A layout document cannot be used.

    ``file``, ``line`` (from 1, where known) and ``path`` (a key such as ``sections[2].content_file``)
    locate the error; ``code`` classifies it.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        path: str | None = None,
        code: str | None = None,
        **details: object,
    ) -> None:
        place = file or ""
        if line is not None:
            place += f":{line}"
        if path:
            place = f"{place} at {path}".lstrip()
        super().__init__(
            f"{place}: {message}" if place else message, file=file, line=line, path=path, **details
        )
        self.file, self.line, self.path = file, line, path
        if code is not None:
            self.code = code  # type: ignore[misc]  # a narrower code than the class's


def plural(number: int, one: str, many: str | None = None) -> str:
    """Return ``1 token`` or ``2,048 tokens``; ``many`` is the plural of a noun that takes more than an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


E = TypeVar("E", bound=StrEnum)


def one_of(kind: type[E], name: str, value: object, error: type[TokenboxError], /, **details: object) -> E:
    """Return the member of ``kind`` that a caller gave for the option ``name``. Raises an ``error``."""
    if isinstance(value, str) and value in kind._value2member_map_:
        return kind(value)
    raise error(f"{name} is one of {', '.join(kind)}, not {shown(value)}.", value=shown(value), **details)


def several(value: object) -> list[Any] | None:
    """Return the values that a caller gave as a list; None for what is no list, such as one text."""
    if isinstance(value, str | bytes | Mapping):
        return None
    try:
        values = iter(cast("Iterable[Any]", value))
    except TypeError:  # a number, or an array of no dimensions, which passes for an Iterable
        return None
    return list(values)


_MAX_NAME = 200  # a long path is shown in full
_MAX_SHOWN = 80  # a SHA-256 with its quotes is shown in full


def shown(value: object) -> str:
    """Return the repr of a caller's value for a message, shortened; its type if it has none of its own.

    A decimal number is shown as it is written. Python refuses to print an integer of more than 4,300 digits.
    """
    try:
        text = "" if type(value).__repr__ is object.__repr__ else repr(value)
        text = str(value) if isinstance(value, Decimal) else text
    except (ValueError, RecursionError):
        text = ""
    if not text:
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def named(name: str) -> str:
    """Return a name for a message: as it is, or if it is long or does not print on one line, its repr."""
    if len(name) <= _MAX_NAME and name.isprintable():
        return name
    text = repr(name[:_MAX_NAME])
    return text if len(name) <= _MAX_NAME else f"{text}..."


_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_key(parts: Iterable[str]) -> str:
    """Return a key as in TOML: ``models."gpt-5.1".max_ctx``."""
    return ".".join(part if _BARE_KEY.fullmatch(part) else _quoted(part) for part in parts)


def _quoted(part: str) -> str:
    return json.dumps(part, ensure_ascii=False).replace("\x7f", "\\u007F")  # TOML has no surrogates


# postgresql://user:password@host, and postgresql://user@host?password=password
_PASSWORD = re.compile(r"(\w://[^\s/:@]*:)[^\s/]*(@)|([?&](?:ssl)?password=)[^\s&#]*")


def without_password(text: str) -> str:
    """Return a text with the passwords of its addresses hidden: ``s3://KEY:***@bucket``."""
    return _PASSWORD.sub(r"\1\3***\2", text)
