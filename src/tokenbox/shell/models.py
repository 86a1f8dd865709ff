"""The configured models, the current one, and its counter. Switching the model switches all of them."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from tokenbox import tokenizers
from tokenbox.catalog import ModelLimits, Price, price, tokenizer_family
from tokenbox.compose.bound import Bound
from tokenbox.compose.requests import By, Count, RequestCounter
from tokenbox.content.message import thaw
from tokenbox.content.request import Request, read_request
from tokenbox.conversation.calibration import Calibration, CountedFor, unread
from tokenbox.conversation.image_costs import image_cost
from tokenbox.conversation.markers import MarkersFormat
from tokenbox.errors import TokenboxError
from tokenbox.models import Counters, Counting, Stated, counters_for, is_openai, resolve_figures
from tokenbox.policy import GuardLimits, Uncertain, Verdict, guard
from tokenbox.policy.guard import checked_uncertain
from tokenbox.providers import tokenize_supported
from tokenbox.providers.blocking import BlockingProvider
from tokenbox.providers.counting import CHARS4, NOTHING, TokenCount, is_unicode, local_count
from tokenbox.providers.memory import SESSION
from tokenbox.providers.target import Bounds, Target
from tokenbox.shell.errors import KeyNotSent, ModelNotConfigured
from tokenbox.shell.keys import KEYRING_SERVICE, ModelKeys
from tokenbox.tokenizers.ownership import BASELINES, key_of_model
from tokenbox.tokenizers.protocol import BaseTokenizer, Tokenizer, TokenizerIdentity
from tokenbox.tokenizers.registry import UNKNOWN

if TYPE_CHECKING:
    from datetime import date
    from decimal import Decimal

    from tokenbox.config import Config, Connection
    from tokenbox.content.items import Item

_MAX_CACHED: Final = 4096


class Models:
    """The configured models and the current one. ``provider`` is the client of the current model.

    ``endpoint`` is the server of the command line: every model is then one of it, and no key of the settings
    is sent there.
    """

    def __init__(self, config: Config, variables: Mapping[str, str], endpoint: str | None = None) -> None:
        self._config, self._endpoint = config, endpoint
        self._provider: BlockingProvider | None = None
        self._counts: dict[tuple[object, ...], TokenCount] = {}
        self._tokenizers: dict[Target, Tokenizer] = {}
        self.keys = ModelKeys(config, variables)
        self.calibration = Calibration()
        self.name = ""
        self.target = Target(None, "none")

    @property
    def names(self) -> list[str]:
        return self._config.names("models")

    @property
    def provider(self) -> BlockingProvider:
        if self._provider is None:
            self._provider = BlockingProvider(self.target)
            self._provider.counter = self.local_counter()
        return self._provider

    def use(self, name: str) -> None:
        """Switch to the model of that name, or of that id at ``--endpoint``.

        Raises :class:`ModelNotConfigured`.
        """
        if not is_unicode(name):
            raise self._unknown(name)
        try:
            target = self._target(name)
        except ModelNotConfigured:
            # A model that the current server lists is used with the current key and settings.
            if name not in self.listed():
                raise
            target = replace(self.target, model=name, tokenizer=self._tokenizer(name))
        self.name, self.target = name, target
        if self._provider is not None:
            self._provider.target = target
            self._provider.counter = self.local_counter()

    def use_first(self) -> None:
        """Switch to the model of the settings, else to the first one that is listed or configured, if any."""
        configured = self._config.value("model")
        if configured is not None:
            self.use(str(configured))
        elif self._endpoint is not None:
            self.use(self._listed_first())
        elif self.names:
            self.use(self.names[0])

    def listed(self) -> tuple[str, ...]:
        """Return the models that the current server lists; empty if it cannot be reached."""
        if self.target.endpoint is None:
            return ()
        try:
            return self.provider.models()
        except TokenboxError:
            return ()

    def probe_again(self) -> None:
        """Forget what servers support, such as /tokenize, so that the next count probes again."""
        SESSION.forget()
        self._counts.clear()

    @property
    def label(self) -> str:
        """The name without folders: servers of one model often use the path of its file."""
        return self.name.rstrip("/").rpartition("/")[2] if self.name.startswith(("/", ".")) else self.name

    def _listed_first(self) -> str:
        """Return the first model that the server lists. Raises ``ProviderError``."""
        self.target = Target(self._endpoint, "")
        self.provider.target = self.target
        listed = self.provider.models()
        if not listed:
            raise ModelNotConfigured(
                f"the server at {self.target.root} lists no models. Name one with --model."
            )
        return listed[0]

    def _target(self, name: str) -> Target:
        connection = self._config.connection(name)
        endpoint, key = self._endpoint, None
        if endpoint is None:
            if connection is None:
                raise self._unknown(name)
            endpoint, key = connection.endpoint, self.keys.of(connection)
        timeout = self._config.value("tokenize.timeout")
        return Target(
            endpoint,
            self._config.model_id(name),
            "auto" if connection is None else connection.kind,
            key,
            self._tokenizer(name),
            use_tokenize_endpoint=bool(self._config.value("tokenize.use_endpoint")),
            context_window=self._config.policy_for(name).max_ctx,
            bounds=replace(Bounds(), probe_seconds=float(cast("Decimal", timeout))),
        )

    def _unknown(self, name: str) -> ModelNotConfigured:
        near = difflib.get_close_matches(name, self.names, 1)
        known = f"Configured models: {', '.join(self.names)}. " if self.names else ""
        family = tokenizer_family(name)
        by_openai = family is not None and family.name in BASELINES["gpt-bpe"]
        endpoint = "https://api.openai.com" if by_openai else "http://127.0.0.1:8080"
        add = f"Add it: tokenbox config set {key_of_model(name, 'endpoint')} {endpoint}"
        hint = f"Did you mean {near[0]}?" if near else f"{known}{add}"
        return ModelNotConfigured(f"no model {name!r} is configured. {hint}", name=name)

    def count_text(self, text: str) -> TokenCount:
        """Count ``text`` for the current model. Counts are cached. Never raises."""
        key = self._key("text", text)
        return self._counted(key, lambda: self._by_vocabulary(text, self.provider.counted_text(text)))

    def count_request(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> TokenCount:
        """Count a whole request for the current model. An empty request has 0 tokens."""
        if not messages and not tools:
            return NOTHING
        key = self._key("request", [messages, tools])
        counted = self._counted(key, lambda: self.provider.count(messages, tools))
        if counted.source in set(By) and self._counts_texts:
            return self._by_texts(messages, tools)
        if counted.exact and not self.calibration.trusts(self._counted_for()):
            return replace(counted, exact=False)
        return counted

    @property
    def _counts_texts(self) -> bool:
        """Whether the server counts texts, as far as is known."""
        endpoint = self.target.endpoint
        return endpoint is not None and self.target.counts_on_server and bool(tokenize_supported(endpoint))

    def _by_texts(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> TokenCount:
        """Estimate a request by the server's counts of its texts, and the markers of common formats."""
        request = read_request(messages, tools=list(tools) or None, strict=False)
        counter = MarkersFormat(ServerTexts(self), image_cost=image_cost(self.target.model))
        total = counter.count_request(request).total
        return TokenCount(total, exact=False, source=f"texts by {self.target.root}")

    def counted_before(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> TokenCount | None:
        """Return the count of a request, or None if that would ask the server."""
        is_local = not (messages and self.target.counts_on_server)
        if not is_local and self._key("request", [messages, tools]) not in self._counts:
            return None
        return self.count_request(messages, tools)

    def count_here(self, text: str) -> TokenCount:
        """Count a text without asking the server."""
        return self._by_vocabulary(text, local_count(text, self.target))

    def _by_vocabulary(self, text: str, counted: TokenCount) -> TokenCount:
        """Replace a count by characters by that of the vocabulary with which requests are counted."""
        if counted.source != CHARS4 or not is_unicode(text):
            return counted
        tokenizer = self.tokenizer
        return TokenCount(tokenizer.count(text), exact=False, source=f"tokenizer {tokenizer.identity.name}")

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of texts on this machine: of the settings, else that of the local request counter."""
        found = self._tokenizers.get(self.target)
        if found is None:
            with suppress(TokenboxError):
                named = self.target.tokenizer
                found = None if named is None else tokenizers.get(named)
            local = self._local_counters() if found is None else None
            found = found or (None if local is None else local.tokenizer) or tokenizers.get(UNKNOWN)
            self._tokenizers[self.target] = found
        return found

    def compare(self, counted: TokenCount, reported: int | None) -> list[str]:
        """Compare a count with the one that the server reported, and return warnings for the user."""
        count = count_of(counted)
        dropped = unread(count, reported)
        difference = self.calibration.compare(self._counted_for(), count, reported)
        if difference is not None:
            self.probe_again()  # the server may have another model now
        if dropped is not None:
            warning = (
                f"{self.label} read {reported:,} prompt tokens where {counted} were sent: it seems to have "
                f"dropped about {dropped:,}. Lower :budget, or give the server a larger window"
            )
            return [warning]
        return [] if difference is None else [str(difference)]

    def verdict(self, count: Count, budget: int) -> Verdict:
        """Return the guard's verdict on a count, by the model's window, else by the budget."""
        limits = self.limits()
        if limits is None:
            return guard(count, GuardLimits(budget), Uncertain.ALLOW)
        return guard(count, limits, checked_uncertain(self._config.value("policy.uncertain")))

    def _counted_for(self) -> CountedFor:
        target = self.target
        counter = "server" if target.counts_on_server else target.tokenizer or "none"
        return CountedFor(counter, target.model, target.endpoint or "")

    def _key(self, kind: str, counted: object) -> tuple[object, ...]:
        """Return the key of a count: a digest, as the texts of all requests would fill the memory."""
        text = json.dumps(counted, ensure_ascii=False)
        return self.target, kind, hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

    def _counted(self, key: tuple[object, ...], count: Callable[[], TokenCount]) -> TokenCount:
        if key not in self._counts:
            found = count()
            # An estimate is not cached if the server may only be busy and can count the next time.
            if not found.exact and self.target.counts_on_server:
                return found
            if len(self._counts) >= _MAX_CACHED:
                self._counts.clear()
            self._counts[key] = found
        return self._counts[key]

    def check_key(self) -> None:
        """Use the current key of the model. Raise :class:`KeyNotSent` if it is not set."""
        connection = self._connection()
        if connection is None:
            return
        key, name = self.keys.of(connection), connection.key_env or connection.keyring
        if key is None and name is not None:
            raise KeyNotSent(
                f"the key {name} of {self.name} is not set. To set it: {self.how_to_set_key()}",
                model=self.name,
            )
        if key != self.target.key:
            self.target = self.provider.target = replace(self.target, key=key)

    def how_to_set_key(self) -> str | None:
        """Return the command that sets the key of the current model; None if no setting names one."""
        connection = self._connection()
        if connection is None:
            return None
        if connection.key_env is not None:
            return f"!read -rs {connection.key_env}; export {connection.key_env}"
        return None if connection.keyring is None else f"!keyring set {KEYRING_SERVICE} {connection.keyring}"

    def _connection(self) -> Connection | None:
        """Return the settings of the current model; None for a server of the command line."""
        return None if self._endpoint is not None else self._config.connection(self.name)

    def limits(self) -> GuardLimits | None:
        """Return the limits of a request to the current model, or None if its window is unknown."""
        reported = self._config.server_said(self.name) if self.name else ModelLimits()
        if self.target.endpoint is not None:
            with suppress(TokenboxError):
                reported = self.provider.capabilities().discovered
        figures = resolve_figures(
            self.target.model,
            settings=self._config.stated(self.name) if self.name else Stated(),
            server=reported,
            corrections=self._config.catalog_limits(),
        )
        return None if figures.context_window is None else GuardLimits.of_model(figures)

    def close(self) -> None:
        if self._provider is not None:
            self._provider.close()

    @property
    def output_reserve(self) -> int | None:
        """The output reserve of the settings: the largest answer in tokens."""
        return self._config.policy_for(self.name).reserve_out if self.name else None

    def price(self, on: date) -> Price | None:
        """Return the price of the current model on a day, or None if it is unpriced."""
        return price(self.target.model, on, configured=self._config.catalog_prices())

    def local_counter(self) -> RequestCounter | None:
        """Return the local counter of the current model, or None if its vocabulary cannot be loaded."""
        local = self._local_counters()
        return None if local is None else local.counter

    def _local_counters(self) -> Counters | None:
        counting = self._config.counting(self.name) if self.name else Counting()
        try:
            at_openai = is_openai(self.target.endpoint, self.target.kind)
            return counters_for(self.target.model, replace(counting, baselines=None, at_openai=at_openai))
        except (TokenboxError, OSError):
            return None

    def _tokenizer(self, name: str) -> str | None:
        """Return the local tokenizer of a model: by setting, else by family, else an enabled baseline."""
        counting = self._config.counting(name)
        if counting.named is not None:
            return str(counting.named)
        family = tokenizer_family(self._config.model_id(name))
        if family is None or family.name is None:
            return None
        in_use = [BASELINES[baseline] for baseline in counting.baselines or ()]
        enabled = family.name if any(family.name in names for names in in_use) else None
        return counting.families.get(family.name) or enabled


def count_of(counted: TokenCount) -> Count:
    """Convert the count of a provider to the count of a request."""
    by = By(counted.source) if counted.source in set(By) else By.SERVER
    return Count(counted.value, counted.exact, counted.value, by)


def bounded(count: Count, request: Request) -> Count:
    """Return the count with an upper bound, if it is an estimate."""
    return count if count.exact else replace(count, at_most=max(count.total, Bound(None).request(request)))


def bounded_count(
    counted: TokenCount, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
) -> Count:
    """Return the count of what is sent, with an upper bound, if it is an estimate."""
    return bounded(count_of(counted), read_request(messages, tools=list(tools) or None, strict=False))


class ServerTexts(BaseTokenizer):
    """Counts texts as the server of the current model does."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._identity = TokenizerIdentity(models.target.model, "", "", exact=False)

    def count(self, text: str) -> int:
        return self._models.count_text(text).value


class CurrentCounter:
    """Counts whole requests of a conversation for whatever model is current at the time of the call."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._exact = False

    @property
    def identity(self) -> TokenizerIdentity:
        """The current counter. It changes with the model, and when an estimate replaces a count."""
        target = self._models.target
        text = f"{target.endpoint} {target.model} {target.tokenizer} {target.use_tokenize_endpoint}"
        return TokenizerIdentity(target.model, "", hashlib.sha256(text.encode()).hexdigest(), self._exact)

    def count_request(self, request: Request) -> Count:
        messages = [message.to_dict(declared=False) for message in request.messages]
        counted = self._models.count_request(messages, [thaw(tool) for tool in request.tools])
        self._exact = counted.exact
        return bounded(count_of(counted), request)

    def item_size(self, item: Item) -> int:
        """Return the approximate size of an item: its texts, without its markers."""
        return sum(self._models.count_text(message.counted_text).value for message in item.messages)
