"""Who counts for a model: nobody until a user says so, and whoever a user says after a trial."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbox import tokenizers
from tokenbox.errors import (
    DuplicateTokenizer,
    InvalidText,
    InvalidTokenizer,
    NoTokenizer,
    TokenizerError,
    UnknownTokenizer,
)
from tokenbox.tokenizers.ownership import TokenizerFamilies
from tokenbox.tokenizers.protocol import BaseTokenizer, TokenizerIdentity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True)
class Family:
    name: str | None
    source: str = "a card"


TABLE = {
    "gpt-4o": Family("o200k_base"),
    "gpt-4": Family("cl100k_base"),
    "llama-3": Family("llama3-bpe"),
    "qwen3": Family("qwen2-bpe"),
    "claude-sonnet": Family(None),
}


@pytest.fixture
def families() -> TokenizerFamilies:
    return TokenizerFamilies(TABLE.get)


def words(text: str) -> int:
    return len(text.split())


def test_nothing_counts_until_a_user_says_so(families: TokenizerFamilies) -> None:
    for model in [*TABLE, "gpt-bpe", "acme-7b"]:
        with pytest.raises(NoTokenizer) as caught:
            families.resolve(model)
        assert caught.value.details["model"] == model
        remedies: Any = caught.value.details["remedies"]
        assert remedies[0] in str(caught.value), "the recommended one"
        assert all(remedy.startswith("tokenbox ") for remedy in remedies)


def test_a_baseline_counts_once_it_is_enabled_and_no_longer(families: TokenizerFamilies) -> None:
    families.enable_baseline("gpt-bpe")
    assert families.resolve("gpt-4o") is tokenizers.get("o200k_base")
    assert families.resolve("gpt-4") is tokenizers.get("cl100k_base")
    assert families.resolve("gpt-bpe") is tokenizers.get("o200k_base")
    with pytest.raises(NoTokenizer):
        families.resolve("llama-3")
    families.disable_all_baselines()
    with pytest.raises(NoTokenizer):
        families.resolve("gpt-4o")


def test_llama_has_a_baseline_of_its_own(families: TokenizerFamilies) -> None:
    families.enable_baseline("llama3-bpe")
    assert families.resolve("llama-3").identity.name == "llama3-bpe"


def test_a_baseline_may_be_enabled_for_one_call(families: TokenizerFamilies) -> None:
    assert families.resolve("gpt-4o", baselines=["gpt-bpe"]).identity.name == "o200k_base"
    with pytest.raises(NoTokenizer):
        families.resolve("gpt-4o")


@pytest.mark.parametrize("bad", ["o200k_base", "GPT-BPE", "", "zoo"])
def test_there_are_two_baselines(families: TokenizerFamilies, bad: str) -> None:
    with pytest.raises(UnknownTokenizer, match="gpt-bpe, llama3-bpe") as caught:
        families.enable_baseline(bad)
    assert caught.value.to_dict()["name"] == bad
    with pytest.raises(UnknownTokenizer):
        families.resolve("gpt-4o", baselines=[bad])


def test_a_users_tokenizer_goes_before_a_baseline(families: TokenizerFamilies) -> None:
    families.enable_baseline("gpt-bpe")
    families.register("gpt-bpe", words, version="3", exact=True)
    own = families.resolve("gpt-4o")
    assert own.count("one two") == 2
    assert own.identity == families.resolve("gpt-4").identity
    assert (own.identity.name, own.identity.version, own.identity.exact) == ("gpt-bpe", "3", True)
    families.unregister("gpt-bpe")
    assert families.resolve("gpt-4o").identity.name == "o200k_base"


def test_a_family_is_found_by_the_beginning_of_a_models_name(families: TokenizerFamilies) -> None:
    families.register("acme", words)
    families.register("acme-large", lambda text: 2 * words(text))
    assert families.resolve("acme-7b-chat").count("a b") == 2
    assert families.resolve("us/acme-large-2").count("a b") == 4
    assert families.resolve("acme").count("a b") == 2
    with pytest.raises(NoTokenizer):
        families.resolve("acmeX-7b")


@pytest.mark.parametrize("family", ["qwen2-bpe", "qwen3"])
def test_a_family_of_the_catalog_can_be_given_a_tokenizer(families: TokenizerFamilies, family: str) -> None:
    families.register(family, "utf8-bytes")
    assert families.resolve("qwen3") is tokenizers.get("utf8-bytes")


def test_nothing_local_is_exact_where_the_maker_publishes_none(families: TokenizerFamilies) -> None:
    families.register("claude", "o200k_base")
    counter = families.resolve("claude-sonnet")
    assert not counter.identity.exact
    assert counter.identity.fingerprint == tokenizers.get("o200k_base").identity.fingerprint
    assert counter.count("hello world") == tokenizers.get("o200k_base").count("hello world")
    assert not families.named("o200k_base", "claude-sonnet").identity.exact
    assert not families.named(tokenizers.get("cl100k_base"), "claude-sonnet").identity.exact


def test_a_tokenizer_named_for_a_model_is_exact_only_if_it_is_the_models(families: TokenizerFamilies) -> None:
    assert families.named("o200k_base", "gpt-4o") is tokenizers.get("o200k_base")
    assert not families.named("cl100k_base", "gpt-4o").identity.exact
    assert not families.named("utf8-bytes", "qwen3").identity.exact
    assert families.named("o200k_base", "unheard-of").identity.exact
    assert families.named("o200k_base", None).identity.exact


@pytest.mark.parametrize("name", ["", " ", None, 5, "a\nb", "\ud800", "a" * 201])
def test_a_family_has_a_name(families: TokenizerFamilies, name: object) -> None:
    with pytest.raises(InvalidTokenizer, match="a family is a name"):
        families.register(name, len)  # type: ignore[arg-type]


def test_a_name_is_taken_once(families: TokenizerFamilies) -> None:
    families.register("acme", words)
    with pytest.raises(DuplicateTokenizer, match="unregister"):
        families.register("acme", words)
    families.unregister("acme")
    families.register("acme", words)
    with pytest.raises(UnknownTokenizer):
        families.unregister("other")


class Stateful:
    def __init__(self) -> None:
        self.calls = 0

    def count(self, text: str) -> int:
        self.calls += bool(text)
        return self.calls if text else 0


class Batch:
    """Whose batch does not give what one count gives."""

    def count(self, text: str) -> int:
        return len(text)

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        return [len(text) // 2 for text in texts]


class Short(Batch):
    def count_batch(self, texts: Sequence[str]) -> list[int]:
        return [len(text) for text in texts[1:]]


def fails(text: str) -> int:
    raise KeyError(text[:3])


def fails_on_marks(text: str) -> int:
    return len(text.encode("ascii"))


@pytest.mark.parametrize(
    ("impl", "why"),
    [
        (lambda text: len(text) + 2, "gives 2 for the empty text"),
        (lambda text: -len(text), "gave -1"),
        (lambda text: len(text) / 4, "gave 0.0"),
        (bool, "give an instance"),
        (lambda text: text == "a", "gave False"),
        (lambda text: None, "gave None"),  # noqa: ARG005
        (lambda text: text, "gave ''"),
        (lambda text: 2**60 * bool(text), "gave 1152921504606846976"),
        (lambda text: len(text) and random.randrange(10**9), "not deterministic"),
        (Stateful(), "not deterministic"),
        (Batch(), "not deterministic"),
        (Short(), "10 counts for 11 texts"),
        (fails, "KeyError: ''"),
        (fails_on_marks, "UnicodeEncodeError"),
        (lambda: 3, "TypeError"),
        (5, "is a function"),
        (None, "is a function"),
        (b"o200k_base", "is a function"),
        ([], "is a function"),
        (Stateful, "give an instance"),
    ],
)
def test_what_does_not_count_is_refused(families: TokenizerFamilies, impl: object, why: str) -> None:
    with pytest.raises(InvalidTokenizer, match=why):
        families.register("acme", impl)
    with pytest.raises(NoTokenizer):
        families.resolve("acme")


def test_an_unknown_name_is_no_tokenizer(families: TokenizerFamilies) -> None:
    for name in ("o200k", "file:nowhere.json"):
        with pytest.raises(TokenizerError):
            families.register("acme", name)
    for bad in ("", " ", 5, None, b"acme"):
        with pytest.raises(InvalidTokenizer):
            families.register(bad, words)  # type: ignore[arg-type]
        with pytest.raises(NoTokenizer):
            families.resolve(bad)  # type: ignore[arg-type]


def test_errors_of_a_users_tokenizer_come_out_with_their_cause(families: TokenizerFamilies) -> None:
    def breaks_later(text: str) -> int:
        if "boom" in text:
            raise ZeroDivisionError("by zero")
        return -1 if "minus" in text else len(text)

    counter = families.register("acme", breaks_later)
    with pytest.raises(TokenizerError, match="acme failed: ZeroDivisionError: by zero") as caught:
        counter.count("boom")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(TokenizerError, match="gave -1"):
        counter.count_batch(["fine", "minus"])
    with pytest.raises(InvalidTokenizer) as trial:
        families.register("other", fails)
    assert isinstance(trial.value.__cause__, KeyError)
    with pytest.raises(InvalidText):
        counter.count("\ud800")
    with pytest.raises(TokenizerError, match="only text"):
        counter.count(b"bytes")  # type: ignore[arg-type]


def test_a_panic_is_an_error_and_an_interrupt_is_not(families: TokenizerFamilies) -> None:
    class PanicException(BaseException):  # as pyo3 calls it
        pass

    def raises(kind: type[BaseException]) -> Callable[[str], int]:
        def count(text: str) -> int:
            if text == "now":
                raise kind("told to")
            return len(text)

        return count

    with pytest.raises(TokenizerError, match="PanicException"):
        families.register("panics", raises(PanicException)).count("now")
    with pytest.raises(KeyboardInterrupt):
        families.register("stops", raises(KeyboardInterrupt)).count("now")


class Whole(BaseTokenizer):
    """A user's own class with all of the protocol."""

    @property
    def identity(self) -> TokenizerIdentity:
        return TokenizerIdentity("whole", "7", "f" * 64, exact=True)

    def count(self, text: str) -> int:
        return len(text)

    def encode(self, text: str) -> list[int]:
        return [ord(character) for character in text]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(map(chr, tokens))


