"""LlamaIndex: a memory that fits its messages, and a postprocessor that selects nodes within a budget.

agent.run(question, memory=FitMemory.from_defaults(budget=8_000, model="gpt-4o"))
"""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import Field
from llama_index.core.memory.types import BaseChatStoreMemory
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle

from tokenbox import api
from tokenbox.integrations.fitting import Fitting


class FitMemory(BaseChatStoreMemory):
    """A memory that keeps all messages, and returns those that fit into ``budget`` tokens.

    LlamaIndex passes no tools to a memory: leave room for their schemas, and for the answer. ``options`` are
    those of :func:`tokenbox.fit`.
    """

    budget: int = Field(description="Maximum tokens of the messages as a request.")
    model: str = Field(description="The model whose chat format is counted.")
    options: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def class_name(cls) -> str:
        return "FitMemory"

    @classmethod
    def from_defaults(
        cls, chat_history: list[ChatMessage] | None = None, llm: Any = None, **kwargs: Any
    ) -> FitMemory:
        """Build a memory with these messages. The default ``model`` is that of ``llm``."""
        if llm is not None:
            kwargs.setdefault("model", llm.metadata.model_name)
        memory = cls(**kwargs)
        if chat_history is not None:
            memory.set(chat_history)
        return memory

    def get(self, input: str | None = None, initial_token_count: int = 0, **_: Any) -> list[ChatMessage]:
        """Return the messages that fit besides the question ``input`` and ``initial_token_count`` tokens."""
        stored = self.get_all()
        last = next((one.content for one in reversed(stored) if one.role == MessageRole.USER), None)
        question = [] if input in {None, last} else [ChatMessage(role="user", content=input)]
        messages = Fitting(self.budget, self.model, self.options).fit(
            [*stored, *question], beside=initial_token_count
        )
        return messages[: len(messages) - len(question)]

    async def aget(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:
        """Run :meth:`get` in a thread."""
        return await asyncio.to_thread(self.get, input, **kwargs)


class SelectNodes(BaseNodePostprocessor):
    """Selects the most relevant nodes in at most ``budget`` tokens, without duplicates, in their order.

    ``by_score``: rank by the scores of the retriever; otherwise by the words of the query.
    """

    budget: int
    model: str
    by_score: bool = True

    @classmethod
    def class_name(cls) -> str:
        return "SelectNodes"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        chunks = [
            {
                "text": node.node.get_content(metadata_mode=MetadataMode.LLM),
                "score": node.score if self.by_score else None,
            }
            for node in nodes
        ]
        query = None if query_bundle is None else query_bundle.query_str
        selection = api.select(chunks, self.budget, query, model=self.model)
        return [nodes[i] for i in selection.shown]
