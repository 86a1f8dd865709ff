"""Counting a request whole: messages, tools and what primes the reply, as the server will count them."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tokenbox.content.message import InvalidMessage, Message, Role, UndeclaredCost, check_tools
from tokenbox.errors import MissingExtra, TokenizerError, UnsupportedOperation
from tokenbox.tokenizers.protocol import TokenizerIdentity
from tokenbox.tokenizers.registry import get

if TYPE_CHECKING:
    import datetime as dt
    import os
    from collections.abc import Callable

    from tokenbox.conversation.llama_cpp import Abilities
    from tokenbox.tokenizers.special import ChatVocabulary

    MessageLike = Message | Mapping[str, object]
    Tools = Sequence[Mapping[str, Any]] | None
    Request = tuple[list[dict[str, Any]], list[dict[str, Any]] | None, bool]
    ServerCount = Callable[[list[dict[str, Any]], list[dict[str, Any]] | None, bool], Any]

LLAMA_CPP: Final = "llama.cpp"
TRANSFORMERS: Final = "transformers"
_ROLES: Final = frozenset(role.value for role in Role)
# Characters of messages that are kept with their counts. Of one message no more than half of them.
_REMEMBERED: Final = 1_000_000


class ChatFormat:
    """Counts requests whole. Made by :meth:`open`, :meth:`openai` or :meth:`from_server`.

    ``identity`` says who counts, ``template_digest`` by which template. ``exact``: the figures are the
    server's own; :meth:`exact_for` says it of one request.
    """

    identity: TokenizerIdentity
    template_digest: str | None = None

    @staticmethod
    def open(
        path: str | os.PathLike[str],
        *,
        server: str | None = None,
        template: str | None = None,
        now: dt.datetime | None = None,
        **variables: Any,  # noqa: ANN401  # what a template asks for
    ) -> TemplateFormat:
        """The format of a GGUF file, or of a folder with ``tokenizer.json`` and ``tokenizer_config.json``.

        ``server``: ``"llama.cpp"`` (default for GGUF), whose server changes messages before it renders them,
        or ``"transformers"`` (default for a folder), which renders them as they are. ``template`` is one to
        use instead of the model's. ``now``: the time, for templates that print the date. ``variables``: what
        else the template is given, such as ``enable_thinking=False``.

        Raises ``VocabularyError``, or ``TemplateError`` for a template that does not parse.
        """
        from tokenbox.tokenizers.special import open_chat_vocabulary  # noqa: PLC0415  # on use

        vocabulary = open_chat_vocabulary(path)
        source = vocabulary.template if template is None else template
        if source is None:
            raise UnsupportedOperation(f"{path} has no chat template. Give one: template=...")
        how = server or (TRANSFORMERS if Path(path).is_dir() else LLAMA_CPP)
        if how not in {LLAMA_CPP, TRANSFORMERS}:
            raise UnsupportedOperation(f"no server {how!r}. There are: {LLAMA_CPP}, {TRANSFORMERS}.")
        return TemplateFormat(vocabulary, source, how, now, variables)

    @staticmethod
    def openai(model: str) -> OpenAIFormat:
        """The published rules of OpenAI's chat models; an estimate where they are not published."""
        return _openai(*OpenAIFormat.rules(model))

    @staticmethod
    def from_server(count: ServerCount, name: str, *, exact: bool = True) -> ServerFormat:
        """What a server says: ``count(messages, tools, add_generation_prompt)``, asked once a request."""
        return ServerFormat(count, name, exact=exact)

    @property
    def exact(self) -> bool:
        return self.identity.exact

    def exact_for(self, messages: Sequence[MessageLike], tools: Tools = None) -> bool:
        """Whether the count of this request is exact."""
        return self.exact

    def count_messages(
        self, messages: Sequence[MessageLike], tools: Tools = None, *, add_generation_prompt: bool = True
    ) -> int:
        """The tokens of the request. Without ``add_generation_prompt``, of what is not yet to be answered."""
        raise NotImplementedError

    def message_sizes(self, messages: Sequence[MessageLike]) -> list[int]:
        """What each message counts by itself, with its markers, where it can stand by itself."""
        sizes = []
        for message in messages:
            try:
                sizes.append(self.count_messages([message], add_generation_prompt=False))
            except TokenizerError:
                raise
            except Exception:  # noqa: BLE001  # a template may ask for a question before an answer
                sizes.append(self._text_size(Message.of(message)))
        return sizes

    def _text_size(self, message: Message) -> int:
        return get("chars4").count(message.counted_text)


