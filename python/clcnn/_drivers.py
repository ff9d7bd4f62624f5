"""The OpenCL driver that `pip install "clcnn[cpu]"` brings: Intel's CPU runtime, which no ICD file names.

The files of the installed package say where it is. Its devices come after those of the system's drivers. Who
chooses drivers by a variable of VARIABLES gets those alone.
"""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clcnn import _core
from clcnn._log import logger

if TYPE_CHECKING:
    from importlib.metadata import Distribution

PACKAGE = "intel-opencl-rt"
LIBRARY = "libintelocl.so"
VARIABLES = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES", "CLCNN_OPENCL_LIBRARY")


@dataclass(frozen=True, slots=True)
class PipDriver:
    """An installed copy. library: where its files say it is, None when they name none."""

    version: str
    library: Path | None

    @property
    def there(self) -> bool:
        return self.library is not None and self.library.is_file()

    def __str__(self) -> str:
        if self.there:
            return f"{PACKAGE} {self.version}: {self.library}"
        lost = self.library or LIBRARY
        return (
            f"{PACKAGE} {self.version} is broken: {lost} is missing; pip install --force-reinstall {PACKAGE}"
        )


def installed() -> list[PipDriver]:
    """Every copy that Python's path leads to, in its order: a later one is hidden by the first."""
    if not any(map(_may_have, sys.path)):
        return []
    from importlib.metadata import distributions  # takes 30 ms

    found: dict[Path | None, PipDriver] = {}
    for distribution in distributions(name=PACKAGE):
        driver = PipDriver(distribution.version, _library(distribution))
        found.setdefault(driver.library, driver)
    return list(found.values())


def _may_have(folder: str) -> bool:
    """Whether a folder of Python's path may hold the package: some entry is named like its files, or it is no
    folder (a zip file, say), which only importlib can tell."""
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return os.path.isfile(folder)
    return any(name.lower().replace("_", "-").startswith(PACKAGE) for name in names)


def _library(distribution: Distribution) -> Path | None:
    for file in distribution.files or ():
        if file.name == LIBRARY:
            place = Path(str(distribution.locate_file(file)))
            return place.parent.resolve() / place.name  # a link may lead away from the libraries beside it
    return None


def chosen(drivers: list[PipDriver]) -> PipDriver | None:
    """The copy that is used: the first, as Python imports it, if it is whole."""
    if not drivers or any(os.environ.get(name) for name in VARIABLES):
        return None
    return drivers[0] if drivers[0].there else None


def report() -> list[str]:
    """A line for each copy, with why it is left out."""
    drivers = installed()
    used = chosen(drivers)
    set_by_user = [name for name in VARIABLES if os.environ.get(name)]
    why = f"{set_by_user[0]} is set" if set_by_user else "the first copy on Python's path counts"
    return [f"{driver}{'' if driver is used else f' (left out: {why})' * driver.there}" for driver in drivers]


@functools.cache
def offer() -> None:
    """Tells the core of the driver, before the first use of a device; what is wrong with it is logged."""
    drivers = installed()
    used = chosen(drivers)
    if used is not None and used.library is not None:
        _core.offer_driver(used.library)
    for line in report() if len(drivers) > (used is not None) else ():
        logger.warning("OpenCL driver of pip: %s", line)
