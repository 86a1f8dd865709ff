"""The effective settings with their sources, and the settings of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tokenbox.catalog import Figure, Limit, ModelLimits, Price
from tokenbox.config.errors import ConfigCode, ConfigError
from tokenbox.config.keys import ANY, KEYS, KeyName, key_of, key_text
from tokenbox.config.reading import name_of, unknown_key
from tokenbox.config.servers import kept_answer
from tokenbox.config.setting import Level, Origin, Setting, setting_text
from tokenbox.tokenizers.ownership import FAMILIES

if TYPE_CHECKING:
    from decimal import Decimal
    from pathlib import Path

    from tokenbox.models import Counting, Stated

_DEFAULT = Origin(Level.DEFAULT)
_RATES = ("input", "output", "cached_input", "cache_write", "cache_write_1h")
_POLICY = ("max_ctx", "reserve_out", "headroom", "strategy")


@dataclass(frozen=True, slots=True)
class ModelPolicy:
    """The limits of requests to a model. For ``max_ctx`` and ``tokenizer`` None means the model's own.

    ``sources``: the source of each field.
    """

    model: str
    max_ctx: int | None
    reserve_out: int | None
    headroom: Decimal
    strategy: str
    tokenizer: str | None
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Connection:
    """The server of a model. It has the place of the key, never the key itself."""

    name: str
    model: str
    endpoint: str | None
    kind: str
    key_env: str | None
    keyring: str | None


@dataclass(frozen=True, slots=True)
class Config:
    """Settings in layers. The first layer with a key decides.

    ``root``: the project's folder; None outside a project. ``files``: the files that were read. ``problems``:
    warnings.
    """

    layers: Sequence[Mapping[KeyName, Setting]]
    root: Path | None = None
    files: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    def setting(self, key: str | KeyName) -> Setting:
        """Return the effective setting of a key, or its default. Raises :class:`ConfigError`."""
        name = key if isinstance(key, tuple) else name_of(key)
        row = key_of(name)
        if row is None:
            raise ConfigError(unknown_key(name), code=ConfigCode.UNKNOWN_KEY, key=key_text(name))
        found = self._first(name)
        return Setting(name, row.default, _DEFAULT) if found is None else found

    def value(self, key: str | KeyName) -> Any:  # noqa: ANN401  # of the type of the key
        """Return the effective value (text, int, bool, Decimal or tuple, by its type), or None."""
        return self.setting(key).value

    def source(self, key: str | KeyName) -> str:
        """Return the source of the effective value as text."""
        return self.setting(key).source

    def settings(self) -> list[Setting]:
        """Return the effective settings in the order of the table; those with a user's name if set."""
        names = {name for layer in self.layers for name in layer}
        found: list[Setting] = []
        for row in KEYS:
            own = sorted(name for name in names if key_of(name) is row) if ANY in row.parts else [row.parts]
            found += map(self.setting, own)
        return found

    def names(self, table: str) -> list[str]:
        """Return the user's names in ``[table.NAME]``, in the order of the layers."""
        return list(dict.fromkeys(name[1] for layer in self.layers for name in layer if name[0] == table))

    def policy_for(self, model: str) -> ModelPolicy:
        """Return the limits for a model: an id, or a NAME of ``[models.NAME]``.

        In each layer ``[models.NAME]`` precedes ``[policy]``. Raises :class:`ConfigError` if two entries for
        the id contradict each other.
        """
        found = self._policy(self._entries(model))
        values = {name: setting.value for name, setting in found.items()}
        sources = {name: setting.source for name, setting in found.items()}
        return ModelPolicy(self.model_id(model), **values, sources=sources)

    def strategy_for(self, model: str | None, kind: str) -> str | None:
        """Return the strategy for ``sections``, ``blocks`` or ``messages``; None if unset.

        In each layer ``[models.NAME]`` comes first, then the kind's strategy, then the general one.
        """
        entries = [] if model is None else self._entries(model)
        names: list[KeyName] = [("models", entry, "strategy") for entry in entries]
        names += [("policy", "strategies", kind), ("policy", "strategy")]
        return next((layer[name].value for layer in self.layers for name in names if name in layer), None)

    def model_id(self, model: str) -> str:
        """Return the id at the server of a model, which may be a NAME of ``[models.NAME]``."""
        return model if (found := self._first(("models", model, "model"))) is None else found.value

    def connection(self, name: str) -> Connection | None:
        """Return ``[models.NAME]`` as a connection; None if there is no such table."""
        if name not in self.names("models"):
            return None

        endpoint, kind, *key = (
            self.value(("models", name, part)) for part in ("endpoint", "kind", "key_env", "keyring")
        )
        return Connection(name, self.model_id(name), endpoint, kind, *key)

    def tokenizer_names(self) -> dict[str, str]:
        """Return the user's tokenizers: the name of a family with a tokenizer or ``file:PATH``."""
        return {
            name[1]: self.value(name)
            for layer in self.layers
            for name in layer
            if name[0] == "tokenizers" and (row := key_of(name)) is not None and row.parts[-1] == ANY
        }

    def catalog_limits(self) -> dict[str, ModelLimits]:
        """Return ``[catalog.MODEL]`` as corrections for :func:`tokenbox.catalog.model`."""
        found = {}
        for name in self.names("catalog"):
            date = self._date(name)
            figures = {
                limit.value: _figure(self.setting(("catalog", name, limit.value)), date) for limit in Limit
            }
            if any(figures.values()):
                found[name] = ModelLimits(**figures)
        return found

    def catalog_prices(self) -> dict[str, Price]:
        """Return ``[catalog.MODEL]`` as prices for :func:`tokenbox.catalog.price`."""
        found = {}
        for name in self.names("catalog"):
            settings = [self.setting(("catalog", name, f"price_{rate}")) for rate in _RATES]
            source = next((setting.source for setting in settings if setting.value is not None), None)
            if source is not None:
                into, out, read, written, hour = (setting.value for setting in settings)
                found[name] = Price(into, out, read, written, source, self._date(name), cache_write_1h=hour)
        return found

    def stated(self, model: str | None) -> Stated:
        """Return the figures in the settings for a model (an id, a NAME of ``[models.NAME]``), or for any."""
        from tokenbox.models import Stated  # its counters take long to load

        found = self._policy([] if model is None else self._entries(model))
        window, headroom = found["max_ctx"], found["headroom"]
        # A general setting only limits the window of a model; a flag states the window of this model.
        is_own = model is None or window.key[0] == "models" or window.origin.level is Level.FLAG
        return Stated(
            context_window=_figure(window) if is_own else None,
            window_cap=None if is_own else _figure(window),
            output_reserve=_figure(found["reserve_out"]),
            headroom=(Fraction(headroom.value), headroom.source),
        )

    def tokenizer_for(self, model: str) -> str | None:
        """Return the tokenizer in the settings for a model or its family; None if unset."""
        own = self.tokenizer_names()
        family = next((own[name] for name in FAMILIES.names_of(self.model_id(model)) if name in own), None)
        return self.policy_for(model).tokenizer or family

    def counting(self, model: str | None) -> Counting:
        """Return the settings for counting with a model."""
        from tokenbox.models import Counting, is_openai  # as in `stated`

        connection = None if model is None else self.connection(model)
        return Counting(
            named=None if model is None else self.policy_for(model).tokenizer,
            families=self.tokenizer_names(),
            baselines=self.value(("tokenizers", "baselines")),
            heuristic=self.value(("tokenizers", "heuristic")),
            at_openai=connection is None or is_openai(connection.endpoint, connection.kind),
        )

    def server_said(self, model: str) -> ModelLimits:
        """Return the last known answer of the server of a model, with its day."""
        own = self.connection(model)
        names = [model] if own is not None else self.names("models")
        model_id = self.model_id(model)
        for connection in map(self.connection, names):
            if connection is None or connection.model != model_id or connection.endpoint is None:
                continue
            found = kept_answer(connection.endpoint, model_id)
            if found != ModelLimits():
                return found
        return ModelLimits()

    def _date(self, name: str) -> str | None:
        date: str | None = self.value(("catalog", name, "date"))
        return date

    def _first(self, name: KeyName) -> Setting | None:
        return next((layer[name] for layer in self.layers if name in layer), None)

    def _entries(self, model: str) -> list[str]:
        """Return the NAMEs of ``[models.NAME]`` for a model: that name, or else all with its id."""
        names = self.names("models")
        return [model] if model in names else [name for name in names if self.model_id(name) == model]

    def _policy(self, entries: Sequence[str]) -> dict[str, Setting]:
        """Return the settings of :class:`ModelPolicy` for a model with these entries, or for any without."""
        found = {name: self._model_setting(name, entries, ("policy", name)) for name in _POLICY}
        return {**found, "tokenizer": self._model_setting("tokenizer", entries, None)}

    def _model_setting(self, part: str, entries: Iterable[str], general: KeyName | None) -> Setting:
        """Return the setting of a model: in each layer that of its entries, else the one for all models."""
        for layer in self.layers:
            own = [layer[name] for entry in entries if (name := ("models", entry, part)) in layer]
            if own:
                return _agreed(own)
            if general is not None and general in layer:
                return layer[general]
        return Setting(("models", ANY, part), None, _DEFAULT) if general is None else self.setting(general)


def _figure(setting: Setting, date: str | None = None) -> Figure | None:
    return None if setting.value is None else Figure(setting.value, setting.source, date)


def _agreed(settings: Sequence[Setting]) -> Setting:
    """Return the common setting of several entries for the same model. Raises if they differ."""
    first, *others = settings
    for other in others:
        if other.value != first.value:
            raise ConfigError(
                f"{first.name} ({first.source}) is {setting_text(first.value)}, "
                f"{other.name} ({other.source}) is {setting_text(other.value)}, and both "
                "are for the same model. "
                f"Name {first.key[1]!r} or {other.key[1]!r} instead of the model's id.",
                code=ConfigCode.AMBIGUOUS,
                key=first.name,
            )
    return first
