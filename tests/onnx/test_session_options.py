"""onnxruntime's options and providers: mapped, without effect, or refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import DEVICE

import clcnn
from clcnn import session_options
from clcnn.session import InferenceSession
from helpers import refused

pytest.importorskip("onnx")

from session_models import convolution, options_with, photo  # noqa: E402

# ---- options ----


def test_optimisation_level_is_mapped(device: clcnn.Device) -> None:
    x, levels = photo(1, 3, 5, 5), clcnn.GraphOptimizationLevel
    results = []
    for level in (levels.ORT_ENABLE_ALL, levels.ORT_DISABLE_ALL):
        with InferenceSession(
            convolution(), options_with(graph_optimization_level=level), device=device
        ) as made:
            plan = made.plan({"x": x.shape})
            assert bool(plan.rewrites) == (level == levels.ORT_ENABLE_ALL)
            assert made.get_session_options().graph_optimization_level == level
            results.append(made.run(["y"], {"x": x})[0])
    np.testing.assert_allclose(*results, atol=1e-6)


def test_free_dimensions_are_fixed(device: clcnn.Device) -> None:
    fixed = clcnn.SessionOptions()
    for name, size in (("n", 1), ("h", 6), ("w", 7)):
        fixed.add_free_dimension_override_by_name(name, size)
    assert repr(fixed) == "SessionOptions(n=1, h=6, w=7)"
    with InferenceSession(convolution(), fixed, device=device) as made:
        assert made.get_inputs()[0].shape == [1, 3, 6, 7] and "1 plans" in repr(made)
        refused(
            lambda: made.run(None, {"x": photo(2, 3, 6, 7)}), clcnn.ShapeError, ValueError, "(1, 3, 6, 7)"
        )
    refused(
        lambda: fixed.add_free_dimension_override_by_name("n", 0), clcnn.ArgumentError, ValueError, "'n'", "0"
    )


@pytest.mark.parametrize(
    ("name", "value"), [("enable_profiling", True), ("optimized_model_filepath", "x.onnx")]
)
def test_options_that_are_refused(name: str, value: Any) -> None:
    refused(
        lambda: InferenceSession(convolution(), options_with(**{name: value})),
        clcnn.UnsupportedError,
        NotImplementedError,
        f"sess_options.{name}",
        session_options.OPTIONS[name].instead,
    )


def test_options_have_onnxruntimes_names_and_defaults() -> None:
    ort = pytest.importorskip("onnxruntime")
    theirs, ours = ort.SessionOptions(), clcnn.SessionOptions()
    names = {n for n in dir(theirs) if not n.startswith("_") and not callable(getattr(theirs, n))}
    assert names == set(session_options.OPTIONS)
    for name in names:
        value = getattr(theirs, name)
        assert getattr(ours, name) == (value if isinstance(value, str) else int(value)), name
    run = ort.RunOptions()
    assert {n: getattr(run, n) for n in clcnn.RunOptions.DEFAULTS} == clcnn.RunOptions.DEFAULTS


def test_onnxruntimes_own_options_are_read(device: clcnn.Device) -> None:
    ort = pytest.importorskip("onnxruntime")
    given = ort.SessionOptions()
    given.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    with InferenceSession(convolution(), given, device=device) as made:
        assert made.plan({"x": (1, 3, 5, 5)}).rewrites == []
        assert made.get_session_options().graph_optimization_level == 0
        made.run(None, {"x": photo(1, 3, 5, 5)}, ort.RunOptions())
    given.enable_profiling = True
    refused(
        lambda: InferenceSession(convolution(), given),
        clcnn.UnsupportedError,
        NotImplementedError,
        "enable_profiling",
    )


def test_options_that_do_not_exist() -> None:
    refused(lambda: options_with(enable_profilin=1), clcnn.ArgumentError, ValueError, "mean enable_profiling")
    refused(lambda: setattr(clcnn.RunOptions(), "x", 1), clcnn.ArgumentError, ValueError, "RunOptions has no")
    refused(lambda: InferenceSession(convolution(), {"a": 1}), clcnn.ArgumentError, ValueError, "got dict")
    config = clcnn.SessionOptions()
    config.add_session_config_entry("session.intra_op.allow_spinning", "0")
    refused(
        lambda: config.add_session_config_entry("session.load_model_format", "ORT"),
        clcnn.UnsupportedError,
        NotImplementedError,
        "'session.load_model_format'",
    )


def test_arguments_that_do_not_exist() -> None:
    refused(
        lambda: InferenceSession(convolution(), disabled_optimizers=["a"]),
        clcnn.UnsupportedError,
        NotImplementedError,
        "disabled_optimizers=['a']",
    )
    refused(lambda: InferenceSession(convolution(), fast=1), clcnn.ArgumentError, ValueError, "'fast'")
    refused(
        lambda: InferenceSession(convolution(), max_plans=0), clcnn.ArgumentError, ValueError, "max_plans: 0"
    )
    refused(lambda: InferenceSession(7), clcnn.ArgumentError, ValueError, "int")


def test_run_options_that_ask_to_stop(device: clcnn.Device) -> None:
    stop = clcnn.RunOptions()
    stop.terminate = True
    with InferenceSession(convolution(), device=device) as made:
        refused(
            lambda: made.run(None, {"x": photo(1, 3, 5, 5)}, stop),
            clcnn.UnsupportedError,
            NotImplementedError,
            "timeout=",
        )


# ---- providers ----


def test_providers_stand_for_devices() -> None:
    cpus = [d for d in clcnn.devices() if d.type == "cpu"]
    available = clcnn.get_available_providers()
    assert available[0] == session_options.OPENCL and ("CPUExecutionProvider" in available) == bool(cpus)
    assert clcnn.get_device() in ("CPU", "GPU", "ACCELERATOR")
    if not cpus:
        pytest.skip("no OpenCL device that is a processor")
    wanted = ["CUDAExecutionProvider", ("CPUExecutionProvider", {"device_id": "0"})]
    if any(d.type == "gpu" for d in clcnn.devices()):
        wanted = wanted[1:]
    with InferenceSession(convolution(), providers=wanted) as made:
        assert made.get_providers() == ["CPUExecutionProvider"] and made.device.type == "cpu"
        assert made.get_provider_options() == {
            "CPUExecutionProvider": {"device_id": str(cpus[0].index), "device_name": cpus[0].name}
        }
    with InferenceSession(convolution(), None, available) as made:
        assert made.get_providers() == [session_options.OPENCL]


def test_provider_options_are_mapped(device: clcnn.Device) -> None:
    choice = session_options.choose([session_options.OPENCL], [{"gpu_mem_limit": 4096}])
    assert choice.keywords == {"memory_limit": 4096} and choice.device is None
    refused(
        lambda: InferenceSession(
            convolution(1, 64, 64), providers=[(session_options.OPENCL, {"gpu_mem_limit": 4096})]
        ),
        clcnn.DeviceMemoryError,
        MemoryError,
        "limit",
    )


@pytest.mark.parametrize(
    ("providers", "options", "kind", "message"),
    [
        (["CPUExecutionProvider"], [{"arena": 1}], clcnn.UnsupportedError, "['arena']"),
        (["CPUExecutionProvider"], [{}, {}], clcnn.ArgumentError, "2 for 1 providers"),
        ([7], None, clcnn.ArgumentError, "got 7"),
        ([("CPUExecutionProvider", {"device_id": "x"})], None, clcnn.ArgumentError, "device_id 'x'"),
        ([("CPUExecutionProvider", {"device_id": 99})], None, clcnn.NoDeviceError, "no OpenCL device"),
    ],
)
def test_providers_that_are_refused(
    providers: Any, options: Any, kind: type[clcnn.Error], message: str
) -> None:
    refused(lambda: InferenceSession(convolution(), None, providers, options), kind, Exception, message)


def test_unknown_providers_are_skipped_with_a_warning() -> None:
    wanted = ["TensorrtExecutionProvider", session_options.OPENCL]
    with pytest.warns(UserWarning, match="provider 'TensorrtExecutionProvider' is not in available"):
        choice = session_options.choose(wanted, None)
    assert choice.name == session_options.OPENCL
    with pytest.warns(UserWarning, match="'Tensorrt"), pytest.raises(clcnn.NoDeviceError, match="Tensorrt"):
        InferenceSession(convolution(), providers=wanted[:1])


def test_options_of_providers_without_a_meaning_here() -> None:
    idle = dict.fromkeys(session_options.IDLE_PROVIDER_OPTIONS, "x")
    assert session_options.choose([(session_options.OPENCL, idle)], None).keywords == {}


def test_asking_for_providers_never_raises(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    def nothing(*args: Any) -> Any:
        raise clcnn.NoDeviceError("no OpenCL device")

    monkeypatch.setattr(clcnn.device, "devices", nothing)
    monkeypatch.setattr(clcnn.device, "get", nothing)
    assert clcnn.get_available_providers() == [] and clcnn.get_device() == "CPU"
    assert [r.getMessage() for r in caplog.records if "no OpenCL device" in r.getMessage()] != []


def test_device_or_providers() -> None:
    refused(
        lambda: InferenceSession(convolution(), providers=[session_options.OPENCL], device=DEVICE),
        clcnn.ArgumentError,
        ValueError,
        "give one",
    )


# ---- what onnxruntime has and clcnn has not ----


def test_methods_that_are_refused_by_name(device: clcnn.Device) -> None:
    options = clcnn.SessionOptions()
    with InferenceSession(convolution(), device=device) as session:
        for owner, names in (
            (session, session_options.SESSION_METHODS),
            (options, session_options.OPTION_METHODS),
        ):
            for name, instead in names.items():
                call = getattr(owner, name)
                refused(
                    lambda call=call: call(1, key=2),
                    clcnn.UnsupportedError,
                    NotImplementedError,
                    name,
                    instead,
                )
        session.disable_fallback()
        for owner in (session, options, clcnn):
            assert not hasattr(owner, "no_such_thing")
    with pytest.raises(AttributeError, match="SparseTensor.*dense"):
        _ = clcnn.SparseTensor


def test_every_public_name_of_onnxruntimes_session_has_an_answer(device: clcnn.Device) -> None:
    """Also those that later versions of onnxruntime add will be missed here, and get theirs."""
    ort = pytest.importorskip("onnxruntime")
    for theirs, ours, refused_names in (
        (ort.InferenceSession, InferenceSession, session_options.SESSION_METHODS),
        (ort.SessionOptions(), clcnn.SessionOptions(), session_options.OPTION_METHODS),
    ):
        missing = {n for n in dir(theirs) if not n.startswith("_")} - set(dir(ours)) - set(refused_names)
        assert not missing


def test_configuration_entries_are_kept() -> None:
    options = clcnn.SessionOptions()
    options.add_session_config_entry("session.dynamic_block_base", "4")
    assert options.get_session_config_entry("session.dynamic_block_base") == "4"
    assert session_options.own(options).get_session_config_entry("session.dynamic_block_base") == "4"
    refused(
        lambda: options.get_session_config_entry("session.x"), clcnn.ArgumentError, ValueError, "'session.x'"
    )


def test_lists_of_numbers_take_the_inputs_type(device: clcnn.Device) -> None:
    x = photo(1, 3, 4, 4)
    with InferenceSession(convolution(), device=device) as session:
        (wanted,) = session.run(["y"], {"x": x})
        np.testing.assert_array_equal(session.run(["y"], {"x": x.tolist()})[0], wanted)
        for bad in ("cat", [["cat"]], [[1.0], [2.0, 3.0]], x.astype(np.float64), None):
            with pytest.raises((clcnn.DtypeError, clcnn.ShapeError)):
                session.run(["y"], {"x": bad})


def test_module_functions() -> None:
    assert clcnn.get_all_providers() == list(session_options.PROVIDERS)
    level = session_options.logger.level
    try:
        for severity, wanted in ((0, 10), (3, 40)):
            clcnn.set_default_logger_severity(severity)
            assert session_options.logger.level == wanted
    finally:
        session_options.logger.setLevel(level)
    clcnn.set_default_logger_verbosity(3)
    refused(lambda: clcnn.set_default_logger_verbosity("x"), clcnn.DtypeError, TypeError, "verbosity")
    clcnn.set_seed(1)
    clcnn.disable_telemetry_events()
    clcnn.preload_dlls(cuda=False)
    assert clcnn.__version__ == clcnn.get_version_string() and "OpenCL" in clcnn.get_build_info()
    refused(lambda: clcnn.set_default_logger_severity(5), clcnn.ArgumentError, ValueError, "severity", "5")
