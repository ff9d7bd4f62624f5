"""IOBinding and OrtValue: inputs and outputs that stay where they are; a program written for onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import clcnn
from clcnn.session import InferenceSession
from helpers import refused

pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

from session_models import convolution, expected, model_bytes, photo  # noqa: E402

SHAPE = (2, 3, 9, 7)


@pytest.fixture(scope="module")
def session(device: clcnn.Device) -> Iterator[InferenceSession]:
    with InferenceSession(convolution(), device=device) as made:
        yield made


def test_arrays_in_and_out(session: InferenceSession) -> None:
    x = photo(*SHAPE)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("maps")
    binding.bind_output("y", "cpu")
    session.run_with_iobinding(binding, clcnn.RunOptions())
    maps, y = binding.copy_outputs_to_cpu()
    np.testing.assert_array_equal(y, session.run(["y"], {"x": x})[0])
    assert maps.shape == (2, 4, 9, 7)
    assert [v.shape() for v in binding.get_outputs()] == [[2, 4, 9, 7], [2, 4]]
    binding.synchronize_inputs()
    binding.synchronize_outputs()
    binding.clear_binding_outputs()
    assert binding.get_outputs() == []


def test_tensors_stay_on_the_device(session: InferenceSession) -> None:
    x = photo(*SHAPE)
    with clcnn.Tensor.from_numpy(x, session.device) as given, clcnn.Tensor(session.device, (2, 4)) as own:
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", given)
        binding.bind_ortvalue_output("y", own)
        binding.bind_output("maps", "opencl")
        session.run_with_iobinding(binding)
        np.testing.assert_allclose(own.numpy(), expected(x), atol=1e-5)
        y, maps = binding.get_outputs()
        assert y.data is own and isinstance(maps.data, clcnn._core.Tensor)
        assert (y.device_name(), maps.data_type(), maps.shape()) == ("opencl", "tensor(float)", [2, 4, 9, 7])
        np.testing.assert_array_equal(session.run(["y"], {"x": given})[0], own.numpy())
        refused(y.data_ptr, clcnn.UnsupportedError, NotImplementedError, "address")


def test_host_memory_at_an_address(session: InferenceSession) -> None:
    x, y = photo(*SHAPE), np.zeros((2, 4), np.float32)
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    binding.run()
    np.testing.assert_allclose(y, expected(x), atol=1e-5)
    assert binding.get_outputs()[0].data_ptr() == y.ctypes.data


def test_outputs_that_are_cut_cast_or_constant(device: clcnn.Device) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
    ]
    outputs = [("s", TensorProto.INT64, [2]), ("h", TensorProto.FLOAT16, [2, 3])]
    data = model_bytes(nodes, [("x", TensorProto.FLOAT, ["n", 3])], outputs)
    x = np.array([[1, 0, 3], [0.1, 0, 1]], np.float32)
    with InferenceSession(data, device=device) as made:
        half, shape = np.zeros((2, 3), np.float16), clcnn.OrtValue.ortvalue_from_numpy(np.zeros(2, np.int64))
        binding = made.io_binding()
        binding.bind_cpu_input("x", x)
        binding.bind_ortvalue_output("h", clcnn.OrtValue(half))
        binding.bind_ortvalue_output("s", shape)
        binding.run()
        assert (half == x.astype(np.float16)).all() and shape.numpy().tolist() == [2, 3]
        binding.bind_output("s", "opencl")
        binding.run()
        assert binding.get_outputs()[1].device_name() == "opencl"
        assert binding.copy_outputs_to_cpu()[1].tolist() == [2, 3]
        binding.bind_ortvalue_output("h", np.zeros((2, 3), np.float32))
        refused(binding.run, clcnn.ArgumentError, ValueError, "output h", "float16")


def test_values(device: clcnn.Device) -> None:
    x = photo(2, 3)
    value = clcnn.OrtValue.ortvalue_from_numpy(x)
    assert value.numpy() is x and value.is_tensor() and value.has_value() and value.device_name() == "cpu"
    value.update_inplace(np.ones((2, 3), np.float32))
    assert (x == 1).all() and (np.asarray(value) == 1).all()
    refused(lambda: value.update_inplace(np.ones(3)), clcnn.ArgumentError, ValueError, "update_inplace")
    made = clcnn.OrtValue.ortvalue_from_shape_and_type([2, 3], np.int64)
    assert (made.shape(), made.data_type()) == ([2, 3], "tensor(int64)")
    on = clcnn.OrtValue.ortvalue_from_numpy(x, "opencl", 0)
    on.update_inplace(2 * x)
    assert (on.numpy() == 2).all() and on.device_name() == "opencl"
    assert clcnn.OrtValue.ortvalue_from_shape_and_type((4,), np.float32, "opencl").shape() == [4]
    assert clcnn.OrtValue.from_dlpack(np.array([0, 1], np.uint8), True).data_type() == "tensor(bool)"
    where = clcnn.OrtDevice.make("cpu", 0)
    assert (where.device_type(), where.device_id()) == ("cpu", 0)
    refused(
        lambda: clcnn.OrtValue.ortvalue_from_numpy(x, "npu"),
        clcnn.ArgumentError,
        ValueError,
        "'npu'",
        "opencl",
    )


def test_what_cannot_be_bound(session: InferenceSession) -> None:
    binding = session.io_binding()
    refused(lambda: binding.bind_cpu_input("z", 1), clcnn.ArgumentError, ValueError, "'z'", "['x']")
    refused(lambda: binding.bind_output("z"), clcnn.ArgumentError, ValueError, "'z'", "'maps'")
    refused(lambda: binding.run(), clcnn.ArgumentError, ValueError, "no output is bound")
    binding.bind_output("y")
    refused(lambda: binding.run(), clcnn.ArgumentError, ValueError, "missing ['x']")
    refused(
        lambda: binding.bind_input("x", "cuda", 0, np.float32, SHAPE, 16),
        clcnn.UnsupportedError, NotImplementedError, "x:", "bind_ortvalue_input",
    )  # fmt: skip
    refused(
        lambda: binding.bind_output("y", "cpu", buffer_ptr=16),
        clcnn.ArgumentError,
        ValueError,
        "element_type",
    )
    with clcnn.Tensor(session.device, (3, 3)) as wrong:
        binding.bind_ortvalue_input("x", wrong)
        refused(lambda: binding.run(), clcnn.ShapeError, ValueError, "'x'", "(3, 3)")


def test_runs_with_values(session: InferenceSession) -> None:
    x = photo(*SHAPE)
    (y,) = session.run_with_ort_values(["y"], {"x": clcnn.OrtValue.ortvalue_from_numpy(x)})
    np.testing.assert_allclose(y.numpy(), expected(x), atol=1e-5)


# ---- a program written for onnxruntime ----


class Detector:
    """As such programs are: a class around a session, with the module it was written for as `ort`."""

    def __init__(self, ort: ModuleType, path: str, use_binding: bool) -> None:
        ort.set_default_logger_severity(3)
        ort.set_default_logger_verbosity(0)
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        available = ort.get_available_providers()
        wanted = ["CUDAExecutionProvider", "CPUExecutionProvider"] if ort.get_device() == "GPU" else None
        providers = [p for p in wanted or ["CPUExecutionProvider"] if p in available]
        self.session = ort.InferenceSession(path, sess_options=options, providers=providers)
        self.input = self.session.get_inputs()[0]
        self.outputs = [output.name for output in self.session.get_outputs()]
        self.use_binding = use_binding
        self.ort = ort

    def prepare(self, image: np.ndarray) -> np.ndarray:
        """uint8 [H, W, 3] of any size to [1, 3, H, W]: not contiguous, as transpose() leaves it."""
        return (image.astype(np.float32) / 255.0).transpose(2, 0, 1)[np.newaxis]

    def __call__(self, image: np.ndarray) -> dict[str, np.ndarray]:
        x = self.prepare(image)
        assert len(self.input.shape) == x.ndim and self.input.type == "tensor(float)"
        if not self.use_binding:
            return dict(zip(self.outputs, self.session.run(self.outputs, {self.input.name: x})))
        binding = self.session.io_binding()
        binding.bind_cpu_input(self.input.name, np.ascontiguousarray(x))
        for name in self.outputs:
            binding.bind_output(name)
        self.session.run_with_iobinding(binding)
        return dict(zip(self.outputs, binding.copy_outputs_to_cpu()))

    def fails(self) -> bool:
        """What it does of a picture that is none."""
        from importlib import import_module

        errors = import_module(f"{self.ort.__name__}.capi.onnxruntime_pybind11_state")
        try:
            self.session.run(None, {self.input.name: np.zeros((1, 5), np.float32)})
        except errors.InvalidArgument:
            return True
        return False


@pytest.mark.parametrize("use_binding", [False, True])
@pytest.mark.parametrize("module", ["clcnn", "onnxruntime"])
def test_a_program_for_onnxruntime(module: str, use_binding: bool, tmp_path: Path) -> None:
    ort = pytest.importorskip(module)
    if "CPUExecutionProvider" not in clcnn.get_available_providers():
        pytest.skip("no OpenCL device that is a processor")
    path = tmp_path / "net.onnx"
    path.write_bytes(convolution())
    level = clcnn.session_options.logger.level
    try:
        detector: Any = Detector(ort, str(path), use_binding)
        for size in ((8, 9, 3), (5, 4, 3)):
            image = (photo(*size) * 40 + 99).clip(0, 255).astype(np.uint8)
            found = detector(image)
            assert list(found) == ["y", "maps"]
            np.testing.assert_allclose(found["y"], expected(detector.prepare(image)), atol=1e-5)
        assert detector.fails()
    finally:
        clcnn.session_options.logger.setLevel(level)
