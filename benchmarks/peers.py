"""The libraries that clcnn is measured against, all behind one interface.

    for name in peers.installed(["openvino", "onnxruntime"], peers.CPU):
        session = peers.CPU[name].load(model, batch_input)
        y = session.run(x)          # host array in, host array out
        session.resident()          # the same with data where the library wants it, finished when it returns

Each holds the weights of one clcnn graph. A library that is not installed is skipped by name.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import common
import numpy as np
import torch
from sessions import Session, onnxruntime_session

import clcnn
from torch_net import TorchNet, onnx_bytes


class Model:
    """A graph and its forms for others, made when first wanted."""

    def __init__(self, graph: clcnn.Graph) -> None:
        self.graph = graph

    @property
    def torch(self) -> TorchNet:
        """A new module each time: peers move it to devices and layouts."""
        return TorchNet(self.graph).eval()

    @cached_property
    def onnx(self) -> bytes:
        """The graph in ONNX, traced on its own input shapes."""
        with torch.inference_mode():
            return onnx_bytes(self.torch, *(torch.zeros(v.shape) for v in self.graph.inputs.values()))


@dataclass(frozen=True)
class Peer:
    """A library (its module's name) and how it loads a model for an input: load(model, x) -> Session."""

    module: str
    load: Callable[[Model, np.ndarray], Session]


def installed(wanted: Sequence[str], table: dict[str, Peer]) -> list[str]:
    """Those of `wanted` whose library is there; prints the others. Raises SystemExit for one not known."""
    unknown = [name for name in wanted if name not in table]
    if unknown:
        raise SystemExit(f"unknown peers {', '.join(unknown)}; known are {', '.join(table)}")
    found = [name for name in wanted if importlib.util.find_spec(table[name].module)]
    for name in wanted:
        if name not in found:
            print(f"{name}: skipped, {table[name].module} is not installed (pip install clcnn[bench])")
    return found


# ---- CPU: host memory is where the data is ----


def _on_host(run: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> Session:
    return Session(run, lambda: run(x))


def _openvino(model: Model, x: np.ndarray) -> Session:
    import openvino

    core = openvino.Core()
    options = {
        "INFERENCE_PRECISION_HINT": "f32",  # else bfloat16 where the processor has it
        "INFERENCE_NUM_THREADS": common.cores(),
        "PERFORMANCE_HINT": "LATENCY",
    }
    request = core.compile_model(core.read_model(model=model.onnx), "CPU", options).create_infer_request()

    def run(x: np.ndarray) -> np.ndarray:
        request.infer([x], share_inputs=True)
        return request.get_output_tensor(0).data.copy()

    return _on_host(run, x)


def _onnxruntime(model: Model, x: np.ndarray) -> Session:
    session = onnxruntime_session(model.onnx)
    return _on_host(lambda x: session.run(None, {"x0": x})[0], x)


def _torch(model: Model, x: np.ndarray) -> Session:
    torch.set_num_threads(common.cores())
    net = model.torch

    def run(x: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return net(torch.from_numpy(x)).numpy()

    return _on_host(run, x)


CPU = {
    "openvino": Peer("openvino", _openvino),
    "onnxruntime": Peer("onnxruntime", _onnxruntime),
    "torch": Peer("torch", _torch),
}


# ---- GPU: PyTorch and cuDNN on CUDA ----


def set_precision(precision: str) -> None:
    """PyTorch's counterpart of clcnn's word: "high" lets cuDNN and cuBLAS use tf32, others float32."""
    tf32 = precision == "high"
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = tf32
    torch.set_float32_matmul_precision("high" if tf32 else "highest")


def cuda_bytes() -> int:
    """What PyTorch holds on the GPU; 0 without CUDA."""
    return torch.cuda.memory_allocated() if torch.cuda.is_available() else 0


def cuda_peak(run: Callable[[], Any]) -> int:
    """Most bytes that PyTorch holds on the GPU during a run; 0 without CUDA. Not for the first run, in which
    cuDNN tries algorithms and gives their memory back."""
    if not torch.cuda.is_available():
        return 0
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def _on_cuda(forward: Callable[[torch.Tensor], torch.Tensor], x: np.ndarray, **layout: Any) -> Session:
    """A session of a function of CUDA tensors; `resident` runs it on x, kept on the GPU."""
    there = torch.from_numpy(x).cuda().to(**layout) if layout else torch.from_numpy(x).cuda()

    def run(x: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            given = torch.from_numpy(x).cuda()
            return forward(given.to(**layout) if layout else given).cpu().numpy()

    def resident() -> None:
        with torch.inference_mode():
            forward(there)
        torch.cuda.synchronize()

    return Session(run, resident)


def _torch_eager(model: Model, x: np.ndarray) -> Session:
    return _on_cuda(model.torch.cuda(), x)


def _torch_cudagraph(model: Model, x: np.ndarray, **layout: Any) -> Session:
    net, fixed = model.torch.cuda(), torch.from_numpy(x).cuda()
    if layout:
        net, fixed = net.to(**layout), fixed.to(**layout)
    with torch.inference_mode():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # cuDNN measures its algorithms before anything is captured
            for _ in range(3):
                net(fixed)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = net(fixed)

    def run(x: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            fixed.copy_(torch.from_numpy(x))
            graph.replay()
            return result.cpu().numpy()

    def resident(keep: torch.nn.Module = net) -> None:  # the graph only has the addresses of its parameters
        graph.replay()
        torch.cuda.synchronize()

    return Session(run, resident)


def _torch_compile(model: Model, x: np.ndarray) -> Session:
    torch._dynamo.reset()
    layout = {"memory_format": torch.channels_last}
    return _on_cuda(torch.compile(model.torch.cuda().to(**layout), mode="reduce-overhead"), x, **layout)


# ---- GPU: others on OpenCL, which read their settings when they are imported ----


def _tinygrad(model: Model, x: np.ndarray) -> Session:
    os.environ.setdefault("DEV", "CL")
    from tinygrad import Device, Tensor, TinyJit
    from tinygrad.nn.onnx import OnnxRunner

    net = OnnxRunner(Tensor(model.onnx))
    forward = TinyJit(lambda given: net({"x0": given})["y0"].realize())
    there = Tensor(x).realize()

    def resident() -> None:
        forward(there)
        Device[Device.DEFAULT].synchronize()

    return Session(lambda x: forward(Tensor(x).realize()).numpy(), resident)


def _opencv(model: Model, x: np.ndarray) -> Session:
    os.environ["OPENCV_DNN_OPENCL_ALLOW_ALL_DEVICES"] = "1"  # else OpenCL is for Intel's GPUs alone
    os.environ["OPENCV_FORCE_DNN_ENGINE"] = "1"  # OpenCV 5's new engine has no OpenCL
    import cv2

    net = cv2.dnn.readNetFromONNX(np.frombuffer(model.onnx, np.uint8))
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    net.setPreferableTarget(cv2.dnn.DNN_TARGET_OPENCL)
    there = cv2.UMat(x)

    def forward(given: Any) -> np.ndarray:
        net.setInput(given)
        return net.forward()

    return Session(forward, lambda: forward(there))


GPU = {
    "torch-eager": Peer("torch", _torch_eager),
    "torch-cudagraph": Peer("torch", _torch_cudagraph),
    "torch-compile": Peer("torch", _torch_compile),
    "tinygrad": Peer("tinygrad", _tinygrad),
    "opencv": Peer("cv2", _opencv),
}