class TemplateFormat(ChatFormat):
    """A chat template and a local tokenizer. Every piece between special tokens is counted once."""

    def __init__(
        self,
        vocabulary: ChatVocabulary,
        source: str,
        server: str,
        now: dt.datetime | None,
        variables: Mapping[str, Any],
    ) -> None:
        try:
            from tokenbox.conversation import llama_cpp  # noqa: PLC0415  # Jinja is loaded on use
            from tokenbox.conversation.template import ChatTemplate  # noqa: PLC0415
        except ImportError:
            raise MissingExtra.of("a chat template", "all") from None
        self._llama_cpp = llama_cpp
        self._vocabulary = vocabulary
        self._is_llama_cpp = server == LLAMA_CPP
        dump = llama_cpp.to_json if self._is_llama_cpp else None
        self._template = ChatTemplate(source, now=now, dump=dump, lenient=self._is_llama_cpp)
        self._variables = {"bos_token": vocabulary.bos, "eos_token": vocabulary.eos, **variables}
        self._able: Abilities | None = None
        if self._is_llama_cpp:
            self._variables.setdefault("enable_thinking", True)
            self._able = llama_cpp.abilities(self._template, self._variables)
        self.template_digest = hashlib.sha256(source.encode()).hexdigest()
        inner = vocabulary.prompts.identity
        given = [inner.fingerprint, self.template_digest, server, repr(now), sorted(variables.items())]
        digest = hashlib.sha256(json.dumps(given, default=repr).encode()).hexdigest()
        known = not self._is_llama_cpp or not any(mark in source for mark in llama_cpp.OWN_WAYS)
        self.identity = TokenizerIdentity(f"{inner.name} chat", inner.version, digest, inner.exact and known)

    def exact_for(self, messages: Sequence[MessageLike], tools: Tools = None) -> bool:
        """Whether the count of this request is exact. How llama.cpp goes on with thoughts is read off."""
        goes_on = self._llama_cpp.goes_on([_mapping(message) for message in messages[-1:]])
        return self.exact and not (self._able is not None and self._able.thinks and goes_on)

    def render(
        self, messages: Sequence[MessageLike], tools: Tools = None, *, add_generation_prompt: bool = True
    ) -> str:
        """The prompt itself. Raises ``TemplateError``."""
        given = [_mapping(message) for message in messages]
        if self._able is None:
            variables = {**self._variables, "messages": given, "add_generation_prompt": add_generation_prompt}
            return self._template.render(
                variables | {"tools": [dict(tool) for tool in _tool_mappings(tools)] if tools else None}
            )
        known_tools = self._llama_cpp.normalized_tools(_tool_mappings(tools) if tools else None)
        variables = self._variables | ({} if known_tools is None else {"tools": known_tools})
        text = self._llama_cpp.prompt(
            self._template, variables, given, self._able, add_generation_prompt=add_generation_prompt
        )
        vocabulary = self._vocabulary
        text = text.removeprefix(vocabulary.bos) if vocabulary.add_bos else text
        return text.removesuffix(vocabulary.eos) if vocabulary.add_eos else text

    def count_messages(
        self, messages: Sequence[MessageLike], tools: Tools = None, *, add_generation_prompt: bool = True
    ) -> int:
        text = self.render(messages, tools, add_generation_prompt=add_generation_prompt)
        added = self._vocabulary.add_bos + self._vocabulary.add_eos if self._is_llama_cpp else 0
        return self._vocabulary.prompts.count(text) + added + _declared(messages)

    def _text_size(self, message: Message) -> int:
        return self._vocabulary.prompts.count(message.counted_text)


