"""The entry of a result of tokenbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tokenbox.compose.blocks import BlockLayout
from tokenbox.compose.layout import Layout
from tokenbox.conversation import Conversation, Fitted
from tokenbox.folder import PackedFolder
from tokenbox.inspect.of_layout import blocks_entry, layout_entry, pack_entry
from tokenbox.inspect.of_messages import conversation_entry, fitted_entry
from tokenbox.inspect.of_policy import enforcement_entry, plan_entry
from tokenbox.inspect.record import NothingToInspect, PageEntry
from tokenbox.policy.records import Enforcement, PackPlan


def entry_of(value: object, title: str | None = None, *, small: bool = False) -> PageEntry:
    """Return the entry of a layout, blocks, pack, plan, decision, fitted messages or conversation.

    ``title``: its heading; the default is the name of its kind. ``small``: without other budgets, token
    boundaries and the texts of forms, which take time. Raises :class:`NothingToInspect` for another value,
    and ``PageTooLarge``.
    """
    if isinstance(value, PageEntry):
        return value
    table: Sequence[tuple[type, Callable[[Any, str], PageEntry], str]] = (
        (Layout, partial(layout_entry, small=small), "layout"),
        (BlockLayout, blocks_entry, "blocks"),
        (PackedFolder, pack_entry, "pack"),
        (PackPlan, partial(plan_entry, small=small), "plan"),
        (Enforcement, enforcement_entry, "decision"),
        (Fitted, fitted_entry, "conversation"),
        (Conversation, conversation_entry, "conversation"),
    )
    for kind, build, name in table:
        if isinstance(value, kind):
            return build(value, name if title is None else title)
    raise NothingToInspect(
        "a page shows a Layout, BlockLayout, PackedFolder, PackPlan, Enforcement, Fitted or Conversation, "
        f"not {type(value).__name__}."
    )
