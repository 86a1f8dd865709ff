"""Which tokenizer counts for a model: the user's own, or a baseline the user enabled (nrv ADR 007).

A model belongs to a *family*: models that one tokenizer counts. Users own tokenizers: they register one for
a family (or for one model), or enable a baseline. Nothing is counted by a tokenizer that nobody asked for.
"""

from __future__ import annotations

import json
import re
import shlex
import threading
from typing import TYPE_CHECKING, Final, Protocol

from tokenbox import lookups
from tokenbox.errors import DuplicateTokenizer, InvalidTokenizer, NoTokenizer, UnknownTokenizer
from tokenbox.tokenizers.guarded import as_estimate, guarded
from tokenbox.tokenizers.registry import FILE_PREFIX, as_tokenizer, get, is_builtin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tokenbox.tokenizers.protocol import Tokenizer

BASELINES: Final[Mapping[str, Sequence[str]]] = {
    "gpt-bpe": ("o200k_base", "cl100k_base"),
    "llama3-bpe": ("llama3-bpe",),
}
"""The families that may come with the package, each with its vocabularies; the first is the default."""

HEURISTIC: Final = "heuristic"

_BASELINE_OF: Final = {name: family for family, names in BASELINES.items() for name in (family, *names)}


class Family(Protocol):
    """What the catalog says of a model's tokenizer. ``name`` None: its maker publishes none."""

    @property
    def name(self) -> str | None: ...
    @property
    def source(self) -> str: ...


