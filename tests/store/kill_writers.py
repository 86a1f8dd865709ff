"""Write a bundle repeatedly, killed one step later each time: `kill_writers.py FOLDER`.

A step is a line of tokenbox.store.bundles or of tokenbox.store.bundle_log. Prints what each kill left:
nothing or a whole bundle. Fails on an incomplete bundle and on an invalid log.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.proof.examples import EXAMPLES
from tokenbox.proof.verify import verify
from tokenbox.store import bundle_log, bundles

if TYPE_CHECKING:
    from types import FrameType

    from tokenbox.proof.evidence import Evidence


def write_until(folder: Path, evidence: Evidence, last: int) -> None:
    """Write the bundle in a process that is killed after ``last`` lines."""
    left = last

    def trace(frame: FrameType, event: str, _: object) -> object:
        nonlocal left
        if frame.f_code.co_filename not in (bundles.__file__, bundle_log.__file__):
            return None
        if event == "line":
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    store = bundles.Bundles(folder, texts=True, fsync=True)
    sys.settrace(trace)  # type: ignore[arg-type]
    store.write(evidence)


def left_behind(folder: Path) -> str:
    store = bundles.Bundles(folder)
    for bundle_id in store.ids():
        verify(store.files(bundle_id), bundle_id)
    names = {name.name for name in folder.iterdir()} if folder.exists() else set()
    assert names - {bundles.DRAFTS, bundle_log.LOG} == set(store.ids()), names
    return "whole" if store.ids() else "none"


def main(folder: Path) -> None:
    found: list[str] = []
    evidence, next_evidence = EXAMPLES["refusal"](), EXAMPLES["layout"]()
    killed = True
    while killed:
        child = os.fork()
        if not child:
            write_until(folder, evidence, len(found))
            os._exit(0)
        killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        found.append(left_behind(folder))
        # The next writer is not hindered by what was left, and finds an existing bundle.
        again = bundles.Bundles(folder, texts=True).write(evidence)
        assert again.new == (found[-1] == "none")
        store = bundles.Bundles(folder)
        assert list(bundle_log.verify_log(store.log, store.ids)) == []
        # The next write repairs the log.
        other = store.write(next_evidence)
        assert list(store.log.ids()) == [again.id, other.id]
        assert store.log.pending() is None
        assert list(bundle_log.verify_log(store.log, store.ids)) == []
        shutil.rmtree(folder)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
