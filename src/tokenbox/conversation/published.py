"""OpenAI's chat format, by its published rules."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import Final

from tokenbox.compose.lower_bound import counts_of
from tokenbox.compose.requests import By, Count, PartCost
from tokenbox.content.message import Frozen, Message, Object, Role, thaw
from tokenbox.content.request import Request, texts_and_ids
from tokenbox.conversation.image_costs import RULES, ImageCost, image_cost
from tokenbox.conversation.pieces import MediaTokens, PieceCounter
from tokenbox.tokenizers.guarded import as_estimate
from tokenbox.tokenizers.protocol import TokenizerIdentity
from tokenbox.tokenizers.registry import get

_OLDER: Final = ("gpt-4-", "gpt-3.5-turbo", "gpt-35-turbo")
# The models of the rules, with their dates. Others of these names (-search-preview, -audio-preview, models of
# other makers) have none that are published; gpt-3.5-turbo-0301 has its own.
_PUBLISHED: Final = re.compile(
    r"gpt-4o(-mini)?(-\d{4}-\d{2}-\d{2})?|gpt-4(-32k)?(-\d{4})?(-preview)?"
    r"|gpt-4-turbo(-preview|-\d{4}-\d{2}-\d{2})?|gpt-3\.?5-turbo(-16k)?(?!-0301)(-\d{4})?"
)
# The publishers of the rules verified them against the API for messages of these keys and roles.
_PROVEN_KEYS: Final = frozenset(("role", "content", "name"))
_PROVEN_ROLES: Final = frozenset((Role.SYSTEM, Role.USER, Role.ASSISTANT))
_PER_MESSAGE: Final = 3
_PER_REPLY: Final = 3
_PER_FORM: Final = 24  # around the schema of an answer


class OpenAIFormat(PieceCounter):
    """A counter by OpenAI's rules: 3 tokens per message plus role and text, 1 for a name, 3 for the reply.

    Exact for text messages to the models with published rules. For tools, calls, parts and other fields, and
    for all models after GPT-4o, the figures are estimates. So are all figures without ``at_openai``, for a
    server that may have another vocabulary.
    Source: the OpenAI Cookbook, "How to count tokens with tiktoken".
    """

    by = By.PUBLISHED

    def __init__(
        self,
        *,
        older: bool,
        published: bool,
        at_openai: bool = True,
        media_tokens: MediaTokens = None,
        image_cost: ImageCost | None = None,
    ) -> None:
        vocabulary = get("cl100k_base" if older else "o200k_base")
        super().__init__(vocabulary if at_openai else as_estimate(vocabulary), media_tokens, image_cost)
        self._function = 10 if older else 7  # the base cost of a function
        inner = self.tokenizer.identity
        rules = (
            f"openai/4:{inner.fingerprint}:{self._function}:{image_cost}{'' if at_openai else ':elsewhere'}"
        )
        digest = hashlib.sha256(rules.encode()).hexdigest()
        self.identity = TokenizerIdentity(f"{inner.name} openai", "4", digest, published and at_openai)

    @classmethod
    def rules(cls, model: str) -> tuple[bool, bool]:
        """Return whether the model is an older one, and whether its rules are published."""
        name = model.removeprefix("ft:").partition(":")[0]
        return f"{name}-".startswith(_OLDER), _PUBLISHED.fullmatch(model) is not None

    def count_request(self, request: Request) -> Count:
        texts = self._plain_texts(request)
        if texts is None:
            return super().count_request(request)
        # Each role is one token.
        total = _PER_REPLY + (_PER_MESSAGE + 1) * len(texts) + self._count(texts)
        return Count(total, exact=True, at_most=total, by=self.by)

    def _plain_texts(self, request: Request) -> list[str] | None:
        """Return the contents of a request of roles and texts alone; None for any other request.

        A fast path: the count is the same as the sum of the pieces.
        """
        is_proven = self.identity.exact and request.verbatim and not request.prompts
        if not is_proven or request.tools or request.fields or not request.messages:
            return None
        texts: list[str] = []
        for message in request.messages:
            content = message.content
            if message.role not in _PROVEN_ROLES or not isinstance(content, str) or len(message.source) != 2:
                return None
            texts.append(content)
        return None if request.messages[-1].role is Role.ASSISTANT else texts

    def piece(self, message: Message) -> PartCost:
        content = message.content
        if isinstance(content, str) and len(message.source) == 2:  # role and content
            total = _PER_MESSAGE + self._count([message.role.value, content])
            if self.identity.exact and message.role in _PROVEN_ROLES:
                return PartCost(total, total, exact=True)
            return PartCost(total, max(total, self.bound.message(message)), exact=False)
        texts = [message.role.value, message.text, message.reasoning]
        if message.name is not None:
            texts.append(message.name)
        for call in message.tool_calls:
            texts += [call.name, call.arguments]
        total = _PER_MESSAGE * (1 + len(message.tool_calls)) + (message.name is not None)
        total += self._count(texts) + self.media(message)
        exact = self.identity.exact and message.role in _PROVEN_ROLES and isinstance(content, str)
        exact = exact and _PROVEN_KEYS.issuperset(key for key, _ in message.source)
        if not exact:
            total = max(total, self.least(message.source))
        return PartCost(total, total if exact else max(total, self.bound.message(message)), exact)

    def frame(self, request: Request) -> PartCost:
        fields = 0
        for name, value in request.fields:
            fields += _PER_FORM + self._count([name, json.dumps(thaw(value), ensure_ascii=False)])
        total = _PER_REPLY + self._tools(request.tools) + max(fields, self.least(request.fields))
        exact = self.identity.exact and request.verbatim and not request.tools and not request.fields
        return PartCost(total, max(total, self.bound.frame(request)), exact)

    def prompt(self, prompt: str | tuple[int | str, ...]) -> PartCost:
        """Count a prompt: texts are sent as they are, and each token id is one token."""
        texts, ids = texts_and_ids(prompt)
        total = ids + self._count(texts)
        exact = self.tokenizer.identity.exact and (isinstance(prompt, str) or not texts)
        return PartCost(total, total if exact else max(total, self.bound.prompt(prompt)), exact)

    def _count(self, texts: Sequence[str]) -> int:
        return sum(counts_of(self.tokenizer, [text for text in texts if text]))

    def _tools(self, tools: Sequence[Object]) -> int:
        if not tools:
            return 0
        total = 12
        for tool in tools:
            given = dict(tool)
            function = _fields(given.get("function", tool))
            cost = self._function + self._count([_line(function.get("name", ""), function)])
            cost += self._properties(function.get("parameters"))
            total += max(cost, self.least(tool))
        return total

    def _properties(self, schema: Frozen) -> int:
        """Return the cost of a schema's properties, recursively."""
        given = _fields(schema)
        if not given:
            return 0
        properties = _fields(given.get("properties"))
        total = 3 if properties else 0
        for key, inner in properties.items():
            about = _fields(inner)
            total += 3 + self._count([_line(f"{key}:{about.get('type', '')}", about)])
            total += self._properties(inner)
        values = given.get("enum")
        if isinstance(values, tuple):
            total += -3 + sum(3 + self._count([str(value)]) for value in values)
        for key in ("items", "additionalProperties"):
            total += self._properties(given.get(key))
        for key in ("anyOf", "oneOf", "allOf"):
            options = given.get(key)
            total += sum(map(self._properties, options)) if isinstance(options, tuple) else 0
        for key in ("$defs", "definitions"):
            total += sum(map(self._properties, _fields(given.get(key)).values()))
        return total


def _line(name: object, about: dict[str, Frozen]) -> str:
    return f"{name}:{str(about.get('description', '')).removesuffix('.')}"


def _fields(value: Frozen) -> dict[str, Frozen]:
    """Return the fields of a JSON object; no fields for any other value."""
    return dict(value) if isinstance(value, Object) else {}


def openai_format(model: str, *, at_openai: bool = True) -> OpenAIFormat:
    """Return the format of a model by its bare name."""
    return _format(*OpenAIFormat.rules(model), at_openai=at_openai, cost=image_cost(model))


def openai_formats() -> Iterator[OpenAIFormat]:
    """Yield the formats of all rules, for requests to OpenAI itself and to other servers."""
    for at_openai, older, published, cost in product(*[(True, False)] * 3, (None, *RULES)):
        yield _format(older, published, at_openai=at_openai, cost=cost)


@cache
def _format(older: bool, published: bool, *, at_openai: bool, cost: ImageCost | None) -> OpenAIFormat:  # noqa: FBT001  # a key
    """One format for all models of the same rules."""
    return OpenAIFormat(older=older, published=published, at_openai=at_openai, image_cost=cost)
