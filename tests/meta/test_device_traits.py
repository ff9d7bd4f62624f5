"""Rules look at properties of a device, and one file decides by its vendor which ones it has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"
CORE = sorted(path for path in CSRC.rglob("*") if path.suffix in (".c", ".h", ".def"))
JUDGE = "base/device_traits.c"
# Who else may hold a device's vendor or compute capability, and what for.
HOLDERS = {
    "clcnn.h": "declares them",
    "runtime/device_list.c": "asks the driver",
    "runtime/program_build.c": "part of the key of the kernel cache",
    "py/py_device.c": "shows them",
    "registry.c": "tells what an algorithm needs",
    "py/module.c": "shows that",
}
WORDS = "vendor|cpu_vendor|compute_capability"
VENDORS = r"AMD|Advanced Micro|NVIDIA|Intel|GenuineIntel|Apple|Qualcomm|Arm\b|ARM\b|Mali|Adreno"
ADVICE = "ask for a property: struct device_traits in csrc/base/device_traits.h"


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)


def judgements(text: str) -> list[str]:
    """Lines of C that tell devices apart by who made them."""
    code = without_comments(text)
    words = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', code)
    by_word = [line for line in words.splitlines() if re.search(rf"\b({WORDS})\b", line)]
    compared = rf'\bstr\w*(cmp|str)\w*\([^;"]*"[^"\n]*(?:{VENDORS})[^"\n]*"'
    return [line.strip() for line in by_word] + [match[0] for match in re.finditer(compared, code)]


@pytest.mark.parametrize("path", CORE, ids=lambda path: path.relative_to(CSRC).as_posix())
def test_devices_are_judged_in_one_file(path):
    name = path.relative_to(CSRC).as_posix()
    if name == JUDGE:
        assert judgements(path.read_text("utf-8")), f"{name} is where devices are judged"
    elif name in HOLDERS:
        code = without_comments(path.read_text("utf-8"))
        compared = rf"\b({WORDS})\)?\s*([<>]|==|!=)|str\w*(cmp|str)\w*\([^;]*\b(?:cpu_)?vendor\b"
        assert not re.search(compared, code), f"{name} only {HOLDERS[name]}: {ADVICE}"
    else:
        assert judgements(path.read_text("utf-8")) == [], ADVICE


@pytest.mark.parametrize(
    "line",
    [
        'return p->block == 16 && strstr(p->device->vendor, "AMD") != NULL;',
        "return info->compute_capability >= 80;",
        'if (strcmp(dev->info.platform, "NVIDIA CUDA") == 0)',
        'return strcasestr(info->name, "intel(r) Intel Xeon") != NULL;',
    ],
)
def test_a_judgement_is_found(line):
    assert judgements(f"/* of a vendor */\n{line}\n") != []


def test_words_in_comments_and_messages_are_no_judgement():
    text = '/* NVIDIA\'s vendor */\nREQUIRE(why, ok, "an NVIDIA GPU of compute capability 8.0 is needed");\n'
    assert judgements(text) == []


def test_every_trait_is_used():
    header = without_comments((CSRC / "base" / "device_traits.h").read_text("utf-8"))
    fields = re.findall(r"^    \w+ (\w+);", header, re.MULTILINE)
    assert len(fields) >= 8
    code = "".join(without_comments(p.read_text("utf-8")) for p in CORE if p.stem != "device_traits")
    unused = [field for field in fields if not re.search(rf"\.{field}\b", code)]
    assert unused == [], "edit: csrc/base/device_traits.h"