class TokenizerFamilies:
    """Which tokenizer counts for which family. The functions of :mod:`tokenbox.tokenizers` share one.

    ``family_of`` gives the family of a model, or None where it is unknown. It is asked, not known here:
    one table of models serves windows, prices and tokenizers.
    """

    def __init__(self, family_of: Callable[[str], Family | None] = lambda model: None) -> None:  # noqa: ARG005
        self._family_of = family_of
        self._own: dict[str, Tokenizer] = {}
        self._baselines: set[str] = set()
        self._heuristic = False
        self._lock = threading.Lock()

    def register(
        self, family: str, impl: object, *, version: str = "unknown", exact: bool = False
    ) -> Tokenizer:
        """Let ``impl`` count for ``family``, in this process: for the models of that family in the catalog,
        and for those of that name or whose names go on after it with ``-``.

        ``impl``: a function from text to a count, an object with ``count()``, a tokenizer, a tokenizer's
        name, or ``file:PATH``. It is tried out first: the empty text is 0, the same text has the same
        count, a count is never negative. ``version`` and ``exact`` are recorded for what does not say so
        itself. Its errors come out as a ``TokenizerError`` whose cause they are.

        Raises :class:`DuplicateTokenizer` if the family has one, :class:`InvalidTokenizer` if the trial
        fails.
        """  # noqa: D205  # one sentence
        if type(family) is not str or not family.strip() or not family.isprintable() or len(family) > _LONG:
            raise InvalidTokenizer(f"a family is a name such as 'acme-bpe', not {family!r:.80}.")
        if type(version) is not str or not version:
            raise InvalidTokenizer(f"the version of {family!r} is a text such as '3', not {version!r}.")
        with self._lock:
            self._check_free(family)
        tokenizer = guarded(impl, family, version=version, exact=exact)
        with self._lock:
            self._check_free(family)
            self._own[family] = tokenizer
        return tokenizer

    def unregister(self, family: str) -> None:
        """Forget the tokenizer of ``family``. Raises :class:`UnknownTokenizer` if it has none."""
        with self._lock:
            if self._own.pop(family, None) is None:
                raise UnknownTokenizer(f"no tokenizer is registered for {family!r}.", family=family)

    def enable_baseline(self, name: str) -> None:
        """Let the baseline ``gpt-bpe`` or ``llama3-bpe`` count for its models, in this process.

        Raises :class:`UnknownTokenizer`, or ``MissingExtra`` where its vocabulary is not installed.
        """
        check_baselines([name])
        for vocabulary in BASELINES[name]:
            get(vocabulary)
        with self._lock:
            self._baselines.add(name)

    def disable_all_baselines(self) -> None:
        """Back to the default: a baseline counts for nobody."""
        with self._lock:
            self._baselines.clear()

    def enable_heuristic(self, *, on: bool = True) -> None:
        """Let ``heuristic`` count where nothing else does: bytes / 4 plus 15 %, always an estimate."""
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
        """The tokenizer of a model, or of a family.

        ``baselines``, ``heuristic`` and ``named`` (a tokenizer's name or ``file:PATH`` by family) hold for
        this call, beside what is enabled and registered in the process. Raises :class:`NoTokenizer`, whose
        remedies are commands.
        """
        if type(model_ref) is not str or not model_ref:
            raise NoTokenizer(
                f"a model is a name such as 'gpt-4o', not {model_ref!r}.", model=repr(model_ref)
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
        """The names under which a model's tokenizer may stand, the most special first."""
        family = self._family_of(model_ref)
        return _names(model_ref, model_ref if family is None else family.name)

    def named(self, tokenizer: object, model_ref: str | None) -> Tokenizer:
        """The tokenizer that a user names for a model: exact only where it can be that model's."""
        family = None if model_ref is None else self._family_of(model_ref)
        own = None if family is None else family.name
        if own is not None and isinstance(tokenizer, str) and own in BASELINES.get(tokenizer, ()):
            return get(own)
        found = as_tokenizer(tokenizer)  # type: ignore[arg-type]  # which refuses what is none
        if family is None or (_may_be_exact(family) and not is_builtin(tokenizer)):
            return found
        return (
            found if tokenizer in (family.name, *BASELINES.get(family.name or "", ())) else as_estimate(found)
        )

    def _check_free(self, family: str) -> None:
        if family in self._own:
            raise DuplicateTokenizer(
                f"a tokenizer is registered for {family!r} already: {self._own[family].identity.name} "
                f"{self._own[family].identity.version}. Call tokenbox.tokenizers.unregister first.",
                family=family,
            )


def check_baselines(names: Iterable[str]) -> list[str]:
    """``names``, if each is a baseline. Raises :class:`UnknownTokenizer`."""
    given = list(names)
    for name in given:
        if name not in BASELINES:
            raise UnknownTokenizer(
                f"no baseline is called {name!r}. There are: {', '.join(BASELINES)}.", name=str(name)
            )
    return given


def _names(model_ref: str, vocabulary: str | None) -> list[str]:
    names = (vocabulary, _BASELINE_OF.get(vocabulary or ""))
    return [*_beginnings(model_ref), *(name for name in names if name is not None)]


def _beginnings(model: str) -> list[str]:
    """The model and the beginnings of its name: of ``x/a-b`` that, ``a-b`` and ``a``."""
    parts = model.rpartition("/")[2].split("-")
    return [model, *("-".join(parts[:end]) for end in range(len(parts), 0, -1))]


def _vocabulary(family: str) -> str:
    """The vocabulary of a family: itself, or the default of a whole baseline."""
    return BASELINES[family][0] if family in BASELINES else family


def _may_be_exact(family: Family | None) -> bool:
    """Not where the maker publishes no tokenizer: whatever is registered, counts are estimates."""
    return family is None or family.name is not None


def _no_tokenizer(model: str, family: Family | None, baseline: str | None) -> NoTokenizer:
    """What is missing, and commands: any one is enough, the recommended one comes first."""
    key = key_of_model(model, "tokenizer")
    name = None if family is None else family.name
    heuristic = "tokenbox config set tokenizers.heuristic true"
    if baseline is not None:
        remedies = [
            f"tokenbox config set tokenizers.baselines {baseline}",
            f"tokenbox config set {key} {_vocabulary(name or model)}",
            heuristic,
        ]
        why = (
            f"its family {baseline} is in the package, but off until you enable it, as ADR 007 demands "
            "(only `tokenbox count` counts without)"
        )
    else:
        # The name of its vocabulary file is not known, so it is no command that runs as it is printed.
        remedies = [heuristic]
        if family is None:
            why = "its family is unknown"
        elif name is None:
            why = f"there is no public one ({family.source})"
        else:
            why = f"its family {name} has none in the package"
    file = "" if baseline is not None else f", or its vocabulary, {FILE_PREFIX}PATH, as {key}"
    return NoTokenizer(
        f"no tokenizer counts for the model {model!r}: {why}. Set one{file}, name one in the call, or "
        f"register one: tokenbox.tokenizers.register({(name or model)!r}, function)."
        f"\nRun: {remedies[0]}",
        model=model,
        family=name,
        baseline=baseline,
        remedies=remedies,
    )


def key_of_model(model: str, part: str) -> str:
    """The key ``models.MODEL.part`` as one word of a command line."""
    return shlex.quote(f"models.{model if _BARE.fullmatch(model) else json.dumps(model)}.{part}")


# A longer name is none.
_LONG: Final = 200

# What TOML writes without quotes.
_BARE: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")

FAMILIES: Final = TokenizerFamilies(lookups.family_of)
"""Those of this process."""

register = FAMILIES.register
unregister = FAMILIES.unregister
enable_baseline = FAMILIES.enable_baseline
disable_all_baselines = FAMILIES.disable_all_baselines
enable_heuristic = FAMILIES.enable_heuristic


def resolve(model_ref: str) -> Tokenizer:
    """The tokenizer of a model or of a family, as the process and the settings of the current folder have it.

    Raises :class:`NoTokenizer`, whose remedies are commands, and what is wrong with the settings.
    """
    said = lookups.settings_of(model_ref) if type(model_ref) is str and model_ref else None
    if said is None:
        return FAMILIES.resolve(model_ref)
    model, counting = said
    if counting.named is not None:
        return FAMILIES.named(counting.named, model)
    return FAMILIES.resolve(
        model, baselines=counting.baselines, heuristic=counting.heuristic, named=counting.families
    )
