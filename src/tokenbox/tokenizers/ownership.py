"""The choice of the tokenizer for a model: the user's own, or a baseline the user enabled (nrv ADR 007).

A model belongs to a *family* of models with the same tokenizer. Users own tokenizers: they register one for
a family (or for one model), or enable a baseline. No tokenizer counts unless the user asked for it.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from tokenbox import lookups
from tokenbox.errors import (
    DuplicateTokenizer,
    InvalidTokenizer,
    NoTokenizer,
    UnknownTokenizer,
    shown,
    toml_key,
)
from tokenbox.tokenizers.guarded import as_estimate, guarded
from tokenbox.tokenizers.registry import FILE_PREFIX, as_tokenizer, get, is_builtin

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Tokenizer

BASELINES: Final[Mapping[str, Sequence[str]]] = {
    "gpt-bpe": ("o200k_base", "cl100k_base"),
    "llama3-bpe": ("llama3-bpe",),
}
"""The families with a tokenizer in the package or an extra, and their vocabularies, the default first."""

HEURISTIC: Final = "heuristic"

_BASELINE_OF: Final = {name: family for family, names in BASELINES.items() for name in (family, *names)}
_MAX_NAME: Final = 200


class Family(Protocol):
    """The tokenizer family of a model in the catalog. ``name`` None: its maker publishes no tokenizer."""

    @property
    def name(self) -> str | None: ...
    @property
    def source(self) -> str: ...


class TokenizerFamilies:
    """A registry of tokenizers by family. The functions of :mod:`tokenbox.tokenizers` share one.

    ``family_of`` returns the family of a model, or None if it is unknown. It is a parameter because the
    catalog, one table for windows, prices and tokenizers, is not part of this package.
    """

    def __init__(self, family_of: Callable[[str], Family | None] = lambda _: None) -> None:
        self._family_of = family_of
        self._own: dict[str, Tokenizer] = {}
        self._baselines: set[str] = set()
        self._heuristic = False
        self._lock = threading.Lock()

    def register(
        self, family: str, impl: object, *, version: str = "unknown", exact: bool = False
    ) -> Tokenizer:
        """Register ``impl`` as the tokenizer of ``family`` in this process.

        It counts for the models of that family in the catalog, and for models whose name is ``family`` or
        continues it with ``-``.

        ``impl``: a function from text to a count, an object with ``count()``, a tokenizer, a tokenizer's
        name, or ``file:PATH``. It is tested first: the empty text is 0, the same text has the same count, a
        count is never negative. ``version`` and ``exact`` are recorded if ``impl`` has no identity. Its
        exceptions become the cause of a ``TokenizerError``.

        Raises :class:`DuplicateTokenizer` if the family has one, :class:`InvalidTokenizer` if the test
        fails.
        """
        usable = type(family) is str and family.strip() and family.isprintable() and len(family) <= _MAX_NAME
        if not usable:
            raise InvalidTokenizer(f"a family is a name such as 'acme-bpe', not {family!r:.80}.")
        if type(version) is not str or not version:
            raise InvalidTokenizer(f"the version of {family!r} is a text such as '3', not {version!r}.")
        with self._lock:
            self._check_free(family)
        tokenizer = (
            get(impl) if isinstance(impl, str) else guarded(impl, family, version=version, exact=exact)
        )
        with self._lock:
            self._check_free(family)
            self._own[family] = tokenizer
        return tokenizer

    def unregister(self, family: str) -> None:
        """Remove the tokenizer of ``family``. Raises :class:`UnknownTokenizer` if it has none."""
        with self._lock:
            if self._own.pop(family, None) is None:
                raise UnknownTokenizer(f"no tokenizer is registered for {family!r}.", family=family)

    def enable_baseline(self, name: str) -> None:
        """Let the baseline ``gpt-bpe`` or ``llama3-bpe`` count for its models, in this process.

        Raises :class:`UnknownTokenizer`, or ``MissingExtra`` if its vocabulary is not installed.
        """
        check_baselines([name])
        for vocabulary in BASELINES[name]:
            get(vocabulary)
        with self._lock:
            self._baselines.add(name)

    def disable_all_baselines(self) -> None:
        """Disable the baselines again, the default."""
        with self._lock:
            self._baselines.clear()

    def enable_heuristic(self, *, on: bool = True) -> None:
        """Let ``heuristic`` count for models without another tokenizer: bytes / 4 plus 15 %, an estimate."""
        with self._lock:
            self._heuristic = on

    def resolve(
        self,
        model_ref: str,
        *,
        baselines: Iterable[str] = (),
        heuristic: bool = False,
        named: Mapping[str, str] | None = None,
    ) -> Tokenizer:
        """Return the tokenizer of a model or of a family.

        ``baselines``, ``heuristic`` and ``named`` (a tokenizer's name or ``file:PATH`` by family) apply to
        this call, in addition to what is enabled and registered in the process. Raises :class:`NoTokenizer`,
        whose remedies are commands.
        """
        if type(model_ref) is not str or not model_ref:
            raise NoTokenizer(
                f"a model is a name such as 'gpt-4o', not {shown(model_ref)}.", model=shown(model_ref)
            )
        enabled = self._baselines.union(check_baselines(baselines))
        family = self._family_of(model_ref)
        vocabulary = family.name if family is not None else model_ref
        baseline = _BASELINE_OF.get(vocabulary or "")
        names = _names(model_ref, vocabulary)
        own = next((self._own[name] for name in names if name in self._own), None)
        if own is None and named:
            own = next((get(named[name]) for name in names if name in named), None)
        if own is not None:
            return own if _may_be_exact(family) else as_estimate(own)
        if baseline in enabled and vocabulary is not None:
            return get(_vocabulary(vocabulary))
        if heuristic or self._heuristic:
            return get(HEURISTIC)
        raise _no_tokenizer(model_ref, family, baseline)

    def names_of(self, model_ref: str) -> list[str]:
        """Return the names under which a model's tokenizer may be registered, the most specific first."""
        family = self._family_of(model_ref)
        return _names(model_ref, model_ref if family is None else family.name)

    def named(self, tokenizer: object, model_ref: str | None) -> Tokenizer:
        """Return the tokenizer a user names for a model, as an estimate if it cannot be the model's own."""
        family = None if model_ref is None else self._family_of(model_ref)
        own = None if family is None else family.name
        if own is not None and isinstance(tokenizer, str) and own in BASELINES.get(tokenizer, ()):
            return get(own)
        found = as_tokenizer(tokenizer)  # type: ignore[arg-type]  # it validates the value
        if family is None or (_may_be_exact(family) and not is_builtin(tokenizer)):
            return found
        of_family = (family.name, *BASELINES.get(family.name or "", ()))
        return found if tokenizer in of_family else as_estimate(found)

    def _check_free(self, family: str) -> None:
        if family in self._own:
            raise DuplicateTokenizer(
                f"a tokenizer is registered for {family!r} already: {self._own[family].identity.name} "
                f"{self._own[family].identity.version}. Call tokenbox.tokenizers.unregister first.",
                family=family,
            )


def check_baselines(names: Iterable[object]) -> list[str]:
    """Return ``names`` if each is a baseline. Raises :class:`UnknownTokenizer`."""
    given = []
    for name in names:
        if not isinstance(name, str) or name not in BASELINES:
            raise UnknownTokenizer(
                f"no baseline is called {shown(name)}. There are: {', '.join(BASELINES)}.",
                name=name if isinstance(name, str) else shown(name),
            )
        given.append(name)
    return given


def _names(model_ref: str, vocabulary: str | None) -> list[str]:
    names = (vocabulary, _BASELINE_OF.get(vocabulary or ""))
    return [*_prefixes(model_ref), *(name for name in names if name is not None)]


def _prefixes(model: str) -> list[str]:
    """Return the model and the prefixes of its name: for ``x/a-b`` also ``a-b`` and ``a``."""
    parts = model.rpartition("/")[2].split("-")
    return [model, *("-".join(parts[:end]) for end in range(len(parts), 0, -1))]


def _vocabulary(family: str) -> str:
    """Return the vocabulary of a family: itself, or the default of a baseline with several."""
    return BASELINES[family][0] if family in BASELINES else family


def _may_be_exact(family: Family | None) -> bool:
    """Return False if the model's maker publishes no tokenizer: then every count is an estimate."""
    return family is None or family.name is not None


def _no_tokenizer(model: str, family: Family | None, baseline: str | None) -> NoTokenizer:
    """Return the error with alternative commands, the recommended one first."""
    key = key_of_model(model, "tokenizer")
    name = None if family is None else family.name
    heuristic = "tokenbox config set tokenizers.heuristic true"
    if baseline is not None:
        remedies = [
            f"tokenbox config set tokenizers.baselines {baseline}",
            f"tokenbox config set {key} {_vocabulary(name or model)}",
            heuristic,
        ]
        why = f"its family {baseline} is in the package, but a guard uses only tokenizers that you chose"
    else:
        # The path of its vocabulary file is unknown, so there is no command for it that could be run as is.
        remedies = [heuristic]
        if family is None:
            why = "its family is unknown"
        elif name is None:
            why = f"there is no public one ({family.source})"
        else:
            why = f"its family {name} has none in the package"
    chosen = "NAME" if baseline is None else _vocabulary(name or model)
    file = "" if baseline else f" If you have its vocabulary: tokenbox config set {key} {FILE_PREFIX}PATH."
    return NoTokenizer(
        f"no tokenizer counts for the model {shown(model)}: {why}.{file} For one call: --tokenizer {chosen}, "
        f"in Python tokenizer={chosen!r}.\nRun: {remedies[0]}",
        model=model,
        family=name,
        baseline=baseline,
        remedies=remedies,
    )


def key_of_model(model: str, part: str) -> str:
    """Return the key ``models.MODEL.part`` as one word of a command line."""
    return shlex.quote(toml_key(("models", model, part)))


FAMILIES: Final = TokenizerFamilies(lookups.family_of)
"""The registry of this process."""

register = FAMILIES.register
unregister = FAMILIES.unregister
enable_baseline = FAMILIES.enable_baseline
disable_all_baselines = FAMILIES.disable_all_baselines
enable_heuristic = FAMILIES.enable_heuristic


def resolve(model_ref: str) -> Tokenizer:
    """Return the tokenizer of a model or of a family, by this process and the current folder's settings.

    Raises :class:`NoTokenizer`, whose remedies are commands, and the errors of invalid settings.
    """
    settings = lookups.settings_of(model_ref) if type(model_ref) is str and model_ref else None
    if settings is None:
        return FAMILIES.resolve(model_ref)
    model, counting = settings
    if counting.named is not None:
        return FAMILIES.named(counting.named, model)
    return FAMILIES.resolve(
        model, baselines=counting.baselines, heuristic=counting.heuristic, named=counting.families
    )
