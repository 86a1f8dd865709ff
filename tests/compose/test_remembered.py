"""What is remembered of the counts of requests: by whom, of what, and how much of it."""

from __future__ import annotations

from tests.compose.test_counting import Metered
from tokenbox.compose.remembered import RememberedCounts
from tokenbox.tokenizers import get


def test_the_least_recently_used_text_is_forgotten_first() -> None:
    meter = Metered("o200k_base")
    size = len(meter.identity.fingerprint) + 10
    counts = RememberedCounts(4 * size)
    first, second, third, fourth, fifth = (letter * 10 for letter in "abcde")
    for text in (first, second, third, fourth, first, fifth):
        counts.each(meter, [text])
    assert meter.seen == [first, second, third, fourth, fifth]
    counts.each(meter, [first, third, fourth, fifth])
    assert meter.seen == [first, second, third, fourth, fifth], "these are still known"
    counts.each(meter, [second])
    assert meter.seen == [first, second, third, fourth, fifth, second]


def test_what_was_forgotten_makes_room_for_as_much() -> None:
    meter = Metered("o200k_base")
    counts = RememberedCounts(4 * (len(meter.identity.fingerprint) + 10))
    for number in range(100):
        counts.each(meter, [f"{number:010}"])
    seen = len(meter.seen)
    counts.each(meter, [f"{number:010}" for number in range(96, 100)])
    assert len(meter.seen) == seen


def test_a_smaller_limit_forgets_what_was_used_longest_ago() -> None:
    meter = Metered("o200k_base")
    counts = RememberedCounts()
    texts = [f"{number:010}" for number in range(10)]
    counts.each(meter, texts)
    counts.limit(3 * (len(meter.identity.fingerprint) + 10))
    seen = len(meter.seen)
    counts.each(meter, texts[-3:])
    assert len(meter.seen) == seen
    counts.each(meter, texts[:1])
    assert len(meter.seen) == seen + 1


def test_wholes_are_known_apart_by_their_separator() -> None:
    counts, texts = RememberedCounts(), ["one", "two", "three"]
    for separator in ("", "\n", "\n\n---\n\n"):
        whole = get("o200k_base").count(separator.join(texts))
        for _ in range(2):
            assert counts.whole(Metered("o200k_base"), texts, separator) == whole


def test_a_text_of_more_than_a_quarter_of_the_limit_takes_the_room_of_no_other() -> None:
    meter = Metered("o200k_base")
    named = len(meter.identity.fingerprint)
    counts = RememberedCounts(4 * (named + 10))
    counts.each(meter, ["a" * 10, "b" * 10])
    for large in ("c" * 11, "d" * 11):
        counts.each(meter, [large])
    counts.each(meter, ["a" * 10, "b" * 10])
    assert meter.seen == ["a" * 10, "b" * 10, "c" * 11, "d" * 11]


def test_a_text_that_two_threads_count_takes_its_room_once() -> None:
    counts, texts = RememberedCounts(), [letter * 10 for letter in "abcd"]

    class CountedMeanwhile(Metered):
        """Another thread counts the text while this one does."""

        def count(self, text: str) -> int:
            counts.each(meter, [text])
            return super().count(text)

    meter = Metered("o200k_base")
    counts.limit(4 * (len(meter.identity.fingerprint) + 10))
    for text in texts:
        counts.each(CountedMeanwhile("o200k_base"), [text])
    counts.each(meter, texts)
    assert meter.seen == texts


def test_after_clearing_there_is_room_for_as_much() -> None:
    meter = Metered("o200k_base")
    counts = RememberedCounts(4 * (len(meter.identity.fingerprint) + 10))
    texts = [letter * 10 for letter in "abcd"]
    counts.each(meter, texts)
    counts.clear()
    counts.each(meter, texts)
    counts.each(meter, texts)
    assert meter.seen == [*texts, *texts]


def test_a_tokenizer_that_may_count_otherwise_is_asked_each_time() -> None:
    class Changing(Metered):
        cacheable = False

    counts, meter = RememberedCounts(), Changing("o200k_base")
    for _ in range(2):
        counts.each(meter, ["one"])
        counts.whole(meter, ["one", "two"], " ")
    assert meter.seen[: len(meter.seen) // 2] == meter.seen[len(meter.seen) // 2 :]
