"""What csrc/base/device_traits.c makes of devices that are not in this machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

# KiB; all else is 0
NONE = {"channel_block": 0, "core_cache_bytes": 1024, "unit_local_bytes": 64, "most_local_bytes": 48}
TURING = {"fixed_addresses": 1, "null_operands": 1, "builds_in_turn": 1}
AMPERE = TURING | {"tensor_cores": 1, "waiting_groups": 1}
NVIDIA = "NVIDIA Corporation"
POCL = "Portable Computing Language"
DEVICES = {  # type, vendor, floats of a vector, compute capability, host memory, vectors in halves,
    # KiB of a core's cache
    # and, where they are told, products of bytes, the platform and tiles of bfloat16
    "epyc with AVX-512": ("CPU AuthenticAMD 16 0 1 0 0", {"channel_block": 16, "separate_adders": 1}),
    "epyc with AVX512-VNNI": (
        "CPU AuthenticAMD 16 0 1 0 0",
        {"channel_block": 16, "separate_adders": 1, "byte_products": 1, "byte_permutes": 1},
        "1",
        POCL,
    ),
    "the same by another driver": (
        "CPU AuthenticAMD 16 0 1 0 0",
        {"channel_block": 16, "separate_adders": 1},
        "1",
        "Intel(R) OpenCL",
    ),
    "narrow vectors of a processor that has it": (
        "CPU GenuineIntel 8 0 1 0 0",
        {"channel_block": 8, "fetches_maps": 1},
        "1",
        POCL,
    ),
    "xeon with AMX": (
        "CPU GenuineIntel 16 0 1 0 0",
        {"channel_block": 16, "fetches_maps": 1, "byte_products": 1, "byte_permutes": 1, "amx_tiles": 1},
        "1",
        POCL,
        "1",
    ),
    "the same xeon by another driver": (
        "CPU GenuineIntel 16 0 1 0 0",
        {"channel_block": 16, "fetches_maps": 1},
        "1",
        "Intel(R) OpenCL",
        "1",
    ),
    "epyc with AVX-512 in halves": ("CPU AuthenticAMD 16 0 1 1 0", {"channel_block": 16}),
    "epyc with AVX2": ("CPU AuthenticAMD 8 0 1 0 512", {"channel_block": 8, "core_cache_bytes": 512}),
    "xeon": ("CPU GenuineIntel 16 0 1 0 0", {"channel_block": 16, "fetches_maps": 1}),
    "wider vectors": ("CPU GenuineIntel 32 0 1 0 0", {"channel_block": 16, "fetches_maps": 1}),
    "narrow vectors": ("CPU AuthenticAMD 4 0 1 0 0", {}),
    "amd gpu": ("GPU Advanced_AMD 16 0 0 0 0", {}),
    "gpu of a processor": ("GPU GenuineIntel 1 0 1 0 0", {"integrated_gpu": 1}),
    "turing": (f"GPU {NVIDIA} 1 75 0 0 0", TURING),
    "ampere": (f"GPU {NVIDIA} 1 80 0 0 0", AMPERE | {"unit_local_bytes": 164}),
    "ada": (f"GPU {NVIDIA} 1 89 0 0 0", AMPERE | {"unit_local_bytes": 100}),
    "hopper": (
        f"GPU {NVIDIA} 1 90 0 0 0",
        AMPERE | {"warpgroups": 1, "unit_local_bytes": 228, "most_local_bytes": 227},
    ),
    "blackwell": (f"GPU {NVIDIA} 1 100 0 0 0", AMPERE | {"unit_local_bytes": 228}),
    "not known": (f"GPU {NVIDIA} 1 130 0 0 0", AMPERE),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("traits") / "traits"
    compiler = os.environ.get("CC", "cc").split()
    sources = [ROOT / "tests" / "lib" / "device_traits_of.c", ROOT / "csrc" / "base" / "device_traits.c"]
    command = [*compiler, "-std=c11", f"-I{ROOT / 'csrc'}", *map(str, sources), "-o", str(out)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no C compiler")
    return out


@pytest.mark.parametrize("name", DEVICES)
def test_traits_of_a_device(program, name):
    told, traits, *more = DEVICES[name]
    kind, rest = told.split(" ", 1)
    vendor, *numbers = rest.rsplit(" ", 5)
    others = [*more, *("0", POCL, "0")[len(more) :]]
    command = [str(program), kind, vendor, *numbers, *others]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if kind == "CPU" and others[1] == POCL:
        traits = {**traits, "shares_pages": 1}
    found = {key: int(value) for key, value in (word.split("=") for word in printed.split())}
    assert found == dict.fromkeys(found, 0) | NONE | traits
