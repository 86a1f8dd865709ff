"""Generate the reference pages: docs/api.md from docstrings, docs/errors.md from the error classes.

    python tools/reference.py            write the pages
    python tools/reference.py --check    fail if a page is out of date

tools/error_fixes.toml has the fix for each error code. A code without a fix is an error, and so is a fix
without a code.
"""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from enum import Enum
from fnmatch import fnmatchcase
from importlib import import_module
from inspect import Parameter
from pathlib import Path
from pkgutil import walk_packages
from typing import TYPE_CHECKING

import tokenbox
from tokenbox.config.errors import ConfigCode
from tokenbox.documents import DocumentCode
from tokenbox.errors import TokenboxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parents[1]
FIXES = ROOT / "tools" / "error_fixes.toml"
WIDTH = 100
HEAD = "<!-- Written by tools/reference.py: change the code, then run it. -->"
# Public modules in docs/api.md, beside tokenbox itself.
MODULES = (
    "tokenbox.tokenizers",
    "tokenbox.ctx",
    "tokenbox.catalog",
    "tokenbox.config",
    "tokenbox.documents",
    "tokenbox.conversation",
    "tokenbox.lcp",
    "tokenbox.ledger",
    "tokenbox.models",
    "tokenbox.providers",
    "tokenbox.proof",
    "tokenbox.caching",
    "tokenbox.inspect",
    "tokenbox.batch",
    "tokenbox.store.stores",
    "tokenbox.store.calls",
    "tokenbox.store.sessions",
    "tokenbox.store.bundles",
)
ERRORS = """# Errors

On the command line, each error message ends with its code, such as `(unknown_model)`. Look it up in the
table, which shows what is wrong and how to fix it. Codes are [stable](stability.md).

In Python, all errors are subclasses of `tokenbox.TokenboxError`. `error.code` is the code, `str(error)` the
message, and `error.details` has the figures:

<!-- run -->
```python
import tokenbox

try:
    tokenbox.layout([{"id": "rules", "content": "Be brief."}], 5, "utf8-bytes")
except tokenbox.TokenboxError as error:
    print(error.code, error.details["fixed_load"], error.details["deficit"])
```

<!-- prints -->
```text
context_critical_overflow 9 4
```

With `--json`, a command prints the error as
`{"schema": "tokenbox.error/1", "error": {"code", "message", ...}}`.

Three kinds of codes are not in the table:

* Errors of layout documents and settings have narrower codes than `document_invalid` and `config_invalid`.
  Correct the key at the file and line that the message names. The codes are {narrower}.
* `internal_error` is a bug in tokenbox. Please report it with the lines below the message.
* The gateway answers a refused request with [codes of its own](gateway-reference.md#headers-and-errors).

| code | what is wrong | what to do |
|---|---|---|"""
_ROLE = re.compile(r":(?:class|func|mod|meth|data|attr):`~?(?:[\w.]*\.)?(\w+)`")


def errors() -> Mapping[str, type[TokenboxError]]:
    """Return the error class of each code: of several, the one nearest to ``TokenboxError``."""
    for module in walk_packages(tokenbox.__path__, "tokenbox."):
        if module.name.endswith("__main__"):
            continue
        try:
            import_module(module.name)
        except ModuleNotFoundError:
            if not module.name.startswith("tokenbox.integrations."):
                raise  # an adapter imports a library that is not a dependency
    found: dict[str, type[TokenboxError]] = {}
    waiting = list(TokenboxError.__subclasses__())
    while waiting:
        kind = waiting.pop(0)
        if kind.__module__.startswith("tokenbox."):
            found.setdefault(kind.code, kind)
        waiting += kind.__subclasses__()
    found.pop(TokenboxError.code, None)
    return dict(sorted(found.items()))


def errors_page() -> str:
    """Return docs/errors.md. Raise ``SystemExit`` if a code has no fix, or a fix no code."""
    fixes: dict[str, str] = tomllib.loads(FIXES.read_text(encoding="utf-8"))
    known = errors()
    missing = [code for code in known if _fix(code, fixes) is None]
    unused = [code for code in fixes if "*" not in code and code not in known]
    if missing or unused:
        raise SystemExit(
            f"{FIXES.relative_to(ROOT)}: codes without a fix: {missing}; fixes without a code: {unused}"
        )
    narrower = ", ".join(f"`{code}`" for code in (*DocumentCode, *ConfigCode))
    lines = [HEAD, ERRORS.replace("{narrower}", narrower)]
    shown: dict[str, str] = {}  # by fix: the first code that has it
    for code, kind in known.items():
        about = " ".join(plain(inspect.getdoc(kind) or "").split())
        fix = str(_fix(code, fixes))
        first = shown.setdefault(fix, code)
        lines.append(f"| `{code}` | {cell(about)} | {cell(fix) if first == code else f'As `{first}`.'} |")
    return "\n".join(lines) + "\n"


def _fix(code: str, fixes: Mapping[str, str]) -> str | None:
    patterns = (text for pattern, text in fixes.items() if "*" in pattern and fnmatchcase(code, pattern))
    return fixes.get(code) or next(patterns, None)


