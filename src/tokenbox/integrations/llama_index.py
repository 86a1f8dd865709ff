"""LlamaIndex: a memory whose messages fit, and the nodes that are worth most.

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
    """A memory that keeps everything, and tells the model what fits into ``budget`` tokens.

    LlamaIndex gives a memory no tools: leave room for their schemas, and for the answer. ``options`` are
    those of :func:`tokenbox.fit`.
    """

    budget: int = Field(description="Most tokens of the messages as a request.")
    model: str = Field(description="Whose chat format counts.")
    options: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def class_name(cls) -> str:
        return "FitMemory"

    @classmethod
    def from_defaults(
        cls, chat_history: list[ChatMessage] | None = None, llm: Any = None, **kwargs: Any
    ) -> FitMemory:
        """A memory with these messages. Without ``model``, that of ``llm`` counts."""
        if llm is not None:
            kwargs.setdefault("model", llm.metadata.model_name)
        memory = cls(**kwargs)
        if chat_history is not None:
            memory.set(chat_history)
        return memory

    def get(self, input: str | None = None, initial_token_count: int = 0, **_: Any) -> list[ChatMessage]:  # noqa: A002  # LlamaIndex's name
        """The messages that fit beside ``initial_token_count`` tokens, and beside the question ``input``."""
        kept = self.get_all()
        last = next((one.content for one in reversed(kept) if one.role == MessageRole.USER), None)
        asked = [] if input in {None, last} else [ChatMessage(role="user", content=input)]
        messages = Fitting(self.budget, self.model, self.options).fit(
            [*kept, *asked], beside=initial_token_count
        )
        return messages[: len(messages) - len(asked)]

    async def aget(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:  # noqa: A002
        """As :meth:`get`, in a thread."""
        return await asyncio.to_thread(self.get, input, **kwargs)


class SelectNodes(BaseNodePostprocessor):
    """The nodes worth most to the query in at most ``budget`` tokens, without copies, in their order.

    ``by_score``: the scores of the retriever are the worth; otherwise the words of the query are.
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
