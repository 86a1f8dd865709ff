"""The commands of ``tokenbox`` by group, with the descriptions that ``tokenbox --help`` shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "Start here": {
        "count": "Count the tokens of files, or of chats.",
        "fit": "Fit a chat into a token budget.",
        "pack": "Pack files and folders into a token budget.",
        "layout": "Compile a layout document into its token budget.",
        "enforce": "Check whether a request fits a model, before you send it.",
        "shell": "Chat with a model, and add files and command output.",
        "serve": "Run the gateway in front of LLM servers.",
        "mcp": "Serve files to agents within token budgets (MCP).",
    },
    "Work with requests": {
        "estimate": "Count what would be sent to a model.",
        "plan": "Plan which parts of a request fit a model.",
        "ask": "Ask a model one question.",
        "batch": "Process the rows of a data set: count, fit, pack and more.",
    },
    "Inspect and compare": {
        "diff": "Compare two layouts.",
        "inspect": "Show the contents of a request as one offline HTML page.",
        "check": "Check the token budgets that a project declares.",
        "cost": "Show the tokens and the cost of your model calls.",
        "cache": "Show what breaks a prompt cache, and where breakpoints pay.",
        "tools": "Show the token cost of tool schemas, and shorten them.",
    },
    "Look up": {
        "doctor": "Show installed extras, and which models are counted exactly.",
        "models": "Show context windows and prices of models, with sources.",
        "tokenizers": "List the tokenizers.",
        "lenses": "List the lenses: the compression strategies.",
        "schema": "Print the JSON Schema of a document or a result.",
    },
    "Set up": {
        "init": "Write .tokenbox/config.toml, with comments.",
        "config": "Show or change settings.",
        "gateway": "Manage gateway keys, users and teams; check a gateway.",
    },
    "Packs and proofs": {
        "lcp": "Read, check, render and write LCP/BCP packs.",
        "proof": "List, show, verify, replay and sign proof bundles.",
    },
}

COMMANDS: Final[Mapping[str, str]] = {
    name: about for commands in GROUPS.values() for name, about in commands.items()
}
"""Every command with its description, in the order of the help."""

SUMMARY: Final = "Compile LLM context into token budgets: exact, deterministic, explained."

USAGE: Final = f"""\
Usage: tokenbox COMMAND [OPTIONS] [ARGUMENTS]

  {SUMMARY}

  Example: tokenbox count README.md
"""

OPTIONS: Final = {
    "tokenbox COMMAND --help": "Show what a command does, its options, an example.",
    "--version": "Print the version.",
    "--install-completion": "Install completion for your shell.",
}

STATUS: Final = """\
Exit status: 0 success, 1 a difference or a bug, 2 invalid usage or input,
3 does not fit, 4 refused by the policy, 5 rows of a batch failed,
130 interrupted.
"""


def help_text(*, bold: bool) -> str:
    """Return the output of ``tokenbox --help``, at most 80 columns wide. It loads no command."""
    begin, end = ("\x1b[1m", "\x1b[0m") if bold else ("", "")
    size = max(map(len, COMMANDS))
    parts = [USAGE]
    for group, commands in GROUPS.items():
        rows = "".join(f"  {name:<{size}}  {about}\n" for name, about in commands.items())
        parts.append(f"{begin}{group}:{end}\n{rows}")
    wide = max(map(len, OPTIONS))
    rows = "".join(f"  {name:<{wide}}  {about}\n" for name, about in OPTIONS.items())
    parts += [f"{begin}More:{end}\n{rows}", STATUS]
    return "\n".join(parts)
