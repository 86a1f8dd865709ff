"""With a template as transformers renders it, a conversation counts what the same request counts as a whole.

Jinja2 renders the whole; a session executes only the turns that changed.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.conversation.test_llama_session import NOON, OWN, counted, exchange, grow_and_shrink
from tests.effort import examples
from tokenbox.compose.requests import By
from tokenbox.content.items import read_items
from tokenbox.content.request import Request
from tokenbox.conversation import Conversation
from tokenbox.conversation.chat_format import ChatFormat
from tokenbox.conversation.llama.track import Track
from tokenbox.conversation.template_session import TemplateSession
from tokenbox.errors import TokenboxError

if TYPE_CHECKING:
    from tests.llama.model import Model
    from tokenbox.conversation.llama.tracked import TrackedMessages

# What Jinja2 has and may read messages, or keep something from one turn to the next.
BEFORE = [
    "",
    "{% set shown = messages[1:] if messages and messages[0].role == 'system' else messages %}",
    "{% set shown = messages | selectattr('role', 'ne', 'tool') | list %}",
    "{% set shown = messages[::-1] %}",
    "{% set last = messages | length - 1 %}",
    "{% set ns.asked = messages | selectattr('role', 'equalto', 'user') | list | length %}",
    "{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}{% endfor %}",
    (
        "{% for m in messages[::-1] %}{% set index = (messages | length - 1) - loop.index0 %}"
        "{% if not ns.found and m.role == 'user' %}{% set ns.found = true %}{% set ns.at = index %}"
        "{% endif %}{% endfor %}"
    ),
    "{% set ns.list = shown %}",
    "{% set other = namespace(n=0) %}{% set ns.other = other %}",
    "{% macro said(m) %}[{{ m.content }}{{ ns.n }}{{ last }}]{% endmacro %}",
    "{% if messages | length > 6 %}{% macro said(m) %}<{{ m.content }}>{% endmacro %}{% endif %}",
    "{% set between = joiner(', ') %}",
    "{% set turn = cycler('a', 'b') %}",
    (
        "{% for k in range(messages | length) %}{% if messages[k].role == 'assistant' %}{% set ns.at = k %}"
        "{% endif %}{% endfor %}"
    ),
    "{% for m in messages if m.role == 'user' %}{{ loop.index }}{% else %}nothing{% endfor %}",
    "{% set names = [] %}{% set first = messages | first %}",
]
TURN = [
    "{{ m.content }}",
    "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}",
    "{{ loop.index }}",
    "{% if loop.first %}(first){% endif %}",
    "{% if loop.last %}(last){% endif %}",
    "{% if not loop.last %}{{ loop.nextitem.role }}{% endif %}",
    "{% if loop.previtem is defined %}{{ loop.previtem.content }}{% endif %}",
    "{{ loop.revindex0 }} of {{ loop.length }}",
    "{{ loop.cycle('odd', 'even') }}",
    "{% if loop.changed(m.role) %}(other){% endif %}",
    "{{ loop.depth }}{{ loop.unknown }}",
    "{% set ns.n = ns.n + 1 %}",
    "{% set n = ns.n %}{{ 'word ' * n }}",
    "{% if m.role == 'user' %}{% set ns.at = loop.index0 %}{% endif %}",
    "{% if loop.index0 > ns.at %}(after){% endif %}",
    "{% if ns.at == loop.index0 + 1 %}(next){% endif %}",
    "{% if loop.index < last %}(before){% endif %}",
    "{% if loop.index0 == messages | length - 1 %}(end){% endif %}",
    "{% if loop.index0 >= messages | length - 3 and m.role == 'tool' %}(late){% endif %}",
    "{{ messages[loop.index0 - 1].role }}",
    "{{ messages[loop.index0 + 1].content }}",
    "{{ messages[-1].role }}",
    "{{ messages[0].content }}",
    (
        "{% for other in messages[loop.index:] %}{% if other.role != 'tool' %}{% break %}{% endif %}"
        "{{ other.content }}{% endfor %}"
    ),
    "{% for other in messages[loop.index:] %}{{ loop.index0 }}{% if loop.last %}(l){% endif %}{% endfor %}",
    (
        "{% for call in m.tool_calls or [] %}{{ call.function.name }}{{ loop.index }}"
        "{{ call.function.arguments }}{% endfor %}"
    ),
    (
        "{% for k in range(loop.index0 + 1, messages | length) %}"
        "{% if messages[k].role == 'user' %}{% break %}{% endif %}.{% endfor %}"
    ),
    "{% if m == messages[-1] %}(it){% endif %}",
    "{% if m in messages[:2] %}(early){% endif %}",
    "{% set ns.last = m %}",
    "{% if ns.last %}{{ ns.last.role }}{% endif %}",
    "{% set ns.calls = m.tool_calls %}",
    "{% if ns.calls %}{{ ns.calls | length }}{% endif %}",
    "{% set ns.list = messages %}",
    "{% if ns.list %}{{ ns.list | length }}{% endif %}",
    "{% set ns.other = namespace(n=loop.index) %}",
    "{% if ns.other %}{% set o = ns.other %}{% set o.n = o.n + 1 %}{{ o.n }}{% endif %}",
    "{% set ns.names = (ns.names or []) + [m.role] %}{{ ns.names | join }}",
    "{% if said %}{{ said(m) }}{% endif %}",
    "{% if between %}{{ between() }}{% endif %}",
    "{% if turn %}{{ turn.next() }}{% endif %}",
    "{{ messages | map(attribute='role') | join(',') }}",
    "{{ (messages | last).role }}{{ (messages | reverse | first).role }}",
    "{{ m | tojson }}",
    "{{ [m, first] | length }}{{ first.role }}",
    "{% set block %}{{ m.content }}{{ loop.index }}{% endset %}{{ block | upper }}",
    "{% if m.role == 'tool' %}{% continue %}{% endif %}",
    "{% if ns.at is number and loop.index0 > ns.at %}{% break %}{% endif %}",
    "{% set m = {'content': 'x', 'role': m.role} %}{{ m.content }}",
    "{% call(x) said_by() %}{{ x }}{{ loop.index }}{% endcall %}",
    "{% if add_generation_prompt and loop.last %}{{ tools | length if tools else 0 }}{% endif %}",
    "{{ m.reasoning_content }}{{ missing }}{{ missing.more if missing is defined }}",
    "{{ strftime_now('%Y') }}",
    "{% with x = loop.index %}{{ x }}{% endwith %}",
    "{% filter upper %}{{ m.role }}{{ ns.n }}{% endfilter %}",
]
AFTER = [
    "",
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "{{ ns.n }}{{ ns.at }}",
    "{{ ns.last.role if ns.last }}{{ ns.list | length if ns.list }}",
    "{{ ns.other.n if ns.other }}",
    "{{ messages | length }}",
]
HEAD = (
    "{% macro said_by() %}{{ caller('c') }}{% endmacro %}{% set ns = namespace(n=0, at=0, found=false) %}"
    "{% set shown = messages %}{% set last = 3 %}{% set first = none %}"
)


def composed(seed: int) -> str:
    """Return a template of parts drawn by chance, most of which any model's template might have."""
    chance = random.Random(seed)
    before = "".join(chance.sample(BEFORE, chance.randrange(3)))
    turn = "".join(chance.sample(TURN, chance.randrange(1, 5)))
    shown = chance.choice(["messages", "shown"])
    more = "".join(chance.sample(TURN, 2)) if chance.random() < 0.3 else ""
    second = "{% for m in messages %}" + more + "{% endfor %}" if more else ""
    return f"{HEAD}{before}{{% for m in {shown} %}}{turn}{{% endfor %}}{second}{chance.choice(AFTER)}"


