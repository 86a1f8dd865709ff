"""What is sent begins alike for many requests, though the gateway remembers none of them."""

from __future__ import annotations

import signal
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.test_modes import CONFIG, PATH, chat, talk
from tests.waiting import until
from tests.windows import enforce
from tokenbox.engine.low_water import freed, halvings
from tokenbox.engine.steps import WindowLimits
from tokenbox.engine.window import ItemKind, Window
from tokenbox.gateway.fitting import mark

if TYPE_CHECKING:
    from tests.gateway.running import Gateways, RunningGateway, Stub

BUDGET = 390  # of a window of 400 with an answer of 10
REQUESTS = range(15, 60)


@pytest.fixture(scope="module")
def gateway(shared_gateways: Gateways, upstream: Stub) -> RunningGateway:
    return shared_gateways(upstream.url, options=["--mode", "fit"])


def become(gateway: RunningGateway, upstream: Stub, low_water: str) -> None:
    """Other settings, read anew."""
    settings = CONFIG.format(url=upstream.url, fit='["evict"]') + f'low_water = "{low_water}"\n'
    (gateway.folder / ".tokenbox" / "config.toml").write_text(settings, encoding="utf-8")
    reloads = gateway.log.count('"event":"reloaded"')
    gateway.process.send_signal(signal.SIGHUP)
    until(lambda: gateway.log.count('"event":"reloaded"') > reloads)


# The 45 exchanges are of about 60 tokens each, as this process estimates; a step of 0.7 is 97.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("low_water", "cuts"), [("1", range(40, 46)), ("0.7", range(24, 33)), ("auto", range(10, 23))]
)
def test_a_list_that_grows_keeps_its_beginning(
    gateway: RunningGateway, upstream: Stub, low_water: str, cuts: range
) -> None:
    become(gateway, upstream, low_water)
    starts, counted = [], []
    for exchanges in REQUESTS:
        messages = talk(exchanges)
        answer = gateway.post(PATH, chat(messages))
        assert answer.status == 200, answer.data
        counted.append(int(answer.headers["x-tokenbox-input-tokens"]))
        sent = upstream.seen[-1]["messages"]
        assert sent[0] == messages[0]
        assert sent[1:] == messages[-len(sent) + 1 :]
        starts.append(len(messages) - len(sent))
    assert max(counted) <= BUDGET
    assert len(set(starts)) in cuts
    if low_water != "auto":  # whose steps may change, as what pays best does
        assert starts == sorted(starts)
    # Not more leaves than was asked for, and the exchange in which that ends.
    assert min(counted) > BUDGET * (0.4 if low_water == "auto" else float(low_water)) - 60


def cut(sizes: list[int], budget: int, share: Decimal) -> tuple[frozenset[int], int]:
    """What leaves of messages of a user and an assistant in turn, and what is left in tokens."""
    window = Window()
    for number, size in enumerate(sizes):
        window.append(ItemKind.ANSWER if number % 2 else ItemKind.USER, size)
    to = mark(share, window, window.total, budget, lambda: pytest.fail("only auto asks for that"))
    low = min(to, budget)
    steps = enforce(window, WindowLimits(None, low, low))
    return frozenset(number for step in steps for number in step.messages), window.total


@given(
    st.lists(st.integers(0, 30), min_size=3, max_size=40),
    st.integers(1, 150),
    st.decimals(Decimal("0.01"), 1, places=2),
)
def test_a_cut_moves_only_when_a_step_is_full(sizes: list[int], budget: int, share: Decimal) -> None:
    wanted = int(budget * (1 - share))

    def to_go(size: int) -> int:
        """Tokens in whole steps that are to leave of the first ``size`` messages."""
        whole = sum(sizes[:size])
        return freed(whole, budget, halvings(wanted, budget)) if wanted else max(0, whole - budget)

    found = [(size, *cut(sizes[:size], budget, share)) for size in range(1, len(sizes) + 1, 2)]
    for size, gone, left in found:
        over = sum(sizes[:size]) - budget
        assert over > 0 or not gone
        assert left <= budget or not gone  # what cannot fit stays whole
    for (size, before, _), (longer, after, _) in pairwise(one for one in found if one[2] <= budget):
        assert before <= after
        last_stays = len(before) == size - 1  # then the step may not be full yet
        assert before == after or to_go(longer) > to_go(size) or last_stays