class OpenAIFormat(ChatFormat):
    """OpenAI's published rules: 3 tokens a message and its fields, 1 more for a name, 3 for the reply.

    What they say of tools and calls is an estimate, and for models after GPT-4o nothing is published.
    Source: the OpenAI Cookbook, "How to count tokens with tiktoken".
    """

    _OLDER: ClassVar = ("gpt-4-", "gpt-3.5-turbo", "gpt-35-turbo")
    _PUBLISHED: ClassVar = ("gpt-4o", "gpt-4-", "gpt-3.5-turbo", "gpt-35-turbo")

    @classmethod
    def rules(cls, model: str) -> tuple[bool, bool]:
        """Whether the model is an older one, and whether its rules are published."""
        known = f"{model}-"
        return known.startswith(cls._OLDER), known.startswith(cls._PUBLISHED)

    def __init__(self, *, older: bool, published: bool) -> None:
        self._tokenizer = get("cl100k_base" if older else "o200k_base")
        # What a function costs to begin with.
        self._function = 10 if older else 7
        inner = self._tokenizer.identity
        digest = hashlib.sha256(f"openai/1:{inner.fingerprint}:{self._function}".encode()).hexdigest()
        self.identity = TokenizerIdentity(f"{inner.name} openai", "1", digest, published)
        # Messages by what of them is counted: an image of megabytes is not. Plain ones by role and text, so
        # that they need not be read again.
        self._counts: dict[tuple[object, ...], int] = {}
        self._remembered = 0

    def exact_for(self, messages: Sequence[MessageLike], tools: Tools = None) -> bool:
        return self.exact and not tools and all(_plain(m) or self._is_text(Message.of(m)) for m in messages)

    @staticmethod
    def _is_text(message: Message) -> bool:
        return isinstance(message.content, str) and not message.tool_calls

    def count_messages(
        self, messages: Sequence[MessageLike], tools: Tools = None, *, add_generation_prompt: bool = True
    ) -> int:
        total = 3 if add_generation_prompt else 0
        others = []
        for message in messages:
            plain = _plain(message)
            if plain is None:
                read = Message.of(message)
                others.append(read)
                total += self._message(read)
            else:
                known = self._counts.get(plain)
                total += self._plain(plain) if known is None else known
        total += _declared(others) if others else 0
        return total + (self._tools(_tool_mappings(tools)) if tools else 0)

    def _plain(self, message: tuple[str, str]) -> int:
        role, text = message
        count = self._tokenizer.count
        return self._remember(message, 3 + count(role) + count(text), len(text))

    def _message(self, message: Message) -> int:
        role, text, name = message.role.value, message.text, message.name
        calls = tuple((call.name, call.arguments) for call in message.tool_calls)
        key = role, text, name, calls
        known = self._counts.get(key)
        if known is None:
            count = self._tokenizer.count
            known = 3 + count(role) + count(text) + (0 if name is None else 1 + count(name))
            known += sum(3 + count(called) + count(arguments) for called, arguments in calls)
            self._remember(key, known, len(message.counted_text) + len(name or "") + 100 * len(calls))
        return known

    def _remember(self, message: tuple[object, ...], count: int, size: int) -> int:
        size += 100
        if size <= _REMEMBERED // 2:
            self._remembered += size
            if self._remembered > _REMEMBERED:  # messages of long ago
                self._counts.clear()
                self._remembered = size
            self._counts[message] = count
        return count

    def _tools(self, tools: Sequence[Mapping[str, Any]]) -> int:
        count = self._tokenizer.count
        total = 12
        for tool in tools:
            function = _object(tool.get("function", tool))
            total += self._function
            total += count(f"{function.get('name', '')}:{str(function.get('description', '')).rstrip('.')}")
            properties = _object(_object(function.get("parameters")).get("properties"))
            total += 3 if properties else 0
            for key, schema in properties.items():
                about = _object(schema)
                total += 3
                if isinstance(about.get("enum"), list):
                    total += -3 + sum(3 + count(str(item)) for item in about["enum"])
                total += count(
                    f"{key}:{about.get('type', '')}:{str(about.get('description', '')).rstrip('.')}"
                )
        return total


