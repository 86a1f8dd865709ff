"""A tiny model for a real llama.cpp server, with a trained tokenizer and random weights.

The tokenizer is a byte-level BPE of 4,096 tokens, trained on Python's own documentation. It is written as the
vocabulary of a GGUF file, and as Hugging Face's ``tokenizer.json`` and ``tokenizer_config.json``.
"""

from __future__ import annotations

import json
import pydoc_data.topics
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

VERSION = 1  # of the written files, so that no older cached model is used
VOCABULARY = 4096
WIDTH, FEED_FORWARD, HEADS, LAYERS = 64, 128, 4, 2
TRAINED_CONTEXT = 131_072

# As in common models: markers of turns are control tokens, those of tool calls user-defined ones.
CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
USER_DEFINED = ("<tool_call>", "</tool_call>")
_NORMAL_TYPE, _CONTROL_TYPE, _USER_DEFINED_TYPE = 1, 3, 4

TURNS = """\
{% for message in messages %}<|im_start|>{{ message['role'] }}
{{ message['content'] }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

# The shape of Qwen's templates: tools in the system turn, calls in the assistant's, results in a user turn.
TOOLS = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n\\nYou may call one or more functions.\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\nFor each call, answer with its JSON within <tool_call></tool_call>.<|im_end|>\\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' + content }}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '\\n<tool_call>\\n{"name": "' + tool_call.name + '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

# Contents as lists of parts stay lists.
PARTS = TURNS.replace(
    "{{ message['content'] }}",
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}[{{ part['text'] }}]{% endfor %}{% endif %}",
)
NO_SYSTEM = (
    "{% if messages and messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}" + TURNS
)

TEMPLATES = {"tools": TOOLS, "turns": TURNS, "parts": PARTS, "no_system": NO_SYSTEM}


@dataclass(frozen=True, slots=True)
class Model:
    """A folder with ``model.gguf``, ``tokenizer.json`` and ``tokenizer_config.json``."""

    folder: Path

    @property
    def gguf(self) -> Path:
        return self.folder / "model.gguf"

    @property
    def tokenizer_json(self) -> Path:
        return self.folder / "tokenizer.json"


def write(folder: Path, template: str) -> Model:
    """Train the tokenizer and write all three files to ``folder``, in about 3 seconds."""
    vocabulary, merges, document = train()
    folder.mkdir(parents=True, exist_ok=True)
    model = Model(folder)
    model.tokenizer_json.write_text(document, encoding="utf-8")
    config = {
        "chat_template": template,
        "bos_token": "<|endoftext|>",
        "eos_token": "<|im_end|>",
        "add_bos_token": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    write_gguf(model.gguf, vocabulary, merges, template)
    return model


@cache
def train() -> tuple[list[str], list[str], str]:
    """Return the tokens by id, the merges in order, and the ``tokenizer.json``."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers  # on use

    engine = Tokenizer(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(USER_DEFINED),
        special_tokens=list(CONTROL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    engine.train_from_iterator(list(pydoc_data.topics.topics.values()), trainer)
    engine.add_tokens([AddedToken(token, normalized=False) for token in USER_DEFINED])
    document = json.loads(engine.to_str())
    learned: dict[str, int] = document["model"]["vocab"]
    pairs: list[list[str]] = document["model"]["merges"]
    return (
        [*sorted(learned, key=learned.__getitem__), *USER_DEFINED],
        [" ".join(pair) for pair in pairs],
        engine.to_str(),
    )


def write_gguf(
    path: Path, vocabulary: list[str], merges: list[str], template: str, *, pre: str = "gpt-2"
) -> None:
    """Write the vocabulary, the template and random weights of a small Llama."""
    import gguf  # on use
    import numpy as np

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny-random-bpe")
    writer.add_context_length(TRAINED_CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(vocabulary))
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(vocabulary)
    types = dict.fromkeys(CONTROL, _CONTROL_TYPE) | dict.fromkeys(USER_DEFINED, _USER_DEFINED_TYPE)
    writer.add_token_types([types.get(token, _NORMAL_TYPE) for token in vocabulary])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(template)

    chance = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float16]]:
        return (chance.standard_normal(shape, dtype=np.float32) * 0.05).astype(np.float16)

    ones = np.ones(WIDTH, np.float32)
    writer.add_tensor("token_embd.weight", weights(len(vocabulary), WIDTH))
    writer.add_tensor("output_norm.weight", ones)
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        writer.add_tensor(block + "attn_norm.weight", ones)
        writer.add_tensor(block + "ffn_norm.weight", ones)
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(f"{block}{part}.weight", weights(WIDTH, WIDTH))
        writer.add_tensor(block + "ffn_gate.weight", weights(FEED_FORWARD, WIDTH))
        writer.add_tensor(block + "ffn_up.weight", weights(FEED_FORWARD, WIDTH))
        writer.add_tensor(block + "ffn_down.weight", weights(WIDTH, FEED_FORWARD))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
