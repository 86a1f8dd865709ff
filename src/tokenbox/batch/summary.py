"""The summary of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenbox.ledger.cost import EXACT, ZERO, money_text, per_million
from tokenbox.records import to_record

if TYPE_CHECKING:
    from decimal import Decimal

    from tokenbox.batch.tally import Tally
    from tokenbox.catalog import Price

SCHEMA = "tokenbox.batch.summary/1"


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """A finished run.

    ``digest``: SHA-256 (hex) over the digests of the shards, the same for every engine. ``reused``: the
    number of shards compiled by an earlier run. ``seconds``: the duration of this run. ``price``: of the
    model; None if unknown. ``bundle``: the id of the proof, if requested.
    """

    task: str
    input: str
    output: str
    engine: str
    workers: int
    digest: str
    shards: int
    reused: int
    skipped: tuple[str, ...]
    tally: Tally
    seconds: float
    model: str | None
    tokenizer: Mapping[str, object]
    price: Price | None = None
    bundle: str | None = None

    @property
    def failed(self) -> int:
        """The number of rows with an error instead of a result."""
        return self.tally.failed

    @property
    def dollars(self) -> Decimal | None:
        """The cost of the tokens as input of the model, without output; None if it has no price."""
        if self.price is None:
            return None
        total = ZERO
        for tier, tokens in self.tally.by_tier.items():
            rate = self.price.at(tier + 1 if tier else 0).input
            if rate is None:
                return None
            total = EXACT.add(total, per_million(tokens, rate))
        return total

    def to_dict(self) -> dict[str, object]:
        """Return the summary as JSON (``tokenbox schema batch``)."""
        tally, dollars = self.tally, self.dollars
        cost = {
            "dollars": None if dollars is None else money_text(dollars),
            "of": "input",
            "exact": tally.exact,
        }
        first = tally.first_error
        return to_record(
            self,
            "schema task input output engine workers digest shards skipped_files rows outcomes "
            "rows_with_errors errors first_error tokens histogram model tokenizer cost seconds proof",
            schema=SCHEMA,
            shards={"all": self.shards, "reused": self.reused},
            skipped_files=list(self.skipped),
            rows=tally.rows,
            outcomes={name: tally.outcomes[name] for name in ("whole", "cut", "refused", "failed")},
            rows_with_errors=tally.failed,
            errors=dict(sorted(tally.errors.items())),
            first_error=None if first is None else {"row": first[0], "message": first[1]},
            tokens={
                "total": tally.tokens,
                "exact": tally.exact,
                "saved": tally.saved if not tally.unmeasured else None,
                "saved_of_measured_rows": tally.saved,
                "unmeasured_rows": tally.unmeasured,
            },
            histogram=[
                {"above": bound // 2 if bound > 1 else bound - 1, "at_most": bound, "rows": rows}
                for bound, rows in sorted(tally.histogram.items())
            ],
            cost=self.price and {**cost, "source": self.price.source, "date": self.price.date},
            seconds=f"{self.seconds:.3f}",
            proof=self.bundle,
        )