def test_a_tokenizer_of_a_users_own_keeps_its_identity(families: TokenizerFamilies) -> None:
    counter = families.register("acme", Whole(), version="ignored")
    assert counter.identity == Whole().identity
    assert counter.decode(counter.encode("naïve")) == "naïve"
    assert isinstance(counter, tokenizers.Tokenizer)


def test_the_heuristic_is_opt_in_and_never_exact(families: TokenizerFamilies) -> None:
    assert not families.resolve("acme-7b", heuristic=True).identity.exact
    with pytest.raises(NoTokenizer):
        families.resolve("acme-7b")
    families.enable_heuristic()
    assert families.resolve("acme-7b").identity.name == "heuristic"
    families.enable_baseline("gpt-bpe")
    assert families.resolve("gpt-4o").identity.name == "o200k_base", "what counts goes before what guesses"


@given(text=st.text(max_size=50) | st.integers(0, 2_000).map(lambda n: "a" * n))
def test_the_heuristic_is_a_quarter_and_15_percent_rounded_up(text: str) -> None:
    from fractions import Fraction
    from math import ceil

    size = len(text.encode("utf-8", "surrogatepass"))
    assert tokenizers.get("heuristic").count(text) == ceil(Fraction(size, 4) * Fraction("1.15"))


def test_the_functions_of_the_package_share_one_registry() -> None:
    tokenizers.register("a-test-of-ours", words)
    try:
        assert tokenizers.resolve("a-test-of-ours-2").count("a b c") == 3
    finally:
        tokenizers.unregister("a-test-of-ours")
    with pytest.raises(NoTokenizer):
        tokenizers.resolve("a-test-of-ours-2")


def test_a_family_of_several_vocabularies_may_be_named(families: TokenizerFamilies) -> None:
    assert tokenizers.get("gpt-bpe") is tokenizers.get("o200k_base")
    assert families.named("gpt-bpe", "gpt-4o") is tokenizers.get("o200k_base")
    assert families.named("gpt-bpe", "gpt-4") is tokenizers.get("cl100k_base")
    assert families.named("llama3-bpe", "llama-3") is tokenizers.get("llama3-bpe")


@pytest.mark.parametrize("texts", ["one", iter(["one"]), 3])
def test_a_batch_is_a_list_of_texts(texts: Any) -> None:  # noqa: ANN401  # anything
    with pytest.raises(TokenizerError, match="takes a list of texts, not"):
        tokenizers.as_tokenizer(len).count_batch(texts)
