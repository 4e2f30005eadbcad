"""``nki cache``: lists or removes the compiled kernels on disk."""

from __future__ import annotations

import argparse

from nki.base.usage import UsageError, nearest
from nki.base.wording import plural
from nki.cli.output.documents import CacheEntry, Cleared
from nki.cli.output.printed import print_document, stamp
from nki.compilation.cache import store
from nki.compilation.cache.store import Entry


def command(options: argparse.Namespace) -> int:
    """Carry out ``nki cache``."""
    if options.clear is None:
        entries = store.entries()
        if options.json:
            print_document([described(entry) for entry in entries])
        else:
            print(_text(entries))
        return 0
    kernel = options.clear or None
    if kernel is not None and kernel not in (known := sorted({entry.kernel for entry in store.entries()})):
        raise UsageError(f"no kernel {kernel!r} is in the cache", nearest(kernel, known, "kernels in the cache"))
    removed = store.clear(kernel)
    native = store.clear_native() if kernel is None else 0
    text = f"removed {plural(removed, 'file')}{f', and {native} of native code' if native else ''}"
    if options.json:
        print_document(Cleared(**stamp(), removed=removed + native))
    else:
        print(text)
    return 0


def described(entry: Entry) -> CacheEntry:
    """An entry as a record."""
    return {
        **stamp(),
        "kernel": entry.kernel,
        "file": entry.file,
        "line": entry.line,
        "arguments": list(entry.arguments),
        "target": entry.target,
        "instructions": entry.instructions,
        "bytes": entry.size,
        "age": round(entry.age),
        "path": str(entry.path),
    }


def _text(entries: list[Entry]) -> str:
    lines: list[str] = []
    for e in entries:
        lines.append(f"{e.kernel}({', '.join(e.arguments)}) on {e.target}: {plural(e.instructions, 'instruction')}")
        lines.append(f"  {e.file}:{e.line}")
        lines.append(f"  {e.path.name}  {plural(e.size, 'byte')}, used {_ago(e.age)}")
    total = sum(e.size for e in entries)
    limit = store.LIMIT >> 20
    artifacts = store.artifacts()
    if artifacts:
        size = sum(size for _, size in artifacts)
        total += size
        lines.append(
            f"{plural(len(artifacts), 'artifact')} of graphs, {plural(size, 'byte')}, in {store.artifacts_folder()}"
        )
    native = store.native_sizes()
    if native:
        lines.append(f"{plural(len(native), 'file')} of native code, {sum(native)} bytes, in {store.native_folder()}")
    lines.append(f"{_entries(len(entries))}, {total / 2**20:.1f} of {limit} MiB, in {store.folder()}")
    return "\n".join(lines)


def _entries(count: int) -> str:
    return f"{count} entr{'y' if count == 1 else 'ies'}"


def _ago(seconds: float) -> str:
    for name, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            return f"{plural(int(seconds // size), name)} ago"
    return "just now"
