"""Requests counted locally, by a chat template, a vocabulary, and the rules of the server that uses them.

A count is exact if that is proven: template, vocabulary and rules are in the table that the corpus command
writes (``llama/verified.json``), and the request has no feature that the proof does not cover.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tokenbox.compose.bound import Bound
from tokenbox.compose.lower_bound import lower_bound
from tokenbox.compose.remembered import COUNTS
from tokenbox.compose.requests import NO_BOUND, By, Count, RunningCount
from tokenbox.content.message import Message, Object, Role, thaw
from tokenbox.content.request import Request, texts_and_ids
from tokenbox.conversation.llama.prompt import LlamaTemplate
from tokenbox.conversation.llama.run import Run
from tokenbox.conversation.llama.server_request import COSTLESS, ServerRequest, asked, can_be_sent
from tokenbox.conversation.llama.session import LlamaSession
from tokenbox.conversation.llama.syntax import TemplateError, TemplateTooLarge
from tokenbox.conversation.llama.verified import is_verified, is_verified_vocabulary
from tokenbox.conversation.markers import MarkersFormat
from tokenbox.conversation.pieces import CountsMedia
from tokenbox.conversation.sent import (
    SOME_DAY,
    as_rendered,
    as_texts,
    in_chat_shape,
    mapping,
    only_days,
    tool_mappings,
)
from tokenbox.conversation.transformers_session import TransformersSession
from tokenbox.tokenizers.protocol import TokenizerIdentity

if TYPE_CHECKING:
    from tokenbox.conversation.folded import FoldedTemplate
    from tokenbox.tokenizers.special import ChatVocabulary, PromptTokenizer

    Clock = Callable[[], dt.datetime]
    MessageLike = Message | Mapping[str, object]
    Tools = Sequence[Mapping[str, Any]] | None

_OTHER_DAY: Final = dt.datetime(2031, 12, 3, 12, tzinfo=dt.UTC)
_ONE_DAY: Final = dt.timedelta(days=1)
_WESTERNMOST: Final = dt.timezone(dt.timedelta(hours=-12))
_EASTERNMOST: Final = dt.timezone(dt.timedelta(hours=14))


class TemplateFormat(CountsMedia):
    """A counter with a chat template and a local tokenizer. Pieces between special tokens are cached.

    ``proves_prompts``: the server is known to tokenize the prompts of completions like the vocabulary.
    """

    server: ClassVar[str]
    proves_prompts: bool

    def __init__(
        self,
        vocabulary: ChatVocabulary,
        source: str,
        now: dt.datetime | Clock | None,
        variables: Mapping[str, Any],
    ) -> None:
        self.source = source
        self._vocabulary = vocabulary
        self.bound = Bound(vocabulary.tokenizer)
        self._given = dict(variables)
        self._clock = now
        self.template_digest = hashlib.sha256(source.encode()).hexdigest()
        inner = vocabulary.prompts.identity
        time = "clock" if callable(now) else repr(now)
        given = [inner.fingerprint, self.template_digest, self.server, time, sorted(variables.items())]
        digest = hashlib.sha256(json.dumps(given, default=repr).encode()).hexdigest()
        exact = inner.exact and vocabulary.as_saved and is_verified(self.server, source, vocabulary.kind)
        self.identity = TokenizerIdentity(f"{inner.name} chat", inner.version, digest, exact)
        self._open()

    @abstractmethod
    def _open(self) -> None:
        """Parse the template. Raises ``TemplateError``."""

    @property
    def prompts(self) -> PromptTokenizer:
        return self._vocabulary.prompts

    def now(self) -> dt.datetime | None:
        """The time of the request; None if none was given."""
        clock = self._clock
        return clock() if callable(clock) else clock

    @abstractmethod
    def render(
        self, messages: Sequence[MessageLike], tools: Tools = None, *, add_generation_prompt: bool = True
    ) -> str:
        """Return the prompt. Raises ``TemplateError``."""

    def count_messages(
        self, messages: Sequence[MessageLike], tools: Tools = None, *, add_generation_prompt: bool = True
    ) -> int:
        text = self.render(messages, tools, add_generation_prompt=add_generation_prompt)
        return self.count_prompt(text)

    def count_request(self, request: Request) -> Count:
        """Return the count of the request. Raises ``TemplateError`` if the server would refuse it.

        If the template does more for these messages than the sandbox allows, the count is an estimate. It has
        no upper bound, as the template could write any number of tokens.
        """
        if request.prompts:
            return self._count_prompts(request)
        try:
            return self._count_rendered(request)
        except TemplateTooLarge:
            markers = MarkersFormat(self._vocabulary.tokenizer, image_cost=self.image_cost)
            return replace(markers.priced(self.media_tokens).count_request(request), at_most=NO_BOUND)

    @abstractmethod
    def _count_rendered(self, request: Request) -> Count:
        """Return the count of the prompt that the template makes of the request."""

    @abstractmethod
    def session(self) -> RunningCount:
        """Start the running count of a conversation."""

    def count_prompt(self, text: str) -> int:
        return self._vocabulary.prompts.count(text)

    def count_text(self, text: str) -> int:
        """Return the tokens of a text, through the cache that the bound of a request uses, too."""
        return COUNTS.each(self._vocabulary.tokenizer, [text])[0]

    def _count_prompts(self, request: Request) -> Count:
        """Count prompts of completions, whose texts are tokenized like a rendered prompt."""
        totals = [
            ids + sum(map(self.count_prompt, texts)) for texts, ids in map(texts_and_ids, request.prompts)
        ]
        proven = self.proves_prompts and self._vocabulary.tokenizer.identity.exact and not request.fields
        exact = proven and all(isinstance(prompt, str) for prompt in request.prompts)
        total = sum(totals)
        at_most = total if exact else max(total, self.bound.request(request))
        return Count(total, exact, at_most, By.TEXT, max(totals) if len(totals) > 1 else None)

    def message_size(self, message: Message) -> int:
        """Return the tokens of a message by itself, with its markers if it can be rendered alone."""
        try:
            return self.count_messages([message], add_generation_prompt=False)
        except TemplateError:  # a template may require a question before an answer
            return self._vocabulary.prompts.count(message.counted_text)


class LlamaFormat(TemplateFormat):
    """A counter for a template as a llama.cpp server renders it."""

    server = "llama.cpp"

    def _open(self) -> None:
        vocabulary = self._vocabulary
        self.proves_prompts = is_verified_vocabulary(vocabulary.kind)
        self.template = LlamaTemplate(
            self.source,
            bos=vocabulary.bos,
            eos=vocabulary.eos,
            add_bos=vocabulary.add_bos,
            add_eos=vocabulary.add_eos,
        )
        self.added = vocabulary.add_bos + vocabulary.add_eos

    def render(
        self, messages: Sequence[MessageLike], tools: Tools = None, *, add_generation_prompt: bool = True
    ) -> str:
        request = self.asked(messages, tools, {"add_generation_prompt": add_generation_prompt})
        return self._text(request, self.now() or SOME_DAY)[0]

    def count_prompt(self, text: str) -> int:
        return super().count_prompt(text) + self.added

    def _count_rendered(self, request: Request) -> Count:
        fields: dict[str, Any] = thaw(request.fields)
        messages, media = in_chat_shape(request.messages), sum(map(self.media, request.messages))
        this = self.asked(messages, [thaw(tool) for tool in request.tools], fields)
        total = self.count_prompt(self._text(this, self.now() or SOME_DAY)[0]) + media + self.unread(fields)
        proven = self.exact and request.verbatim and messages is request.messages
        exact = proven and COSTLESS.issuperset(fields) and self._is_certain(this)
        return Count(total, exact, total if exact else max(total, self.bound.request(request)), By.TEMPLATE)

    def unread(self, fields: Mapping[str, Any]) -> int:
        """Return the tokens of the fields whose effect on the prompt is unknown: a server may show them."""
        unknown = {name: value for name, value in fields.items() if name not in COSTLESS}
        return lower_bound(unknown, self._vocabulary.tokenizer) if unknown else 0

    def asked(
        self, messages: Sequence[MessageLike], tools: Tools, fields: Mapping[str, Any]
    ) -> ServerRequest:
        arguments = fields.get("chat_template_kwargs")
        if self._given:
            asked_for = arguments if isinstance(arguments, dict) else {}
            fields = {**fields, "chat_template_kwargs": self._given | asked_for}
        return asked([mapping(message) for message in messages], tool_mappings(tools), fields)

    def _text(self, request: ServerRequest, now: dt.datetime) -> tuple[str, Run]:
        run = Run(now)
        return self.template.text(self.template.prepared(request, now), run), run

    def _is_certain(self, request: ServerRequest) -> bool:
        """Return True if neither the date nor unknown settings of the server change the count."""
        if not can_be_sent(request.messages):
            return False
        now = self.now()
        text, run = self._text(request, now or SOME_DAY)
        if run.uncertain or not only_days(run.dated):
            return False
        prompts = (self._text(other, day)[0] for other, day in self.others(request, now))
        return all(p == text or self.count_prompt(p) == self.count_prompt(text) for p in prompts)

    def others(
        self, request: ServerRequest, now: dt.datetime | None
    ) -> Iterator[tuple[ServerRequest, dt.datetime]]:
        """Yield variants that the server may use: the days in other time zones, and past thoughts kept."""
        if self.template.prints_dates:
            for day in _other_days(now):
                yield request, day
        if self.template.preserves and "preserve_reasoning" not in request.variables:
            kept = {**request.variables, "preserve_reasoning": True}
            yield replace(request, variables=kept), now or SOME_DAY

    def session(self) -> RunningCount:
        return LlamaSession(self)


def _other_days(now: dt.datetime | None) -> tuple[dt.datetime, ...]:
    """Return times of the days that a server may have at that time; its zone is unknown."""
    if now is None:
        return (_OTHER_DAY,)
    if now.tzinfo is None:
        return (now - _ONE_DAY, now + _ONE_DAY)
    return (now.astimezone(_WESTERNMOST), now.astimezone(_EASTERNMOST))


class TransformersFormat(TemplateFormat):
    """A counter for a template as ``transformers`` renders it, with Jinja2 in a sandbox.

    Exact for requests that all such servers render alike: messages of a role and a text, without tools, that
    end in a question, by a template that was compared with the library and prints no date.
    """

    server = "transformers"
    proves_prompts = False

    def _open(self) -> None:
        from tokenbox.conversation.template import ChatTemplate  # Jinja2 is slow to import

        self._template = ChatTemplate(self.source, now=self.now)

    @cached_property
    def folded(self) -> FoldedTemplate:
        """The template for sessions, which render only the turns that changed."""
        from tokenbox.conversation.folded import FoldedTemplate  # it imports Jinja2, too

        return FoldedTemplate(self.source)

    def variables(self, tools: Tools, *, add_generation_prompt: bool = True) -> dict[str, Any]:
        """Return the variables of a render without the messages."""
        tokens = {"bos_token": self._vocabulary.bos, "eos_token": self._vocabulary.eos}
        given = not self._vocabulary.as_saved  # else a token that is not named is undefined
        made: dict[str, Any] = {name: token for name, token in tokens.items() if token or given}
        made |= {"documents": None} | self._given
        shown = [dict(tool) for tool in tool_mappings(tools)] or None
        return made | {"tools": shown, "add_generation_prompt": add_generation_prompt}

    def render(
        self, messages: Sequence[MessageLike], tools: Tools = None, *, add_generation_prompt: bool = True
    ) -> str:
        sent = [as_rendered(message) for message in messages]
        variables = self.variables(tools, add_generation_prompt=add_generation_prompt)
        try:
            return self._template.render(variables | {"messages": sent})
        except TemplateTooLarge:
            raise
        except TemplateError:
            texts = [as_texts(message) for message in sent]
            if texts == sent:
                raise
            return self._template.render(variables | {"messages": texts})

    def _count_rendered(self, request: Request) -> Count:
        messages, media = in_chat_shape(request.messages), sum(map(self.media, request.messages))
        total = self.count_messages(messages, [thaw(tool) for tool in request.tools]) + media
        total += self.unread(request.fields)
        exact = self.exact and self.covers(request)
        at_most = total if exact else max(total, self.bound.request(request))
        return Count(total, exact, at_most, By.TEMPLATE)

    def unread(self, fields: Object) -> int:
        """Return the tokens of the fields: a server may show them."""
        return lower_bound(fields, self._vocabulary.tokenizer)

    def covers(self, request: Request) -> bool:
        """Return True if all servers of this kind render this request alike."""
        messages = request.messages
        beside = request.tools or request.fields or self._given or "strftime_now" in self.source
        asks = bool(messages) and messages[-1].role is Role.USER
        return request.verbatim and not beside and asks and all(map(self.is_covered, messages))

    @staticmethod
    def is_covered(message: Message) -> bool:
        """Return True if all servers of this kind show this message alike: it has a role and a text."""
        return isinstance(message.content, str) and len(message.source) == len(("role", "content"))

    def session(self) -> RunningCount:
        return TransformersSession(self)


FORMATS: Final = {made.server: made for made in (LlamaFormat, TransformersFormat)}
"""The template formats by the server whose rules they follow."""