@pytest.mark.parametrize("part", range(6))
def test_a_template_of_any_parts_counts_what_its_request_counts(part: int, model: Model) -> None:
    size = examples(60)
    followed = [
        grow_and_shrink(composed(seed), model.folder, seed, 4).is_incremental
        for seed in range(part * size, (part + 1) * size)
    ]
    assert sum(followed) > size // 2  # else the records of turns were not what counted


@pytest.mark.parametrize("name", OWN)
def test_a_conversation_counts_what_its_request_counts(name: str, model: Model) -> None:
    for seed in range(examples(3)):
        grow_and_shrink(OWN[name], model.folder, seed)


@pytest.mark.slow
def test_with_every_template_of_the_corpus(templates: dict[str, str], model: Model) -> None:
    followed = {
        name: grow_and_shrink(source, model.folder, 5, 5).is_incremental for name, source in templates.items()
    }
    assert sum(followed.values()) >= 0.95 * len(followed), followed


# What differs between a loop and a macro for each turn, or between values and what stands for them.
KEPT = "{% set ns = namespace(n=0) %}"
HOSTILE = {
    "asks for a message beyond the end": (
        "{% for m in messages %}{{ m.role }}{{ 'word ' * 9 if messages[5] is defined }}"
        "{{ 'word ' * 9 if messages[-5] is defined }}{% endfor %}"
    ),
    "a place in a loop of a turn": (
        "{% for m in messages %}{% set i = loop.index %}"
        "{% for k in 'ab' %}{{ 'word ' * i }}{% endfor %}{% endfor %}"
    ),
    "a place after it was something else": (
        "{% set i = 50 %}{% for m in messages %}{{ 'word ' * i }}{% set i = loop.index %}{{ i }}{% endfor %}"
    ),
    "a length before the messages are others": (
        "{% for m in messages %}{% set n = messages | length %}{% set messages = messages[1:] %}"
        "{{ 'word ' * n }}{% endfor %}"
    ),
    "a length that is an error": (
        "{% set all = messages %}{% set messages = none %}{% for m in all %}{% set n = messages | length %}"
        "{{ m.content }}{% endfor %}"
    ),
    "a variable of a turn that has the name of an outer one": (
        "{% set n = 0 %}{% for m in messages %}{% set n = '3' | int %}"
        "{% if loop.index0 > n %}{{ 'word ' * 9 }}{% endif %}{{ m.content }}{% endfor %}"
    ),
    "a key that is also a method": (
        "{% set d = {'items': 2} %}{% for m in messages %}{% if loop.index0 == d['items'] %}"
        "{{ 'word ' * 9 }}{% endif %}{% endfor %}"
    ),
    "a field that may not be read": (
        KEPT + "{% for m in messages %}{% set ns._n = loop.index0 %}"
        "{{ 'word ' * 9 if loop.index0 == ns._n }}{% endfor %}"
    ),
    "the rest of what has none": (
        "{% for m in messages %}{% set x = none %}{{ x[loop.index0:] }}{{ m.content }}{% endfor %}"
    ),
    "another namespace": (
        "{% set namespace = 'word ' * messages | length %}{% for m in messages %}{{ namespace }}{% endfor %}"
    ),
    "another loop": (
        "{% set loop = 'word ' * messages | length %}{% macro f() %}{{ loop }}{% endmacro %}"
        "{% for m in messages %}{{ f() }}{% endfor %}"
    ),
    "another loop in a turn": (
        "{% for m in messages %}{% with loop = {'index0': 9, 'index': 0} %}"
        "{{ 'word ' * 9 if messages[loop.index] is defined }}{% endwith %}{% endfor %}"
    ),
    "our names": (
        "{{ 'word ' * 9 if tokenbox_fold is defined }}{% for m in messages %}{{ m.content }}{% endfor %}"
    ),
    "the text of a namespace": (
        KEPT + "{% for m in messages %}{% set ns.n = ns.n * 10 + 1 %}{% endfor %}"
        "{% for m in messages %}{{ [ns] }}{% endfor %}"
    ),
    "one namespace by two names": (
        "{% set o = namespace() %}{% set ns = namespace(o=o) %}"
        "{% for m in messages %}{{ ns.o == o }}{{ 'word ' * 9 if ns.o is sameas o }}{% endfor %}"
    ),
    "a macro in a namespace": (
        "{% macro f() %}{% endmacro %}{% set ns = namespace(f=f) %}"
        "{% for m in messages %}{{ 'word ' * 9 if ns.f is callable }}{% endfor %}"
    ),
    "what loop is": (
        "{% for m in messages %}{{ loop is iterable }}{{ loop is callable }}{{ [loop] }}{% endfor %}"
    ),
    "a loop that is kept": (
        KEPT + "{% for m in messages %}{% if loop.first %}{% set ns.l = [loop] %}{% endif %}"
        "{{ 'word ' * ns.l[0].index }}{% endfor %}"
    ),
    "equal values of other texts": (
        "{% set x = 0.0 * (3 - messages | length) %}"
        "{% set d = {1: 2} if messages | length > 5 else {true: 2} %}"
        "{% for m in messages %}{{ x }}{{ 'word ' * 9 if d | string == '{1: 2}' }}{% endfor %}"
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_template_that_no_model_has_counts_what_its_request_counts(name: str, model: Model) -> None:
    for seed in range(examples(6)):
        grow_and_shrink(HOSTILE[name], model.folder, seed, 3)


def test_many_sums_of_places_are_rendered_in_no_time(model: Model) -> None:
    """Each name stands for two of the one before: all in place would be more than 2 ** 40 terms."""
    sums = "".join(f"{{% set a{n + 1} = a{n} + a{n} %}}" for n in range(40))
    source = f"{{% for m in messages %}}{{% set a0 = loop.index %}}{sums}{{{{ a40 }}}}{{% endfor %}}"
    assert grow_and_shrink(source, model.folder, 1, 2).is_incremental


@pytest.mark.parametrize(
    ("name", "limit"),
    [("MAX_STEPS", 100), ("MAX_CHARACTERS", 100), ("MAX_FIXED", 300), ("MAX_MADE", 100), ("MAX_READ", 1_000)],
)
def test_turns_that_are_not_executed_again_are_within_the_limits_too(
    name: str, limit: int, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a template that writes as much as it may in each turn would fill the memory in time."""
    source = "{% for m in messages %}{% for k in 'abcd' %}, {{ m.content | upper }}{% endfor %}{% endfor %}"
    chat = ChatFormat.open(model.folder, template=source)
    text = "hi" * 40 if name == "MAX_READ" else "hi"  # what is short is read in no time
    item = read_items([{"role": "user", "content": text}])[0]
    monkeypatch.setattr(f"tokenbox.conversation.template.{name}", limit)
    session, items = chat.session(), [item]
    session.add(0, item)
    while (whole := chat.count_request(Request.of_items(items))).by is By.TEMPLATE:
        assert session.count() == whole
        session.add(len(items), item)
        items.append(item)
    for _ in range(2):
        assert session.count() == whole, "an estimate, as of the whole request"
    assert whole.by is By.MARKERS
    assert len(items) > 2


def test_slices_of_messages_are_counted_as_those_of_lists(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        "{% for m in messages %}{% for k in range(9) %}{% set x = messages[1:] %}{% endfor %}{% endfor %}"
    )
    monkeypatch.setattr("tokenbox.conversation.template.MAX_MADE", 100)
    chat = ChatFormat.open(model.folder, template=source)
    session = chat.session()
    items = read_items([{"role": "user", "content": "hi"}] * 9)
    for number, item in enumerate(items):
        session.add(number, item)
    whole = chat.count_request(Request.of_items(items))
    assert whole.by is By.MARKERS, "more than the limit is made"
    assert session.count() == whole


SLICES = "{% for k in range(999) %}{% set x = messages[1:] %}{% endfor %}"


def test_a_slice_that_no_variable_has_is_not_kept(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile template makes a million slices of a long list, which filled the memory."""
    kept: list[int] = []
    count = Track.add_history

    def added(track: Track, history: TrackedMessages) -> int:
        kept.append(len(track.histories))
        return count(track, history)

    monkeypatch.setattr(Track, "add_history", added)
    session = ChatFormat.open(model.folder, template=SLICES).session()
    for number, item in enumerate(read_items([{"role": "user", "content": "hi"}] * 9)):
        session.add(number, item)
    session.count()
    assert len(kept) > 999 and max(kept) < 9  # noqa: PT018  # one test of the same render
    assert isinstance(session, TemplateSession) and session.is_incremental  # noqa: PT018  # of this kind


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("MANY_SLICES", SLICES),
        (
            "MANY_TIMES",
            "{% set ns = namespace(n=0) %}{% for m in messages %}{{ m.content }}{% endfor %}" * 50,
        ),
    ],
)
def test_a_session_ends_what_only_it_does_slowly(
    name: str, source: str, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"tokenbox.conversation.llama.track.{name}", 0)
    chat = ChatFormat.open(model.folder, template=source)
    session, items = chat.session(), read_items([{"role": "user", "content": "hi"}] * 9)
    for number, item in enumerate(items):
        session.add(number, item)
    assert session.count() == counted(chat, items, None)
    assert isinstance(session, TemplateSession) and not session.is_incremental  # noqa: PT018  # of this kind


def test_messages_in_a_list_are_weighed(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "{% for m in messages %}{% set x = [messages[1:], messages] %}{% endfor %}"
    monkeypatch.setattr("tokenbox.conversation.sandbox.MAX_PARTS", 50)
    chat = ChatFormat.open(model.folder, template=source)
    session, items = chat.session(), read_items([{"role": "user", "content": "hi"}] * 9)
    for number, item in enumerate(items):
        session.add(number, item)
    for count in (session.count, lambda: chat.count_request(Request.of_items(items))):
        with pytest.raises(TokenboxError, match="a list is too large"):
            count()


TAKES_OBJECTS = (
    "{% for m in messages %}<|im_start|>{{ m.content }}{% for call in m.tool_calls or [] %}"
    "{% for name, value in call.function.arguments.items() %}{{ name }}={{ value }}{% endfor %}{% endfor %}"
    "<|im_end|>{% endfor %}"
)


# Each turn looks at those after it, up to the first that is no result, as Gemma 4 does.
LOOKS_AHEAD = (
    "{% for m in messages %}<|im_start|>{{ m.content }}{% set ns = namespace(ends=false) %}"
    "{% for k in range(loop.index0 + 1, messages | length) %}{% if not ns.ends %}"
    "{% if messages[k].role == 'tool' %}{{ messages[k].content }}{% else %}{% set ns.ends = true %}"
    "{% endif %}{% endif %}{% endfor %}"
    "{% for other in messages[loop.index:] %}{% if other.role != 'tool' %}{% break %}{% endif %}+"
    "{% endfor %}<|im_end|>{% endfor %}"
)


@pytest.mark.parametrize("name", ["looks back", "keeps places", "looks ahead", "takes objects"])
def test_only_what_is_new_is_rendered(name: str, model: Model, taken: list[int]) -> None:
    source = {**OWN, "takes objects": TAKES_OBJECTS, "looks ahead": LOOKS_AHEAD}[name]
    session = ChatFormat.open(model.folder, template=source).session()
    chance = random.Random(1)
    items = [item for n in range(100) for item in read_items(exchange(chance, n))]
    for number, item in enumerate(items):
        session.add(number, item)
    session.count()
    for number, item in enumerate(read_items(exchange(chance, 101)), len(items)):
        taken.clear()
        session.add(number, item)
        session.count()
        assert len(taken) <= 10


def test_a_total_that_was_foreseen_is_that_of_its_minute_alone(model: Model) -> None:
    times = [NOON]
    source = "{% for m in messages %}{{ m.content }}{% endfor %}{{ 'word ' * strftime_now('%M') | int }}"
    chat = ChatFormat.open(model.folder, template=source, now=lambda: times[-1])
    session = chat.session()
    items = read_items([{"role": "user", "content": "hi"}] * 2)
    for number, item in enumerate(items):
        session.add(number, item)
    foreseen = session.total_with({0: None})
    times.append(NOON.replace(minute=9))
    session.remove([0])
    assert session.count() == chat.count_request(Request.of_items(items[1:]))
    assert session.count().total > foreseen


def test_of_removed_messages_nothing_is_kept(model: Model) -> None:
    session = ChatFormat.open(model.folder, template=TAKES_OBJECTS).session()
    assert isinstance(session, TemplateSession)
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
    item = read_items([{"role": "assistant", "content": None, "tool_calls": [call]}])[0]
    for number in range(30):
        session.add(number, item)
        session.remove([number - 3] if number > 2 else [])
        session.count()
        session.total_with({number: item})
    memories = session._memories.values()  # noqa: SLF001  # memory alone
    records = [one for each in memories for key, one in each.items() if key[0] != "names"]
    assert sum(map(len, records)) == 3  # those shown as texts: as objects, the template refuses each
    assert len(session._numbers) == 6  # noqa: SLF001


def test_what_no_template_of_texts_takes_is_refused_by_both_and_followed_again(model: Model) -> None:
    source = (
        "{% for m in messages %}{% if loop.index0 % 2 != (m.role != 'user') | int %}"
        "{{ raise_exception('not in turn') }}{% endif %}{{ m.content }}{% endfor %}"
    )
    chat = ChatFormat.open(model.folder, template=source)
    session = chat.session()
    asked, answered = read_items([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}])
    for number, item in enumerate([asked, answered, asked]):
        session.add(number, item)
    before = session.count()
    assert before == chat.count_request(Request.of_items([asked, answered, asked]))
    session.add(3, asked)
    with pytest.raises(TokenboxError, match="not in turn"):
        session.count()
    session.remove([3])
    assert session.count() == before
    assert isinstance(session, TemplateSession)
    assert session.is_incremental


def test_a_message_is_as_large_as_its_request_alone(model: Model) -> None:
    """Which messages fit chooses depends on it, so a faster session chooses as one that renders the whole."""
    source = (
        "{{ 'word ' * 9 }}{% for m in messages %}{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'word ' * 9 }}{% endif %}"
    )
    chat = ChatFormat.open(model.folder, template=source)
    item = read_items([{"role": "user", "content": "hi"}])[0]
    assert chat.session().cost(item) == chat.count_request(Request.of_items([item])).total


def test_a_conversation_in_the_shape_of_any_api(model: Model) -> None:
    chat = ChatFormat.open(model.folder, now=NOON)
    conversation = Conversation("Be brief.", chat)
    for message in (
        {"role": "user", "content": [{"type": "text", "text": "Is it warm?"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "It is."}]},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "And tomorrow?"},
    ):
        conversation.add(message)
        items = read_items([{"role": "system", "content": "Be brief."}, *conversation.messages[1:]])
        assert conversation.request_count().total == chat.count_request(Request.of_items(items)).total
