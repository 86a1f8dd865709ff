"""A session as data: its settings, models, context and record. It knows no terminal and no clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tokenbox import tokenizers
from tokenbox.errors import TokenboxError
from tokenbox.shell import proposals
from tokenbox.shell.offers import OutputOffer, offer
from tokenbox.shell.screen import cost_text, figure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tokenbox.config import Config
    from tokenbox.engine.window import WindowStep
    from tokenbox.ledger import Call
    from tokenbox.proof.evidence import Evidence
    from tokenbox.shell.context import Context
    from tokenbox.shell.mcp_tools import McpTools
    from tokenbox.shell.memory import Memory
    from tokenbox.shell.models import Models
    from tokenbox.shell.record import SessionRecord
    from tokenbox.shell.running import Ran, WorkingPlace
    from tokenbox.shell.screen import Screen
    from tokenbox.shell.settings import PromptTemplate, ShellSettings
    from tokenbox.tokenizers.protocol import Tokenizer

# How often an output is cut again where the model's count is more than the local one.
CUTS: Final = 6


@dataclass(slots=True, eq=False)
class Session:
    """Everything a session is. ``models`` knows the current one, ``context`` what is sent to it."""

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
    answered: Call | None = None  # the last call, as long as the context is what it left
    warned: bool = False  # that the context is nearly full
    typed: str = ""  # ahead, while a command was running
    begun: str = ""  # what the next prompt has in it already
    approved: set[str] = field(default_factory=set)

    def offered(self, ran: Ran) -> OutputOffer:
        """The output of a command, as a model is told of it.

        It is cut by the local tokenizer; where the model counts more, it is cut again until it fits.
        """
        budget = room = self._output_budget
        made = offer(ran, room, self.tokenizer, self.models.keys.hidden_in)
        for _ in range(CUTS):
            size = self.models.count_text(made.text).value
            if size <= budget or not made.kept:
                break
            room = min(room - 1, made.kept) * budget // size
            made = offer(ran, room, self.tokenizer, self.models.keys.hidden_in)
        return made

    def cut(self, text: str) -> str:
        """A text within the budget of outputs: head and tail kept, and said so."""
        from tokenbox.content.lenses.lines import ends_tokens  # noqa: PLC0415  # not before the first prompt

        return ends_tokens(text, self._output_budget, self.tokenizer)

    @property
    def attach_budget(self) -> int:
        """What files may take, beside what is on offer already: half of the budget, for all of them."""
        offered = sum(self.models.count_text(made.text).value for made in self.context.offers)
        return self.context.budget // 2 - offered

    @property
    def model_names(self) -> list[str]:
        return self.models.names

    @property
    def session_names(self) -> list[str]:
        """For completion, which never fails."""
        try:
            return [info.name for info in self.record.sessions()]
        except TokenboxError:
            return []

    @property
    def _output_budget(self) -> int:
        return max(1, min(self.settings.output_tokens, self.context.budget // 2))

    @property
    def tokenizer(self) -> Tokenizer:
        """What cuts outputs: the local tokenizer of the model, so that a cut makes no request."""
        name = self.models.target.tokenizer
        try:
            return tokenizers.get("chars4" if name is None else name)
        except TokenboxError:
            return tokenizers.get("chars4")

    def told(self, made: OutputOffer) -> str:
        size = figure(self.models.count_text(made.text))
        if made.binary:
            return f"the output is not text; only its size is on offer, {size} tokens"
        if made.cut and made.command.startswith("@"):
            return f"{size} tokens, what the question needs of it; the rest is left out"
        if made.command.startswith("@"):
            return f"{size} tokens, all of it"
        if made.cut:
            about = "" if self.tokenizer.identity.exact else "~"
            return (
                f"{size} tokens on offer, the middle of {about}{made.whole:,} left out; :drop last undoes it"
            )
        return f"{size} tokens on offer; :drop last undoes it"

    def prompt(self) -> str:
        """The prompt with its figures."""
        used = "ctx_used" in self.template.fields
        total = self.context.about(self.answered) if used else None
        return self.template.filled(
            {
                "model": self.models.label or "no model",
                "ctx_used": "" if total is None else figure(total),
                "ctx_budget": f"{self.context.budget:,}",
                "cost": cost_text(self.record.ledger.total),
                "folder": self.place.folder,
                "status": str(self.place.status),
                "session": self.record.name or "new",
            }
        )

    def set_budget(self, tokens: int) -> None:
        """The budget that is wanted; a model's window may have room for less."""
        self.wanted_budget = self.context.conversation.token_budget = tokens

    def tools(self) -> list[Mapping[str, object]]:
        """The tools that the model is told of."""
        return [*([proposals.RUN_COMMAND] if self.proposals_on else []), *self.mcp.schemas]

    def settings_to_keep(self) -> Mapping[str, object]:
        """What a session is set to beside its messages. No key is among it."""
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
