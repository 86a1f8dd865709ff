"""Every error tokenbox raises on purpose.

Each carries a stable ``code`` (for programs), a message that says what was wrong and what to do next
(for people), and ``details``: the figures behind the message, as plain data.

    TokenboxError                     tokenbox_error
    ├── TokenizerError                tokenizer_error
    │   ├── InvalidText               invalid_text             lone surrogates: not Unicode text
    │   ├── UnknownTokenizer          unknown_tokenizer
    │   ├── DuplicateTokenizer        duplicate_tokenizer
    │   ├── NoTokenizer               no_tokenizer             none is registered or enabled for a model
    │   ├── InvalidTokenizer          invalid_tokenizer        a user's tokenizer that does not count
    │   ├── VocabularyError           vocabulary_invalid       a vocabulary file that cannot be used
    │   └── UnsupportedOperation      unsupported_operation    an estimate has no tokens to decode
    ├── CodeNotAllowed                code_not_allowed         a name of code that nobody who may allowed
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
    │   └── InvalidContent            invalid_content
    ├── DocumentError                 document_invalid         and the narrower codes of its table
    │
    │   beside their parts:
    ├── InvalidMessage                invalid_message          content.message: no server would take it
    ├── UndeclaredCost                undeclared_cost          content.message: of an image, a file
    ├── UnknownHandle                 unknown_handle           conversation.record: no text left out
    ├── TemplateError                 chat_template_error      conversation.llama.syntax
    ├── InvalidOverride               invalid_override         policy.override
    ├── InvalidCachePlan              invalid_cache_plan       caching.plan
    ├── CatalogError                  catalog_invalid          catalog.published
    ├── InvalidDay                    invalid_day              catalog.prices
    ├── InvalidModelName              invalid_model_name       catalog.names
    ├── ConfigError                   config_invalid           config.errors
    ├── NotCanonical                  not_canonical            proof.canonical
    ├── ContentStoreError             content_store_error      store.content_store
    ├── LcpError ...                  lcp_error                lcp.errors draws the rest
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
    ├── BodyEncoded, BodyTimeout, BodyTooLarge, EndpointProblem, GatewayProblem, SpoolError,
    │   StreamFrameTooLarge                                     gateway
    ├── NothingToInspect, PageTooLarge                            inspect
    ├── InvalidArguments, NoRoots, OutsideRoots                   mcp
    ├── OverWindow                                                integrations.fitting
    └── NoBudgets, OutputFailed, UnknownModel, UnreadableInput, UsageProblem    cli
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tokenbox.__about__ import DISTRIBUTION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class TokenboxError(Exception):
    """Base of all errors raised on purpose. ``str(error)`` is a whole sentence for a person."""

    code: ClassVar[str] = "tokenbox_error"

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.details: Mapping[str, object] = details

    def __reduce__(self) -> tuple[object, ...]:
        # Constructors take figures by name, which pickle does not know; the finished error is what travels.
        return _revive, (type(self), self.args, self.__dict__)

    def to_dict(self) -> dict[str, object]:
        """``{"code", "message", ...figures}``: what a program gets instead of the result."""
        return {"code": self.code, "message": self.message, **self.details}


def _revive(kind: type[TokenboxError], args: tuple[object, ...], state: dict[str, object]) -> TokenboxError:
    """An error from another process."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class TokenizerError(TokenboxError):
    """A text could not be counted, encoded or decoded."""

    code = "tokenizer_error"


class InvalidText(TokenizerError):
    """The text holds lone surrogates, so it has no UTF-8 form and no model could be told it."""

    code = "invalid_text"

    @classmethod
    def at(cls, text: str) -> InvalidText:
        """The error for ``text``, naming the first character that cannot be sent."""
        place = next((i for i, c in enumerate(text) if "\ud800" <= c <= "\udfff"), 0)
        return cls(
            f"the text is not valid Unicode: character {place} is the lone surrogate "
            f"U+{ord(text[place]):04X}. Decode the source with errors='replace', or remove it.",
            character=place,
        )


class UnknownTokenizer(TokenizerError):
    """No tokenizer has that name."""

    code = "unknown_tokenizer"


class DuplicateTokenizer(TokenizerError):
    """A tokenizer of that name is registered already."""

    code = "duplicate_tokenizer"


class NoTokenizer(TokenizerError):
    """It is unknown what counts for a model. ``details["remedies"]`` are commands that say it."""

    code = "no_tokenizer"


