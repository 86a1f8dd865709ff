"""Find what the files beside a file tell of it: that it was copied or compiled.

Copied are repositories of others, such as ``lib/Catch2/``, and libraries, such as ``contrib/zlib/``. Compiled
is ``cart.js`` beside ``cart.ts``.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from tokenbox.folder.languages import kind_of

# Settings of a CI, which work only at the top of a repository, and what is before them.
_CI = re.compile(
    r"(.+/)(?:\.github/workflows/[^/]+|\.circleci/[^/]+|\.travis\.yml|\.?appveyor\.yml|\.gitlab-ci\.yml)",
    re.DOTALL,
)
# Libraries that projects contain in such a folder. A binding is mostly in another language than C.
_LIBRARY = re.compile(
    r"((?:.+/)?(?:contrib|libs?|libraries)/(?:angle|asio|assimp|blake[23]\w*|boost|box2d|brotli|bullet3?|bzip2|capstone|"
    r"c-?ares|catch2?|cjson|curl|doctest|duktape|eigen3?|enet|expat|fastlz|fmt(?:lib)?|freetype2?|fribidi|gflags|"
    r"giflib|glad|glew|glfw3?|glm|glog|gmock|googletest|gtest|harfbuzz|hiredis|http[-_]?parser|icu|imgui|jansson|"
    r"jemalloc|json-c|jsoncpp|kiss_?fft|leveldb|lib(?:archive|bpf|curl|event|ffi|git2|jpeg\S*|lua|png|ressl|sodium|"
    r"ssh2|tom\w+|usb\w*|uv|vorbis|webp|xml2|yaml|zip)|linenoise|llhttp|lmdb|lodepng|lua|luajit|lz4|lzma\w*|mbedtls|"
    r"mimalloc|miniaudio|minilua|miniupnpc|miniz|minizip|msgpack\S*|nanopb|nanosvg|nghttp2|nlohmann\S*|oniguruma|"
    r"openssl|pcre2?|physfs|picojson|protobuf|pugixml|quickjs|rapidjson|sdl2?|simdjson|snappy|soloud|spdlog|sqlite|"
    r"stb|tinycthread|tinyobjloader|tinyxml2?|tolua\+*|utf8(?:cpp|proc)|uthash|xxhash|yajl|yaml-cpp|yyjson|"
    r"zlib(?:-ng)?|zstd)[-_.]?v?[0-9.]*/).+",
    re.IGNORECASE | re.DOTALL,
)
_IN_C = frozenset(("c", "cpp"))
# Where that many known libraries are, at least one in so many folders, the others are libraries as well. In
# ``lib/`` there is often code of the project.
_SHELF = re.compile(r"(((?:.+/)?(?:contrib|libs|libraries)/)[^/]+/).+", re.IGNORECASE | re.DOTALL)
_MANY, _SHARE = 3, 4
# What programs write from a file of the same name beside it.
_COMPILED: Mapping[str, Collection[str]] = {
    "lua": ("moon", "fnl", "tl", "yue"),
    "js": ("ts", "tsx", "mts", "coffee", "ls", "res", "civet"),
    "mjs": ("mts", "res"),
    "bs.js": ("res", "re", "ml"),
    "res.js": ("res",),
    "res.mjs": ("res",),
    "d.ts": ("ts", "tsx"),
    "css": ("scss", "sass", "less", "styl"),
    "c": ("pyx", "vala"),
    "cpp": ("pyx",),
}
# Declarations of TypeScript in a folder of their own. In that folder itself they are of other packages.
_DECLARED = re.compile(r"((?:.+?/)??)(?:types|typings|dts)/(.+/.+)\.d\.ts", re.DOTALL)
_LICENSE = re.compile(r"(?:mit-)?(?:licen[cs]e|copying)(?:\.(?:md|txt|rst))?", re.IGNORECASE)
_WORD = re.compile(rb"[A-Za-z]+")


def copied_repositories(files: Iterable[tuple[str, bytes]]) -> tuple[str, ...]:
    """Return the folders, each with a slash at its end, of known libraries, or with an own CI and license.

    ``files``: paths and texts. A part of the project that is also published alone has its license, but for
    the years.
    """
    in_c: Counter[str] = Counter()  # the number of files in C, less those in other languages
    beside: dict[str, set[str]] = defaultdict(set)
    with_ci: set[str] = set()
    licenses: dict[str, set[tuple[bytes, ...]]] = defaultdict(set)
    for path, text in files:
        if (library := _LIBRARY.fullmatch(path)) is not None:
            outline = kind_of(path, b"").outline
            in_c[library[1]] += 0 if outline is None else 1 if outline in _IN_C else -1
        if (shelf := _SHELF.fullmatch(path)) is not None:
            beside[shelf[2]].add(shelf[1])
        if (ci := _CI.fullmatch(path)) is not None:
            with_ci.add(ci[1])
        folder, slash, name = path.rpartition("/")
        if _LICENSE.fullmatch(name) is not None:
            licenses[folder + slash].add(tuple(_WORD.findall(text)))
    libraries = {folder for folder, number in in_c.items() if number > 0}
    for folders in beside.values():
        known = len(folders & libraries)
        if known >= _MANY and known * _SHARE >= len(folders):
            libraries |= folders
    own = licenses[""]
    others = [folder for folder in with_ci if own and licenses[folder] and own.isdisjoint(licenses[folder])]
    return (*libraries, *others)


def compiled(paths: Collection[str]) -> Iterator[str]:
    """Yield the files that a program wrote from the one beside them, such as ``cart.js`` and ``cart.ts``.

    Declarations of TypeScript may be in a folder of their own: ``types/shop/cart.d.ts`` is written from
    ``shop/cart.ts`` or ``src/shop/cart.ts``.
    """
    known = set(paths)
    for path in paths:
        stem, _, ending = path.rpartition(".")
        longer, _, before = stem.rpartition(".")
        starts = [(stem, ending), (longer, f"{before}.{ending}")]
        if (declared := _DECLARED.fullmatch(path)) is not None:
            starts += [(f"{declared[1]}{folder}{declared[2]}", "d.ts") for folder in ("", "src/")]
        if any(f"{start}.{source}" in known for start, kind in starts for source in _COMPILED.get(kind, ())):
            yield path
