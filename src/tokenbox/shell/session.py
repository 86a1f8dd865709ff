"""A session as data: its settings, models, context and record. It has no terminal and no clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tokenbox.ledger.totals import cost_text
from tokenbox.shell import proposals
from tokenbox.shell.outputs import OutputOffer, offer
from tokenbox.shell.screen import Screen, in_tokens

if TYPE_CHECKING:
    from tokenbox.config import Config
    from tokenbox.engine.steps import WindowStep
    from tokenbox.ledger import Call
    from tokenbox.proof.evidence import Evidence
    from tokenbox.shell.context import Context
    from tokenbox.shell.mcp_tools import McpTools
    from tokenbox.shell.memory import Memory
    from tokenbox.shell.models import Models
    from tokenbox.shell.record import SessionRecord
    from tokenbox.shell.running import Ran, WorkingPlace
    from tokenbox.shell.settings import PromptTemplate, ShellSettings
    from tokenbox.tokenizers.protocol import Tokenizer

# Attempts to cut an output again if the model counts more than the local tokenizer.
MAX_CUTS: Final = 6


@dataclass(slots=True, eq=False)
class Session:
    """The state of a session. ``models`` has the current model, ``context`` what is sent to it."""

    screen: Screen
    config: Config
    settings: ShellSettings
    models: Models
    context: Context
    record: SessionRecord
    place: WorkingPlace
    memory: Memory
    mcp: McpTools
    template: PromptTemplate
    new_id: Callable[[], str]
    wanted_budget: int
    wait: Callable[[float], object]
    proposals_on: bool = False
    evictions: list[WindowStep] = field(default_factory=list)  # since the last call
    last_call: Evidence | None = None
    ended: bool = False
    answered: Call | None = None  # the last call, while the context is unchanged since
    warned: bool = False  # that the context is nearly full
    typed: str = ""  # ahead, while a command was running
    begun: str = ""  # the initial text of the next prompt
    approved: set[str] = field(default_factory=set)

    def offered(self, ran: Ran) -> OutputOffer:
        """Return a command and its output as an offer within the budget of outputs.

        The local tokenizer cuts it. If the model counts more, it is cut again until it fits.
        """
        budget = room = self._output_budget
        command = self.models.count_here(ran.command).value
        offered = offer(ran, room, self.tokenizer, self.models.keys.hidden_in)
        for _ in range(MAX_CUTS):
            size = self.models.count_text(offered.text).value
            if size <= budget or room <= 0:
                break
            room = min(room - 1, max(offered.kept, command)) * budget // size
            offered = offer(ran, room, self.tokenizer, self.models.keys.hidden_in)
        return offered

    def cut(self, text: str) -> str:
        """Cut a text to the budget of outputs: its head and tail, and a line about the rest."""
        from tokenbox.content.lenses.lines import ends_tokens  # not needed for the first prompt

        return ends_tokens(text, self._output_budget, self.tokenizer)

    @property
    def attach_budget(self) -> int:
        """The tokens for attached files: half of the budget, less what is on offer already."""
        offered = sum(self.models.count_text(offer.text).value for offer in self.context.offers)
        return self.context.budget // 2 - offered

    @property
    def _output_budget(self) -> int:
        return max(1, min(self.settings.output_tokens, self.context.budget // 2))

    @property
    def tokenizer(self) -> Tokenizer:
        """The local tokenizer of the model, so that cutting makes no request."""
        return self.models.tokenizer

    def describe(self, offer: OutputOffer) -> str:
        size = in_tokens(self.models.count_text(offer.text))
        if offer.binary:
            return f"the output is not text; only its size is on offer, {size}"
        if offer.command.startswith("@"):
            part = "the parts relevant to the question; the rest is left out" if offer.cut else "all of it"
            return f"{size}, {part}"
        if offer.cut:
            about = "" if self.tokenizer.identity.exact else "~"
            return f"{size} on offer, the middle of {about}{offer.whole:,} left out; :drop last undoes it"
        return f"{size} on offer; :drop last undoes it"

    def prompt(self) -> str:
        used = "ctx_used" in self.template.fields
        total = self.context.about(self.answered) if used else None
        return self.template.filled(
            {
                "model": self.models.label or "no model",
                "ctx_used": "" if total is None else str(total),
                "ctx_budget": f"{self.context.budget:,}",
                "cost": cost_text(self.record.ledger.total),
                "folder": self.place.folder,
                "status": str(self.place.status),
                "session": self.record.name or "new",
            }
        )

    def set_budget(self, tokens: int) -> None:
        """Set the budget that the user wants; a model's window may allow less."""
        self.wanted_budget = self.context.conversation.token_budget = tokens

    def tools(self) -> list[Mapping[str, object]]:
        return [*([proposals.RUN_COMMAND] if self.proposals_on else []), *self.mcp.schemas]

    def settings_to_keep(self) -> Mapping[str, object]:
        """Return the settings that are stored with the session. They contain no key."""
        project = self.context.project
        return {
            "token_budget": self.wanted_budget,
            "project": None if project is None else project.path,
            "tools": self.proposals_on,
            "folder": self.place.folder,
        }

    def close(self) -> None:
        self.mcp.close()
        self.record.close()
        self.models.close()