class InvalidTokenizer(TokenizerError):
    """A user's tokenizer failed its trial: a wrong, changing or missing count."""

    code = "invalid_tokenizer"


class VocabularyError(TokenizerError):
    """A vocabulary cannot be read, is not what it says it is, or fails its check sum."""

    code = "vocabulary_invalid"


class UnsupportedOperation(TokenizerError):
    """The tokenizer cannot do this: an estimate has no tokens."""

    code = "unsupported_operation"


class CodeNotAllowed(TokenboxError):
    """A file, a bundle or a call names code, ``module:function``, that is not allowed to run here."""

    code = "code_not_allowed"

    @classmethod
    def of(cls, name: str) -> CodeNotAllowed:
        command = f"tokenbox config set --user code.allowed {name}"
        return cls(
            f"{name} is code, and what names it here may have been written by somebody else. Look at it. "
            f"Then allow it for every project, or trust all that this project names.\nRun: {command}",
            name=name,
            remedies=[command, "tokenbox config set --user code.allowed $PWD"],
        )


class MissingExtra(TokenboxError):
    """An optional package is needed. The message is the command that installs it."""

    code = "missing_extra"

    @classmethod
    def of(cls, what: str, extra: str) -> MissingExtra:
        """The error for ``what``, which needs the packages of ``extra``."""
        remedy = f"pip install '{DISTRIBUTION}[{extra}]'"
        return cls(f"{what} needs an optional package. Run: {remedy}", extra=extra, remedies=[remedy])


class LensError(TokenboxError):
    """A lens (compression strategy) could not be built or applied."""

    code = "lens_error"


class LensSyntaxError(LensError):
    """A pipeline does not parse. ``details`` has ``position`` (characters from 0) and ``pipeline``."""

    code = "lens_syntax"


class UnknownLens(LensError):
    """No lens has that name; the message names the nearest."""

    code = "unknown_lens"


class DuplicateLens(LensError):
    """A lens of that name is registered already."""

    code = "duplicate_lens"


class LayoutError(TokenboxError):
    """A layout cannot be made."""

    code = "layout_error"


class InvalidSection(LayoutError):
    """A section has a field of the wrong type or range, or an id that is taken."""

    code = "invalid_section"


class InvalidBudget(LayoutError):
    """The budget is not a non-negative integer number of tokens."""

    code = "invalid_budget"


class ContextCriticalOverflow(LayoutError):
    """What must be kept does not fit (Token Box Model, step 1). Nothing has been laid out.

    ``fixed_load``, ``budget`` and ``deficit`` are tokens; ``critical`` is every critical section as
    ``(id, size)`` in declared order; ``smallest_change`` is the smallest single change that makes it fit.
    """

    code = "context_critical_overflow"

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
        names = ", ".join(f"{name} {about}{size:,}" for name, size in largest)
        rest = len(self.critical) - len(largest)
        more = f" and {rest} more" if rest else ""
        super().__init__(
            f"the critical {what} need {about}{fixed_load:,} tokens, the budget is {budget:,}: "
            f"{about}{self.deficit:,} too many ({names}{more}). "
            f"Smallest change: {self.smallest_change['say']}.",
            fixed_load=fixed_load,
            budget=budget,
            deficit=self.deficit,
            critical=[{"id": name, "size": size} for name, size in self.critical],
            smallest_change=self.smallest_change,
            exact=not estimate,
        )


class RenderError(TokenboxError):
    """Blocks cannot be rendered."""

    code = "render_error"


class EmptyInput(RenderError):
    """Nothing is left to render: no block, none of the types asked for, or none that fits the budget."""

    code = "empty_input"


class InvalidContent(RenderError):
    """The content of a block that is to be shown in full is not UTF-8. ``details["index"]`` is the block."""

    code = "invalid_content"


class DocumentError(TokenboxError):
    """A layout document cannot be used.

    ``file``, ``line`` (from 1, where known) and ``path`` (the key, as ``sections[2].content_file``)
    say where; the code says what.
    """

    code = "document_invalid"

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
        place = "".join(
            part
            for part in (
                f"{file}" if file is not None else "",
                f":{line}" if line is not None else "",
                f" at {path}" if path else "",
            )
        ).strip()
        super().__init__(
            f"{place}: {message}" if place else message, file=file, line=line, path=path, **details
        )
        self.file, self.line, self.path = file, line, path
        if code is not None:
            self.code = code  # type: ignore[misc]  # narrower than the class's own
