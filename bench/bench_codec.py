"""The pack codec on 100 MB: megabytes per second, whole and in chunks, and the memory of chunked decoding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from bench_layout import machine, say
from table_layout import HEAD, Row
from workers import SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenbox.content.blocks import CodeBlock

HERE = Path(__file__).resolve().parent
SIZE = 100_000_000
LARGEST = 8 << 20  # bytes of the largest block
CHUNK = 65_536
REPEATS = 5
MAX_MEMORY = 64 << 20  # above the largest block
COMPRESSIONS = ("none", "blocks", "whole")


def run(*, quick: bool) -> dict[str, Any]:
    results: dict[str, Any] = {
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine(),
        "size": SIZE // 10 if quick else SIZE,
        "quick": quick,
        "cells": [],
    }
    with tempfile.TemporaryDirectory(prefix="tokenbox-bench-") as folder:
        for compression in COMPRESSIONS:
            pack = Path(folder, f"{compression}.bcp")
            for what in ("encode", "decode", "feed"):
                one: dict[str, Any] = {"compression": compression, "what": what, "seconds": [], "memory": []}
                for _ in range(2 if quick else REPEATS):
                    given = _asked(what, compression, str(pack), str(results["size"]))
                    one["seconds"].append(given.pop("seconds"))
                    one["memory"].append(given.pop("memory"))
                    one.update(given)
                results["cells"].append(one)
                rate = results["size"] / 1e6 / median(one["seconds"])
                say(f"{compression:7} {what:7} {rate:8.0f} MB/s {max(one['memory']) / 1e6:.0f} MB")
            pack.unlink()
    results["load"] = list(os.getloadavg())
    return results


def table(results: dict[str, Any]) -> str:
    """Return the table as Markdown."""
    how = {"encode": "encode", "decode": "decode, whole", "feed": f"decode, fed {CHUNK:,} bytes at a time"}
    speed, memory = [], []
    for one in results["cells"]:
        what = f"{how[one['what']]}, compression {one['compression']}"
        rate = results["size"] / 1e6 / median(one["seconds"])
        stored = f"{one['stored'] / 1e6:.1f} MB stored"
        speed.append(Row(what, "-", f"{rate:,.0f} MB/s", stored, f"{median(one['seconds']):.2f} s", None))
        if one["what"] == "feed":
            peak = max(one["memory"])
            limit = LARGEST + MAX_MEMORY
            memory.append(
                Row(
                    f"{what}: peak beyond that before the first chunk",
                    f"<= {MAX_MEMORY >> 20} MiB above the largest block ({LARGEST >> 20} MiB)",
                    f"{peak / 1e6:.1f} MB",
                    "",
                    f"{peak / limit:.2f}x",
                    peak <= limit,
                )
            )
    lost = [
        f"* {row.what}: {row.ours}; {row.ratio}, target {row.target}" for row in memory if row.met is False
    ]
    here = results["machine"]
    quick = " A quick run: fewer repeats, a tenth of the size." if results["quick"] else ""
    parts = [
        "# The pack codec",
        (
            f"`make bench`, {results['when']}.{quick} {here['processor']}, {here['cpus']} processors, "
            f"{here['system']}, Python {'.'.join(map(str, sys.version_info[:3]))}; load before "
            f"{here['load_before'][0]:.1f}, after {results['load'][0]:.1f}.\n\n"
            f"Packs of {results['size'] / 1e6:.0f} MB of content: blocks of the library's sources of "
            f"1 KB to {LARGEST >> 20} MiB, a process for each measurement; medians. MB are of content, "
            "whatever they take when stored. Every pack that is read is compared with what was written."
        ),
        f"**{sum(row.met is True for row in memory)} met, {len(lost)} lost.**",
        *(["Lost:\n\n" + "\n".join(lost)] if lost else []),
        f"## Memory of the incremental decoder\n\n{HEAD}\n" + "\n".join(row.line() for row in memory),
        f"## Speed\n\n{HEAD}\n" + "\n".join(row.line() for row in speed),
    ]
    return "\n\n".join(parts) + "\n"


def _asked(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(HERE / "bench_codec.py"), *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{HERE}"},
    )
    given: dict[str, Any] = json.loads(done.stdout)
    return given


# In the process of a measurement.


def _blocks(size: int) -> Iterator[CodeBlock]:
    """Yield blocks with ``size`` bytes of content in total: sources, cut into pieces of various sizes."""
    from tokenbox.content.block_kinds import Lang
    from tokenbox.content.blocks import CodeBlock

    source = b"".join(
        path.read_bytes() for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    ).decode("utf-8", "replace")
    text = source.encode("ascii", "replace")
    text *= 1 + LARGEST // len(text)
    sizes = (1_000, 4_000, 16_000, 64_000, 2_000, 256_000, 8_000, LARGEST)
    done = number = 0
    while done < size:
        wanted = min(
            sizes[number % len(sizes)] if number % 800 == 7 or number % 8 != 7 else 32_000, size - done
        )
        start = number * 7_919 % max(1, len(text) - wanted)
        content = text[start : start + wanted]
        yield CodeBlock(Lang.PYTHON, f"f{number}.py", content)
        done += wanted
        number += 1


def _measure(what: str, compression: str, name: str, size: int) -> dict[str, Any]:
    import hashlib
    import resource
    import time

    from tokenbox.lcp import BlockEvent, Compression, Decoder, Limits, decode, encode

    def peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    limits = Limits(expanded_payload=2 * SIZE)
    path = Path(name)
    digest = hashlib.sha256()
    if what == "encode":
        blocks = list(_blocks(size))
        before, start = peak(), time.perf_counter()
        data = encode(blocks, compression=Compression(compression))
        seconds = time.perf_counter() - start
        path.write_bytes(data)
        for block in blocks:
            digest.update(block.content)
        path.with_suffix(".sha256").write_text(digest.hexdigest(), encoding="utf-8")
        return {"seconds": seconds, "memory": peak() - before, "stored": len(data), "blocks": len(blocks)}
    if what == "decode":
        data = path.read_bytes()
        before, start = peak(), time.perf_counter()
        pack = decode(data, limits=limits)
        seconds = time.perf_counter() - start
        for block in pack.blocks:
            digest.update(block.content)  # type: ignore[union-attr]
        given = {
            "seconds": seconds,
            "memory": peak() - before,
            "stored": len(data),
            "blocks": len(pack.blocks),
        }
    else:
        decoder, seconds, count = Decoder(limits=limits), 0.0, 0
        before = peak()
        with path.open("rb", buffering=0) as file:
            while chunk := file.read(CHUNK):
                start = time.perf_counter()
                events = decoder.feed(chunk)
                seconds += time.perf_counter() - start
                for event in events:
                    if isinstance(event, BlockEvent):
                        count += 1
                        digest.update(event.block.content)  # type: ignore[union-attr]
        decoder.finish()
        given = {
            "seconds": seconds,
            "memory": peak() - before,
            "stored": path.stat().st_size,
            "blocks": count,
        }
    if digest.hexdigest() != path.with_suffix(".sha256").read_text(encoding="utf-8"):
        raise SystemExit(f"{what}, {compression}: the blocks are not those that were written")
    return given


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))))