@cache
def _openai(older: bool, published: bool) -> OpenAIFormat:  # noqa: FBT001  # a key
    """One format for all models of the same rules, and for all who count: what it remembers is theirs."""
    return OpenAIFormat(older=older, published=published)


class ServerFormat(ChatFormat):
    """What a server answers, each request asked once. For an async ``count``, use :meth:`acount_messages`."""

    def __init__(self, count: ServerCount, name: str, *, exact: bool) -> None:
        self._ask = count
        self._known: dict[str, int] = {}
        fingerprint = hashlib.sha256(f"server:{name}".encode()).hexdigest()
        self.identity = TokenizerIdentity(name, "unknown", fingerprint, exact)

    def count_messages(
        self, messages: Sequence[MessageLike], tools: Tools = None, *, add_generation_prompt: bool = True
    ) -> int:
        key, request = self._request(messages, tools, add_generation_prompt)
        if key not in self._known:
            answer = self._ask(*request)
            if inspect.isawaitable(answer):
                if inspect.iscoroutine(answer):
                    answer.close()
                raise UnsupportedOperation("this server is asked asynchronously: await acount_messages(...).")
            self._remember(key, answer)
        return self._known[key]

    async def acount_messages(
        self, messages: Sequence[MessageLike], tools: Tools = None, *, add_generation_prompt: bool = True
    ) -> int:
        """``count_messages``, awaiting the server's answer if it has to be awaited."""
        key, request = self._request(messages, tools, add_generation_prompt)
        if key not in self._known:
            answer = self._ask(*request)
            self._remember(key, await answer if inspect.isawaitable(answer) else answer)
        return self._known[key]

    def _request(
        self,
        messages: Sequence[MessageLike],
        tools: Tools,
        add: bool,  # noqa: FBT001  # as it is sent
    ) -> tuple[str, Request]:
        request = (
            [_mapping(message) for message in messages],
            [dict(t) for t in _tool_mappings(tools)] if tools else None,
            add,
        )
        try:
            key = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
        except (TypeError, ValueError):
            check_tools(tools)
            raise
        return key, request

    def _remember(self, key: str, answer: object) -> None:
        if type(answer) is not int or answer < 0:
            raise TokenizerError(f"the server gave {answer!r}; a count is an integer, 0 or more.")
        if len(self._known) >= 10_000:  # noqa: PLR2004  # requests of long ago
            self._known.clear()
        self._known[key] = answer


def _mapping(message: MessageLike) -> dict[str, Any]:
    """The message as it is sent, for a template or a server."""
    return Message.of(message).to_dict(declared=False)


def _tool_mappings(tools: object) -> Sequence[Mapping[str, Any]]:
    """The tools, if they are a list of mappings. What is in those, whoever reads them finds out."""
    if isinstance(tools, Sequence) and all(isinstance(tool, Mapping) for tool in tools):
        return tools
    check_tools(tools)
    raise InvalidMessage("tools are a list of mappings.")


def _object(value: object) -> Mapping[str, Any]:
    """The JSON object, empty if it is none."""
    return value if isinstance(value, Mapping) else {}


def _plain(message: MessageLike) -> tuple[str, str] | None:
    """Role and text of a mapping that has nothing else: by these it is found without being read again."""
    if type(message) is not dict or len(message) != 2:  # noqa: PLR2004
        return None
    role, content = message.get("role"), message.get("content")
    return (role, content) if type(content) is str and type(role) is str and role in _ROLES else None


def _declared(messages: Sequence[MessageLike]) -> int:
    """The declared costs of images and files."""
    total = 0
    for message in messages:
        for part in message.media if isinstance(message, Message) else Message.of(message).media:
            if part.tokens is None:
                raise UndeclaredCost(
                    f'nobody has said what this {part.kind.value} costs. Add "tokens": N to the part.',
                    kind=part.kind.value,
                )
            total += part.tokens
    return total
