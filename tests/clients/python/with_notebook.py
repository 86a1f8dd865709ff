"""Runs a notebook in a kernel, as Jupyter does, and prints what its cells showed: ``with_notebook.py``."""

import json
import sys
import tempfile
from pathlib import Path

import nbformat
from ipykernel.kernelspec import write_kernel_spec
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient

SOURCES = str(Path(__file__).parents[3] / "src")
CELLS = (
    f"import sys; sys.path.insert(0, {SOURCES!r})",
    """import tokenbox
from tokenbox.inspect import slider
rules = {"id": "rules", "content": "Be brief."}
notes = {"id": "<script>owned</script>", "content": "word " * 40, "shrink": 1}
layout = tokenbox.layout([rules, notes], 20, "o200k_base")
layout""",
    'tokenbox.fit([{"role": "user", "content": "hi"}], 100, "o200k_base")',
    'tokenbox.ctx.enforce("gpt-4o", [layout.text], tokenizer="o200k_base")',
    "widget = slider(layout)\nwidget",
    """seen = []
widget.observe(lambda change: seen.append(change["new"]), "budget")
widget.set_state({"budget": 12})
print(seen, tokenbox.layout(layout.inputs, widget.budget, "o200k_base").total)""",
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_kernel_spec(str(Path(folder) / "python3"))
        manager = AsyncKernelManager(
            kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[folder])
        )
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS])
        NotebookClient(book, timeout=300, km=manager).execute()
    nbformat.validate(book)
    shown = [[dict(output) for output in cell.outputs] for cell in book.cells]
    print(json.dumps({"python": sys.executable, "shown": shown}))


main()
