"""A base class for request counters that also accept messages and tools."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tokenbox.content.request import read_request

if TYPE_CHECKING:
    from tokenbox.compose.requests import Count
    from tokenbox.content.request import Request
    from tokenbox.tokenizers.protocol import TokenizerIdentity


class CountsMessages(ABC):
    """A request counter that accepts messages and tools as they are."""

    identity: TokenizerIdentity

    @abstractmethod
    def count_request(self, request: Request) -> Count:
        """Return the count of a complete request."""

    @property
    def exact(self) -> bool:
        return self.identity.exact

    def exact_for(self, messages: Sequence[Any], tools: Sequence[Mapping[str, Any]] | None = None) -> bool:
        return self.count_request(read_request(list(messages), tools=tools)).exact

    def count_messages(
        self,
        messages: Sequence[Any],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        add_generation_prompt: bool = True,  # a request always has it
    ) -> int:
        return self.count_request(read_request(list(messages), tools=tools)).total
