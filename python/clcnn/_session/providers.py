"""onnxruntime's provider names, and the devices that they stand for."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clcnn import _core
from clcnn import device as devices
from clcnn._log import logger
from clcnn.device import DeviceInfo
from clcnn.errors import ArgumentError, Error, NoDeviceError, UnsupportedError

OPENCL = "OpenCLExecutionProvider"


@dataclass(frozen=True)
class Provider:
    """Which devices a provider of onnxruntime stands for."""

    type: str | None = None  # "cpu", "gpu"
    part: str = ""  # of the name or the platform, in any case
    selector: str | None = None  # what to open, where any device of this kind will do

    def fits(self, device: DeviceInfo) -> bool:
        """Whether a device is one of those."""
        text = f"{device.name} {device.platform} {device.vendor}".lower()
        return self.type in (None, device.type) and self.part in text


PROVIDERS: dict[str, Provider] = {
    OPENCL: Provider(),
    "CUDAExecutionProvider": Provider("gpu", "nvidia"),
    "NvTensorRTRTXExecutionProvider": Provider("gpu", "nvidia"),
    "ROCMExecutionProvider": Provider("gpu", "amd"),
    "MIGraphXExecutionProvider": Provider("gpu", "amd"),
    "DmlExecutionProvider": Provider("gpu"),
    "WebGpuExecutionProvider": Provider("gpu"),
    "CPUExecutionProvider": Provider("cpu"),
}
# Options of a provider: the keyword of InferenceSession that each is, None for the number of the device.
PROVIDER_OPTIONS = {"device_id": None, "gpu_mem_limit": "memory_limit"}
# Options of theirs on how memory grows and which of their own algorithms they try: accepted, without effect.
IDLE_PROVIDER_OPTIONS = (
    "arena_extend_strategy",
    "cudnn_conv_algo_search",
    "cudnn_conv_use_max_workspace",
    "cudnn_conv1d_pad_to_nc1d",
    "do_copy_in_default_stream",
    "tunable_op_enable",
    "tunable_op_tuning_enable",
)


@dataclass(frozen=True)
class Choice:
    """The provider taken, the device it stands for, and the keywords that its options are."""

    name: str
    device: Any
    keywords: Mapping[str, Any]


def choose(providers: Any, provider_options: Any) -> Choice:
    """The first of the providers that stands for a device of this machine, as onnxruntime prefers them.

    providers: names, or pairs (name, options). Those that clcnn does not know are skipped with a warning.
    Raises UnsupportedError (an option that clcnn does not know), ArgumentError (not names), NoDeviceError
    (none of them has a device: no other one steps in).
    """
    given = _pairs(providers, provider_options)
    if not given:
        return Choice(OPENCL, None, {})
    wanted = [(name, options) for name, options in given if name in PROVIDERS]
    for name in (name for name, _ in given if name not in PROVIDERS):
        warnings.warn(
            f"Specified provider {name!r} is not in available provider names. "
            f"clcnn maps {', '.join(PROVIDERS)}",
            stacklevel=4,
        )
    for name, options in wanted:
        unknown = set(options) - {*PROVIDER_OPTIONS, *IDLE_PROVIDER_OPTIONS}
        if unknown:
            raise UnsupportedError(
                f"{name}: the options {sorted(unknown)} are not offered; "
                f"clcnn maps {', '.join(PROVIDER_OPTIONS)}"
            )
    present = devices.devices()
    for name, options in wanted:
        made = _device_of(name, options, present)
        if made is not None:
            keywords = {key: options[old] for old, key in PROVIDER_OPTIONS.items() if key and old in options}
            return Choice(name, made.device, keywords)
    raise NoDeviceError(
        f"providers {[name for name, _ in given]}: no OpenCL device stands for any of them; there are "
        f"{[d.name for d in present]}"
    )


@dataclass(frozen=True)
class _Found:
    device: Any


def _device_of(name: str, options: Mapping[str, Any], present: Sequence[DeviceInfo]) -> _Found | None:
    """The device with the number that the options give among those of this provider; None without one."""
    if name == OPENCL and "device_id" not in options:
        return _Found(None)  # the default selection
    fitting = [device for device in present if PROVIDERS[name].fits(device)]
    try:
        number = int(options.get("device_id", 0))
    except ValueError as error:
        raise ArgumentError(f"{name}: device_id {options['device_id']!r} is no number") from error
    return _Found(fitting[number].index) if 0 <= number < len(fitting) else None


def _pairs(providers: Any, provider_options: Any) -> list[tuple[str, dict[str, Any]]]:
    given = [providers] if isinstance(providers, str) else list(providers or ())
    extra = [provider_options] if isinstance(provider_options, Mapping) else list(provider_options or ())
    if extra and len(extra) != len(given):
        raise ArgumentError(
            f"provider_options: {len(extra)} for {len(given)} providers; each needs one, {{}} for none"
        )
    pairs = []
    for at, item in enumerate(given):
        name, options = item if isinstance(item, (tuple, list)) and len(item) == 2 else (item, {})
        if not isinstance(name, str) or not isinstance(options, Mapping):
            raise ArgumentError(f"providers: expected a name or (name, options), got {item!r}")
        pairs.append((name, {**options, **(extra[at] if extra else {})}))
    return pairs


def get_available_providers() -> list[str]:
    """Names of onnxruntime's providers that stand for a device of this machine; the first takes any.

    Returns
    -------
    list of str
        No name where there is no device, and then the log says why.

    Examples
    --------
    >>> import clcnn
    >>> clcnn.get_available_providers()[0]
    'OpenCLExecutionProvider'
    """
    try:
        present = devices.devices()
    except Error as error:
        logger.warning("get_available_providers(): %s", error)
        return []
    return [name for name, provider in PROVIDERS.items() if any(provider.fits(d) for d in present)]


def get_all_providers() -> list[str]:
    """Names of onnxruntime's providers that clcnn maps to devices, also to those that this machine lacks.

    Returns
    -------
    list of str

    Examples
    --------
    >>> import clcnn
    >>> "CUDAExecutionProvider" in clcnn.get_all_providers()
    True
    """
    return list(PROVIDERS)


def get_device() -> str:
    """The type of the device that is taken where none is named, in onnxruntime's spelling.

    Returns
    -------
    str
        "CPU", "GPU" or "ACCELERATOR". "CPU" where there is no device, and then the log says why.

    Examples
    --------
    >>> import clcnn
    >>> clcnn.get_device() in ("CPU", "GPU", "ACCELERATOR")
    True
    """
    try:
        return str(devices.get().type).upper()
    except Error as error:
        logger.warning("get_device(): %s", error)
        return "CPU"


def device_selector(device: Any) -> str | int | list[Any] | None:
    """A selector that another process understands: the index of an opened device or of a row of
    clcnn.devices(); a list for a list."""
    if isinstance(device, (list, tuple)):
        return [device_selector(one) for one in device]
    if isinstance(device, (_core.Device, DeviceInfo)):
        return device.index
    selector: str | int | None = device
    return selector
