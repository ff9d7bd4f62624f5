"""The logger "clcnn": silent unless the program configures logging, or CLCNN_LOG names a level."""

from __future__ import annotations

import logging
import os
import warnings

logger = logging.getLogger("clcnn")
logger.addHandler(logging.NullHandler())


def configure(level: str | None) -> None:
    """Sends records from `level` on ("debug", "info", "warning", ...) to stderr; None or "" changes
    nothing."""
    if not level:
        return
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        warnings.warn(f"CLCNN_LOG={level!r} is no level name of logging; ignored", stacklevel=2)
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(number)


configure(os.environ.get("CLCNN_LOG"))