def api_page() -> str:
    """Return docs/api.md."""
    lines = [
        HEAD,
        "# Python API",
        "",
        "The functions and classes of `tokenbox`, then its parts. Sizes are tokens unless noted otherwise.",
        "[Errors](errors.md) have a page of their own.",
        "",
        "| module | contents |",
        "|---|---|",
        *(
            f"| [`{name}`](#{name.replace('.', '')}) | {cell(plain(summary(import_module(name))))} |"
            for name in ("tokenbox", *MODULES)
        ),
        "",
        "## tokenbox",
        "",
    ]
    described: dict[int, str] = {}  # by object: the name under which the page describes it
    for name in sorted(tokenbox.__all__, key=lambda name: inspect.isclass(getattr(tokenbox, name))):
        if name != "__version__" and not is_error(getattr(tokenbox, name)):
            lines += entry(name, getattr(tokenbox, name))
            described[id(getattr(tokenbox, name))] = name
    for module_name in MODULES:
        module = import_module(module_name)
        lines += [f"## {module_name}", "", plain(summary(module)), ""]
        public = {name: getattr(module, name) for name in sorted(getattr(module, "__all__", ()))}
        errors_here = {name: value for name, value in public.items() if is_error(value)}
        if new := [f"`{n}` (`{e.code}`)" for n, e in errors_here.items() if id(e) not in described]:
            lines += [f"Errors, explained by code [on their page](errors.md): {', '.join(new)}.", ""]
        described |= {id(error): "" for error in errors_here.values()}
        public = {name: value for name, value in public.items() if name not in errors_here}
        if again := [name for name, value in public.items() if id(value) in described]:
            links = ", ".join(f"[{name}](#{described[id(public[name])].lower()})" for name in again)
            lines += [f"Described above: {links}.", ""]
        for name, value in public.items():
            if id(value) not in described and (inspect.isclass(value) or inspect.isfunction(value)):
                lines += entry(name, value)
                described[id(value)] = name
    return "\n".join(lines).rstrip() + "\n"


def is_error(value: object) -> bool:
    """Return whether the value is a class of errors that docs/errors.md explains."""
    return inspect.isclass(value) and issubclass(value, TokenboxError)


def entry(name: str, value: object) -> list[str]:
    """Return the section of a name: signature, docstring, and for a class its public methods."""
    lines = [f"### {name}", "", "```python", signature(name, value), "```", ""]
    if doc := inspect.getdoc(value):
        lines += [plain(doc), ""]
    if inspect.isclass(value) and not issubclass(value, BaseException):
        members = list(methods(value))
        if members:
            lines += ["| method | what it does |", "|---|---|"]
            lines += [f"| `{method}` | {cell(about)} |" for method, about in members]
            lines += [""]
    return lines


def signature(name: str, value: object) -> str:
    """Return the signature as Python code, if long with a line per parameter; of an enum, its members."""
    if inspect.isclass(value) and issubclass(value, Enum):
        return "\n".join([f"class {name}", *(f"    {member.name} = {member.value!r}" for member in value)])
    kind = "class" if inspect.isclass(value) else "def"
    try:
        found = inspect.signature(value)  # type: ignore[arg-type]  # a class or a function
    except (TypeError, ValueError):
        return f"{kind} {name}"
    parameters = [shown(parameter) for parameter in found.parameters.values()]
    kinds = [parameter.kind for parameter in found.parameters.values()]
    if Parameter.KEYWORD_ONLY in kinds and Parameter.VAR_POSITIONAL not in kinds:
        parameters.insert(kinds.index(Parameter.KEYWORD_ONLY), "*")
    returns = (
        ""
        if kind == "class" or found.return_annotation is Parameter.empty
        else f" -> {found.return_annotation}"
    )
    line = f"{kind} {name}({', '.join(parameters)}){returns}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{kind} {name}(", *(f"    {each}," for each in parameters), f"){returns}"])


def shown(parameter: Parameter) -> str:
    """Return a parameter as Python code."""
    bare = str(parameter.replace(default=Parameter.empty))
    text = re.sub(r": (?:ForwardRef\()?'([^']*)'\)?", r": \1", bare)  # as Python 3.14 has it
    if parameter.default is Parameter.empty:
        return text
    default = default_text(parameter.default)
    return f"{text} = {default}" if ":" in text else f"{text}={default}"


def default_text(value: object) -> str:
    """Return a reproducible text: sets are sorted, and objects without a literal are three dots."""
    if isinstance(value, frozenset | set):
        return "{" + ", ".join(sorted(map(default_text, value))) + "}"
    if isinstance(value, tuple) and value:
        return f"({', '.join(map(default_text, value))})"
    if isinstance(value, Enum):
        return str(value) if type(value).__str__ is Enum.__str__ else f"{type(value).__name__}.{value.name}"
    text = repr(value)
    return "..." if text.startswith("<") or " at 0x" in text else text


def methods(value: type) -> Iterator[tuple[str, str]]:
    """Yield the public methods and properties that have a docstring, in source order."""
    for name, member in vars(value).items():
        function = (
            getattr(member, "func", None)
            or getattr(member, "fget", None)
            or getattr(member, "__func__", member)
        )
        doc = inspect.getdoc(function) if callable(function) else None
        if not name.startswith("_") and doc and function.__doc__:
            yield name, plain(first_sentence(doc))


def summary(value: object) -> str:
    return (inspect.getdoc(value) or "").split("\n\n")[0]


def first_sentence(doc: str) -> str:
    text = " ".join(doc.split("\n\n", maxsplit=1)[0].split())
    return re.split(r"(?<=\.)\s", text)[0]


def plain(doc: str) -> str:
    """Return a docstring as Markdown."""
    text = _ROLE.sub(r"`\1`", doc).replace("``", "`")
    return re.sub(r"^( *)>>> ", r"\1    >>> ", text, flags=re.MULTILINE)


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


PAGES = {"docs/errors.md": errors_page, "docs/api.md": api_page}


def main(arguments: list[str]) -> int:
    wrong = []
    for path, page in PAGES.items():
        text = page()
        file = ROOT / path
        if "--check" not in arguments:
            file.write_text(text, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != text:
            wrong.append(path)
    if wrong:
        print(f"{', '.join(wrong)}: out of date. Run: python tools/reference.py", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
