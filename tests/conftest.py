"""What all tests share: the device under test, the folder of test data, and the marks `slow` and `gpu`.

CLCNN_TEST_DEVICE names the device (default "cpu"), CLCNN_TEST_DATA the folder of test data (default:
shared/data beside the repository); tests that need the folder are skipped when it is absent.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import clcnn

ROOT = Path(__file__).resolve().parents[1]
DEVICE = os.environ.get("CLCNN_TEST_DEVICE", "cpu")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--run-slow", action="store_true", help="also run the tests that take long")


def pytest_configure(config: pytest.Config) -> None:
    # Kernels built by one run serve the next one, and the user's own cache is left alone.
    os.environ.setdefault("CLCNN_CACHE_DIR", str(config.rootpath / ".pytest_cache" / "kernels"))


def pytest_report_header(config: pytest.Config) -> str:
    import clcnn

    try:
        with clcnn.Device(DEVICE) as device:
            return f"OpenCL device: {device}"
    except clcnn.Error as error:
        return f"OpenCL device: none for {DEVICE!r} ({error})"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    skips = {}
    if not config.getoption("--run-slow"):
        skips["slow"] = pytest.mark.skip(reason="slow: needs --run-slow (make test-all)")
    if DEVICE == "cpu":
        skips["gpu"] = pytest.mark.skip(reason="gpu: CLCNN_TEST_DEVICE names no GPU (make test-gpu)")
    for item in items:
        for name, skip in skips.items():
            if item.get_closest_marker(name):
                item.add_marker(skip)


@pytest.fixture(scope="session")
def device() -> Iterator[clcnn.Device]:
    """The device under test, open for the whole run."""
    import clcnn

    with clcnn.Device(DEVICE) as opened:
        yield opened


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of test data: reference logits, photos, ONNX models."""
    folder = Path(os.environ.get("CLCNN_TEST_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no test data in {folder} (CLCNN_TEST_DATA names the folder)")
    return folder


@pytest.fixture
def interrupts() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also in a shell's background jobs, which ignore it."""
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, old)
