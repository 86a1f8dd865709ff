r"""tokenbox compiles LLM context: exact token budgets, the same bytes every time, every decision recorded.

>>> import tokenbox
>>> result = tokenbox.layout(
...     [
...         {"id": "rules", "content": "Answer in English."},
...         {"id": "notes", "content": "one two three four five", "shrink": 1},
...     ],
...     budget=28,
...     tokenizer="utf8-bytes",
... )
>>> result.text
'Answer in English.\n\none two '
>>> result.total
28
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.__about__ import __version__
from tokenbox.exports import on_first_use as _on_first_use

if TYPE_CHECKING:
    from tokenbox import api as api
    from tokenbox import batch as batch
    from tokenbox import caching as caching
    from tokenbox import catalog as catalog
    from tokenbox import compose as compose
    from tokenbox import config as config
    from tokenbox import content as content
    from tokenbox import conversation as conversation
    from tokenbox import ctx as ctx
    from tokenbox import documents as documents
    from tokenbox import engine as engine
    from tokenbox import errors as errors
    from tokenbox import folder as folder
    from tokenbox import inspect as inspect
    from tokenbox import lcp as lcp
    from tokenbox import ledger as ledger
    from tokenbox import models as models
    from tokenbox import policy as policy
    from tokenbox import proof as proof
    from tokenbox import providers as providers
    from tokenbox import render as render
    from tokenbox import store as store
    from tokenbox import tokenizers as tokenizers
    from tokenbox.api import breakpoints, count, fit, layout, pack, render_blocks, select, whatif
    from tokenbox.compose.layout import Layout
    from tokenbox.compose.requests import Count
    from tokenbox.content.group import Group
    from tokenbox.content.message import Message
    from tokenbox.content.section import Cut, Keep, Section
    from tokenbox.conversation import ChatFormat, Conversation, Fitted
    from tokenbox.engine.result import Action, Decision, Policy, Reason, SectionResult, Step
    from tokenbox.errors import ContextCriticalOverflow, TokenboxError
    from tokenbox.policy import override as override
    from tokenbox.tokenizers.protocol import Tokenizer, TokenizerIdentity

__all__ = [
    "Action",
    "ChatFormat",
    "ContextCriticalOverflow",
    "Conversation",
    "Count",
    "Cut",
    "Decision",
    "Fitted",
    "Group",
    "Keep",
    "Layout",
    "Message",
    "Policy",
    "Reason",
    "Section",
    "SectionResult",
    "Step",
    "TokenboxError",
    "Tokenizer",
    "TokenizerIdentity",
    "__version__",
    "breakpoints",
    "count",
    "fit",
    "layout",
    "pack",
    "render_blocks",
    "select",
    "whatif",
]

# Modules are imported on first use, to keep `import tokenbox` fast.
if not TYPE_CHECKING:  # a type checker reads the imports above, and reports any other name
    _PARTS = {
        name.rpartition(".")[-1]: name
        for name in """
            api batch caching catalog compose config content conversation ctx documents engine errors folder
            inspect lcp ledger models policy policy.override proof providers render store tokenizers
        """.split()
    }
    __getattr__ = _on_first_use(
        __name__,
        {
            "api": "breakpoints count fit layout pack render_blocks select whatif",
            "compose.requests": "Count",
            "compose.layout": "Layout",
            "content.message": "Message",
            "content.group": "Group",
            "content.section": "Cut Keep Section",
            "conversation": "ChatFormat Conversation Fitted",
            "engine.result": "Action Decision Policy Reason SectionResult Step",
            "errors": "ContextCriticalOverflow TokenboxError",
            "tokenizers.protocol": "Tokenizer TokenizerIdentity",
        },
        _PARTS,
    )

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *_PARTS})
