"""POCL_AFFINITY=1 is set where PoCL cannot abort for it: the rule by itself (csrc/runtime/pinning.c), and
whole processes."""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import DEVICE

from helpers import python

MOST = 1024
LOOKUP = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)
Rule = Callable[..., bool]


@pytest.fixture(scope="module")
def rule(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rule]:
    """pinning_is_safe(), for a machine that only the arguments tell of."""
    root = Path(__file__).resolve().parents[2] / "csrc"
    library = tmp_path_factory.mktemp("pinning") / "pinning.so"
    compiler = shlex.split(os.environ.get("CC", "cc"))
    flags = ["-std=gnu11", "-shared", "-fPIC", f"-I{root}", "-o", str(library)]
    try:
        subprocess.run(
            [*compiler, *flags, str(root / "runtime" / "pinning.c")], check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"cannot build pinning.c: {error}")
    function = ctypes.CDLL(str(library)).pinning_is_safe
    function.restype = ctypes.c_bool
    function.argtypes = [ctypes.c_char_p, ctypes.c_char_p, LOOKUP]

    def safe(online: str, allowed: range | set[int], **environment: str) -> bool:
        texts = {
            key.encode(): ctypes.create_string_buffer(text.encode()) for key, text in environment.items()
        }
        known = {key: ctypes.addressof(text) for key, text in texts.items()}
        mask = bytes(i in allowed for i in range(MOST))
        return bool(function(online.encode(), mask, LOOKUP(known.get)))

    yield safe


@pytest.mark.parametrize(
    ("online", "allowed", "safe"),
    [
        ("0-7\n", range(8), True),
        ("0\n", range(1), True),
        ("0-1023\n", range(1024), True),
        ("0-7\n", range(4), False),  # workers 4 to 7 may be outside the control group
        ("0-7\n", {4, 5, 6, 7}, False),
        ("0-3\n", range(8), False),
        ("2-3\n", {2, 3}, False),  # worker 0 has no processor 0
        ("0,2-3\n", {0, 2, 3}, False),
        ("0-1,4-5\n", {0, 1, 4, 5}, False),
        ("1\n", {1}, False),
        ("0-1024\n", range(1024), False),  # more than PoCL's mask has room for
        ("0-99999999999999999999\n", range(1024), False),
        ("", range(8), False),
        ("\n", set(), False),
        ("0-\n", range(1), False),
        ("-0\n", range(1), False),
        ("0-7x\n", range(8), False),
    ],
)
def test_processors(rule: Rule, online: str, allowed: range | set[int], safe: bool) -> None:
    assert rule(online, allowed) == safe


COUNTS = ["POCL_MAX_PTHREAD_COUNT", "POCL_PTHREAD_MIN_THREADS", "POCL_CPU_MAX_CU_COUNT",
          "POCL_CPU_MIN_CU_COUNT", "POCL_MAX_COMPUTE_UNITS"]  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_numbers_of_workers(rule: Rule, name: str) -> None:
    safe = {
        text: rule("0-3", range(4), **{name: text}) for text in ("1", "4", "5", "0", "-1", "", "4x", "9" * 30)
    }
    assert safe == {text: text in ("1", "4") for text in safe}


@pytest.mark.parametrize("name", ["HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_FSROOT"])
def test_topologies_of_other_machines(rule: Rule, name: str) -> None:
    assert not rule("0-3", range(4), **{name: "x"})


SHOW = """
    import ctypes, os
    import clcnn
    getenv = ctypes.CDLL(None).getenv  # os.environ does not see what C sets
    getenv.restype = ctypes.c_char_p
    clcnn.devices()
    print(clcnn.Device().compute_units, getenv(b"POCL_AFFINITY"))
"""


def unset() -> dict[str, str]:
    if not Path("/sys/devices/system/cpu/online").exists():
        pytest.skip("not Linux")
    if any(name in os.environ for name in (*COUNTS, "POCL_AFFINITY")):
        pytest.skip("PoCL's workers are counted by the environment")
    return {}


@pytest.mark.parametrize("name", COUNTS[:2])
def test_more_workers_than_processors_end_no_process(name: str) -> None:
    unset()
    many = (os.cpu_count() or 1) + 3
    units, affinity = python(SHOW, 60, **{name: str(many)}).split()
    assert affinity == "None"


def test_what_the_user_has_set_stays() -> None:
    unset()
    assert python(SHOW, 60, POCL_AFFINITY="0").split()[1] == "b'0'"


def test_devices_that_share_threads_run_no_chains() -> None:
    if DEVICE != "cpu":
        pytest.skip("PoCL makes several devices of a CPU only")
    code = """
        import clcnn
        with clcnn.compile(clcnn.zoo.lenet5(), (1, 1, 28, 28), device=1) as plan:
            print(plan.stats["chained_steps"])
    """
    assert python(code, 60, POCL_DEVICES="pthread pthread").strip() == "0"


def test_workers_are_pinned_where_that_is_safe() -> None:
    unset()
    online = Path("/sys/devices/system/cpu/online").read_text()
    whole = set(range(os.cpu_count() or 1))
    expected = os.sched_getaffinity(0) == whole and online.strip() in ("0", f"0-{len(whole) - 1}")
    assert python(SHOW, 60).split()[1] in (("b'1'", "None") if expected else ("None",))  # None: a quota
