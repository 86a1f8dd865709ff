"""Proofs of a gateway's decisions: verified, and decided again to the same."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests import loops
from tests.waiting import until
from tokenbox.cli.replaying import replayed, texts_of
from tokenbox.gateway.application import gateway_of
from tokenbox.gateway.authentication import Grant
from tokenbox.gateway.log import RequestLog
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.request import GatewayRequest
from tokenbox.gateway.services import Stores
from tokenbox.gateway.settings import Fit, GatewaySettings, Mode, ModelSettings, UpstreamSettings
from tokenbox.proof.contents import read_contents
from tokenbox.proof.errors import BundleInvalid, ReplayImpossible
from tokenbox.proof.verify import verify
from tokenbox.store.bundles import Bundles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.gateway.running import Answer, Gateways, RunningGateway, Stub
    from tokenbox.gateway.admission import Counted
    from tokenbox.gateway.calls import ApiCall
    from tokenbox.gateway.services import GatewayServices
    from tokenbox.gateway.upstream import Upstream
    from tokenbox.models import ModelUse
    from tokenbox.proof.calls import Texts
    from tokenbox.proof.contents import Contents

CHAT = "/v1/chat/completions"
CONFIG = """
[upstreams.stub]
url = "{url}"
kind = "{kind}"
[policy]
max_ctx = 400
headroom = "0.05"
[models.summing]
max_ctx = 40000
[gateway]
fit = {fit}
low_water = "{low_water}"
summary_model = "summing"
keys = true
[proof]
write = true
texts = {texts}
"""
# Who counts: a server, or this process by a model's published rules. "stub" is estimated.
COUNTS = {"vllm": "stub", "openai": "gpt-4o", "openai-compatible": "stub"}


class Proving:
    """A gateway with a key under a quota."""

    def __init__(self, gateways: Gateways, gateway: RunningGateway, key: str, model: str) -> None:
        self.gateway, self.key, self.model = gateway, key, model
        self.folder = gateway.folder / ".tokenbox" / "proof"
        self._gateways = gateways

    def ask(self, path: str, body: dict[str, Any], mode: str = "enforce") -> Answer:
        data = json.dumps({"model": self.model, **body}, indent=1).encode()
        (self.gateway.folder / "asked.json").write_bytes(data)
        return self.gateway.post(path, data, authorization=f"Bearer {self.key}", x_tokenbox_mode=mode)

    def contents(self, answer: Answer, given: Sequence[str] = ()) -> tuple[Contents, Texts]:
        bundles, proof = Bundles(self.folder), answer.headers["x-tokenbox-layout"]
        files = bundles.files(proof)
        manifest = verify(files, proof)
        return read_contents(files, manifest), texts_of(files, manifest, given)

    @property
    def asked(self) -> str:
        """The file of the last request, as it was sent."""
        return str(self.gateway.folder / "asked.json")

    def command(self, *arguments: str) -> str:
        return self._gateways.command("proof", *arguments, "--dir", str(self.folder))


def proving(
    gateways: Gateways,
    upstream: Stub,
    kind: str,
    *fit: str,
    low_water: str = "1",
    texts: bool = True,
) -> Proving:
    database = str(gateways.folder / f"{kind}.db")
    key = gateways.command(
        "gateway",
        "keys",
        "create",
        f"key{len(fit)}{low_water}{texts}",
        "--quota",
        "900000 tokens/day",
        *("--mode", "enforce", "--mode", "fit", "--mode", "observe"),
        *("--database", database),
    )
    config = CONFIG.format(
        url=upstream.url,
        kind=kind,
        fit=json.dumps(list(fit) or ["evict"]),
        low_water=low_water,
        texts=str(texts).lower(),
    )
    gateway = gateways(config=config, options=["--database", database])
    return Proving(gateways, gateway, key, COUNTS[kind])


def talk(exchanges: int, words: int = 20) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief. 😀"}]
    for number in range(exchanges):
        messages.append({"role": "user", "content": f"question {number} " + "word " * words})
        messages.append({"role": "assistant", "content": f"answer {number}"})
    return [*messages, {"role": "user", "content": "the last question"}]


def chat(exchanges: int, words: int = 20, **more: object) -> dict[str, Any]:
    return {"messages": talk(exchanges, words), "max_tokens": 10, **more}


@pytest.mark.parametrize(
    "kind", ["vllm", "openai-compatible", pytest.param("openai", marks=pytest.mark.slow)]
)
@pytest.mark.slow
def test_every_decision_is_decided_again(shared_gateways: Gateways, upstream: Stub, kind: str) -> None:
    it = proving(shared_gateways, upstream, kind, low_water="0.75")
    large = talk(30)
    for path, body, mode, expected in (
        (CHAT, chat(2), "enforce", "admitted"),
        (CHAT, {"messages": talk(2)}, "enforce", "admitted"),  # its output limit is the gateway's
        (CHAT, {"messages": talk(2), "num_predict": 20}, "observe", "admitted"),  # in a field it ignores
        (CHAT, chat(2, max_completion_tokens=-1), "observe", "admitted"),
        (CHAT, chat(2, enable_thinking=True), "observe", "admitted"),
        (CHAT, chat(2, stream=True, n=2), "enforce", "admitted"),
        (CHAT, chat(30), "enforce", "refused"),
        (CHAT, chat(1, max_tokens=399), "enforce", "refused"),
        (CHAT, chat(30), "observe", "admitted"),
        (CHAT, chat(30), "fit", "admitted"),
        (CHAT, {"messages": large}, "fit", "admitted"),
        (CHAT, chat(0, max_tokens=500), "fit", "refused"),  # there is nothing that could leave
        (CHAT, {"messages": [{"role": "user", "content": "x " * 3000}]}, "fit", "refused"),
        ("/v1/messages", {"messages": large[1:], "max_tokens": 10, "system": "Be brief."}, "fit", "admitted"),
        ("/v1/messages", {"messages": large[1:], "max_tokens": 10}, "enforce", "refused"),
        ("/v1/responses", {"input": large, "max_output_tokens": 10}, "fit", "admitted"),
        ("/v1/responses", {"input": "word " * 900}, "enforce", "refused"),
        ("/v1/completions", {"prompt": "word " * 10}, "enforce", "admitted"),
        ("/v1/completions", {"prompt": "word " * 11}, "enforce", "admitted"),  # the usage has differed by now
        ("/v1/completions", {"prompt": "word " * 2000}, "enforce", "refused"),
        ("/v1/embeddings", {"input": ["word " * 10, "word"]}, "enforce", "admitted"),
        ("/v1/embeddings", {"input": ["word " * 2000, "word"]}, "enforce", "refused"),
    ):
        answer = it.ask(path, body, mode)
        assert answer.status == (200 if expected == "admitted" else 400), answer.data
        contents, texts = it.contents(answer)
        assert contents.decisions[0]["decision"] == expected
        limited = contents.manifest.predicate["arguments"]["limited"]
        chats = "max_completion_tokens" if kind == "openai" else "max_tokens"
        named = {CHAT: chats, "/v1/responses": "max_output_tokens", "/v1/embeddings": None}
        first = named.get(path, "max_tokens") if expected == "admitted" else None
        assert (limited.split()[0] if isinstance(limited, str) else limited) == first
        assert ("done" in contents.decisions[1]) is (mode == "fit" and expected == "admitted")
        found = replayed(contents, texts, None)
        assert found.differences == (), (path, mode)
    proof = it.ask(CHAT, chat(30), "fit").headers["x-tokenbox-layout"]
    assert it.command("verify", proof) == f"{proof}: ok"
    assert it.command("replay", proof).splitlines()[0] == "the same"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vllm", "openai"])
@pytest.mark.parametrize(
    ("fit", "words", "action"),
    [
        (("truncate", "evict"), 2000, "truncate"),
        (("truncate", "evict"), 300, "several"),
        (("compact",), 20, "compact"),
    ],
    ids=str,
)
def test_every_way_to_make_it_fit_is_taken_again(
    start_gateway: Gateways, upstream: Stub, kind: str, fit: tuple[str, ...], words: int, action: str
) -> None:
    it = proving(start_gateway, upstream, kind, *fit)
    answer = it.ask(CHAT, chat(1 if action == "truncate" else 30, words), "fit")
    assert answer.status == 200, answer.data
    assert answer.json["tokenbox"]["done"]["action"] == action
    assert replayed(*it.contents(answer), None).differences == ()


@pytest.mark.slow
def test_without_texts_the_request_is_given_again(start_gateway: Gateways, upstream: Stub) -> None:
    it = proving(start_gateway, upstream, "vllm", "compact", "evict", texts=False)
    for mode in ("enforce", "observe"):
        answer = it.ask(CHAT, chat(30), mode)
        with pytest.raises(ReplayImpossible, match="the body of the request is missing"):
            replayed(*it.contents(answer), None)
        assert replayed(*it.contents(answer, [it.asked]), None).differences == ()
    compacted = it.ask(CHAT, chat(30), "fit")
    assert compacted.json["tokenbox"]["done"]["action"] == "compact"
    with pytest.raises(ReplayImpossible, match="the summary is not in the bundle"):
        replayed(*it.contents(compacted, [it.asked]), None)


@pytest.mark.slow
def test_what_was_decided_otherwise_is_named(decided: tuple[Contents, Texts]) -> None:
    contents, texts = decided
    figures, done, *counts = contents.decisions
    # A count that is not that of the texts, and a message more that is said to have left.
    forged = replace(contents, decisions=[{**figures, "input_tokens": 7}, done, *counts])
    assert [difference.field for difference in replayed(forged, texts, None).differences] == [
        "decisions[1].input_tokens"
    ]
    assert isinstance(done["done"], dict)
    left = {"done": {**done["done"], "evicted": [*done["done"]["evicted"], 60]}}
    forged = replace(contents, decisions=[figures, left, *counts])
    assert any("evicted" in difference.field for difference in replayed(forged, texts, None).differences)
    # Another vocabulary counts otherwise, and says so.
    other = {difference.field for difference in replayed(contents, texts, "utf8-bytes").differences}
    assert {"tokenizer.name", "figures.tokens_in"} <= other


@pytest.mark.slow
def test_a_servers_counts_are_taken_and_no_others(start_gateway: Gateways, upstream: Stub) -> None:
    it = proving(start_gateway, upstream, "vllm")
    contents, texts = it.contents(it.ask(CHAT, chat(30), "fit"))
    counted = [record for record in contents.decisions if "counted" in record]
    assert len(counted) > 2
    forged = replace(contents, decisions=contents.decisions[:-1])
    with pytest.raises(
        ReplayImpossible, match="'stub:/tokenize' counted, and the bundle does not contain its count"
    ):
        replayed(forged, texts, None)


@pytest.mark.parametrize(
    ("options", "figures"),
    [
        ({"route": "no such"}, {}),
        ({"mode": "rush"}, {}),
        ({"fit": "evict"}, {}),
        ({"fit": ["burn"]}, {}),
        ({"low_water": "1/0"}, {}),
        ({"low_water": 3}, {}),
        ({"reserve_out": -1}, {}),
        ({}, {"context_window": "400"}),
        ({}, {"headroom": "x"}),
    ],
    ids=str,
)
def test_a_forged_bundle_is_no_crash(
    decided: tuple[Contents, Texts], options: dict[str, Any], figures: dict[str, Any]
) -> None:
    contents, texts = decided
    record = json.loads(json.dumps(contents.manifest.record))
    record["predicate"]["arguments"] |= options
    first = {**contents.decisions[0], **figures}
    manifest = replace(contents.manifest, record=record)
    forged = replace(contents, manifest=manifest, decisions=[first, *contents.decisions[1:]])
    with pytest.raises(BundleInvalid):
        replayed(forged, texts, None)


def test_a_bundle_without_figures_or_request_is_none(decided: tuple[Contents, Texts]) -> None:
    contents, texts = decided
    for forged in (
        replace(contents, decisions=contents.decisions[1:]),
        replace(contents, decisions=[]),
        replace(contents, inputs=contents.inputs[:-1]),
    ):
        with pytest.raises(BundleInvalid):
            replayed(forged, texts, None)


def test_no_file_is_opened_because_a_bundle_names_it(decided: tuple[Contents, Texts]) -> None:
    contents, texts = decided
    record = json.loads(json.dumps(contents.manifest.record))
    record["predicate"]["tokenizer"] |= {"name": "file:/etc/passwd", "fingerprint": "0" * 64}
    named = replace(contents, manifest=replace(contents.manifest, record=record))
    with pytest.raises(ReplayImpossible, match=r"the tokenizer is unknown here: .* --tokenizer file:PATH"):
        replayed(named, texts, None)
    own = contents.manifest.predicate["tokenizer"]["name"]
    fields = {difference.field for difference in replayed(named, texts, own).differences}
    assert fields == {"tokenizer.name", "tokenizer.fingerprint"}


def test_a_tokenizer_that_the_operator_named(start_gateway: Gateways, upstream: Stub) -> None:
    it = proving(start_gateway, upstream, "openai-compatible")
    settings = it.gateway.folder / ".tokenbox" / "config.toml"
    text = settings.read_text(encoding="utf-8") + '[models.stub]\ntokenizer = "utf8-bytes"\n'
    settings.write_text(text, encoding="utf-8")
    it.gateway.process.send_signal(signal.SIGHUP)
    until(lambda: '"event":"reloaded"' in it.gateway.log)
    contents, texts = it.contents(it.ask(CHAT, chat(30), "fit"))
    assert contents.manifest.predicate["tokenizer"]["name"] == "utf8-bytes"
    assert replayed(contents, texts, None).differences == ()


def settings_in(folder: Path, kind: str, max_ctx: int, *fit: Fit) -> GatewaySettings:
    """Settings with proofs, and an upstream that does not answer."""
    return GatewaySettings(
        (UpstreamSettings("one", "http://127.0.0.1:9", kind=kind),),
        mode=Mode.FIT,
        fit=fit,
        models={"gpt-4o": ModelSettings(max_ctx=max_ctx)},
        database=str(folder / "own.db"),
        state=str(folder / "state"),
        proof=str(folder / "proof"),
        proof_texts=True,
    )


def proof_of(
    settings: GatewaySettings, prepare: Callable[[GatewayServices], None] = lambda _: None
) -> tuple[Contents, Texts]:
    """Decide about a request, without sending it, and return its proof."""

    async def go() -> str:
        _, services = gateway_of(settings, Stores.open(settings), RequestLog(None))
        await services.open()
        prepare(services)
        incoming: Any = SimpleNamespace(
            path=CHAT, header=lambda _: None, memory=SimpleNamespace(add_values=lambda _: None)
        )
        request = GatewayRequest(services, incoming, None, "r")  # type: ignore[arg-type]  # nothing is sent
        data = json.dumps({"model": "gpt-4o", **chat(30)}).encode()
        try:
            await request._decide(data, Grant())  # noqa: SLF001  # all before the upstream
        except Refusal as refusal:
            await request._prove(refusal)  # noqa: SLF001  # as the request itself does
        await services.close()
        assert request.proof_id is not None
        return request.proof_id

    bundles, proof = Bundles(str(settings.proof)), loops.run(go())
    manifest = verify(files := bundles.files(proof), proof)
    return read_contents(files, manifest), texts_of(files, manifest, ())


def test_a_proof_has_the_policy_that_decided(tmp_path: Path) -> None:
    """Others may be loaded while a request is made to fit."""
    settings = settings_in(tmp_path, "openai", 400, Fit.EVICT, Fit.TRUNCATE)

    def reload_while_counting(services: GatewayServices) -> None:
        count = services.counting.count

        async def count_and_reload(call: ApiCall, upstream: Upstream, use: ModelUse) -> Counted:
            services.reload(replace(settings, fit=(Fit.COMPACT,), low_water=0.5))
            return await count(call, upstream, use)

        services.counting.count = count_and_reload  # type: ignore[method-assign]

    contents, texts = proof_of(settings, reload_while_counting)
    arguments = contents.manifest.predicate["arguments"]
    assert (arguments["fit"], arguments["low_water"]) == (["evict", "truncate"], "1")
    assert replayed(contents, texts, None).differences == ()


def test_what_was_not_counted_is_refused_again(tmp_path: Path) -> None:
    """Its bound exceeds the window, and nothing is evicted for a bound: not in the replay either."""
    contents, texts = proof_of(settings_in(tmp_path, "vllm", 8_000, Fit.EVICT))
    assert "missing" in contents.decisions[0]
    assert contents.manifest.predicate["outcome"]["code"] == "count_unavailable"
    assert replayed(contents, texts, None).differences == ()


@pytest.fixture(scope="module")
def decided(shared_gateways: Gateways, upstream: Stub) -> tuple[Contents, Texts]:
    """A request made to fit."""
    it = proving(shared_gateways, upstream, "openai-compatible", low_water="0.5")
    return it.contents(it.ask(CHAT, chat(30), "fit"))
