"""`clcnn cache`"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import platformdirs

from clcnn.device import cache_folder
from clcnn.report import size

HELP = "show or clear the cache of compiled kernels and imported graphs"
ENTRIES = "[0-9a-f][0-9a-f]/*.bin"  # what runtime/cache.c writes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clear", action="store_true", help="delete every entry")


def entries(folder: Path) -> list[tuple[Path, int]]:
    """The cache's files and their sizes in bytes; other processes may delete some meanwhile."""
    found = []
    for path in folder.glob(ENTRIES):
        try:
            found.append((path, path.stat().st_size))
        except FileNotFoundError:
            continue
    return found


def pocl_folder() -> Path:
    """Where PoCL keeps the kernels that it built, for clcnn and everything else."""
    named = os.environ.get("POCL_CACHE_DIR")
    return Path(named) if named else Path(platformdirs.user_cache_dir("pocl", False)) / "kcache"


def pocl_text() -> str:
    """A line on PoCL's own cache, which clcnn neither fills nor clears; "" where there is none."""
    folder = pocl_folder()
    sizes = []
    for path in folder.rglob("*"):
        try:
            if path.is_file():
                sizes.append(path.stat().st_size)
        except OSError:  # of another process
            continue
    if not sizes:
        return ""
    return f"\n{folder}\n{len(sizes)} files, {size(sum(sizes))}: PoCL's own, which --clear leaves alone"


def run(args: argparse.Namespace) -> int:
    folder = cache_folder()
    if folder is None:
        print(f"the cache is off (CLCNN_CACHE_DIR=0){pocl_text()}")
        return 0
    found = entries(folder)
    total = sum(bytes_ for _, bytes_ in found)
    if not args.clear:
        print(f"{folder}\n{len(found)} entries, {size(total)}{pocl_text()}")
        return 0
    for path, _ in found:
        path.unlink(missing_ok=True)
    print(f"{folder}\ndeleted {len(found)} entries, {size(total)}")
    return 0
