"""Single operators as ONNX models in sessions, beside onnxruntime: what takes time beside convolutions.

Maps come and go in NumPy arrays, so figures of short operators are those of a run. Results must agree before
anything is timed.
"""

from __future__ import annotations

import sys
from typing import Any

import common
import numpy as np

LIMIT = 1e-4  # rms error over the rms
Case = tuple[str, list[Any], dict[str, Any]]


def cases() -> dict[str, Case]:
    """{label: operator, inputs in order (arrays that are fed, or ("constant", array)), attributes}."""
    rng = np.random.default_rng(0)

    def f(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32)

    def c(values: Any, dtype: Any = np.int64) -> tuple[str, np.ndarray]:
        return "constant", np.array(values, dtype)

    twice, borders = c([1, 1, 2, 2], np.float32), c([0, 0, 3, 3, 0, 0, 3, 3])
    places = (rng.random((1, 64, 64, 2)) * 2 - 1).astype(np.float32)
    return {
        "top 5 of 1000": ("TopK", [f(64, 1000), c([5])], {}),
        "top 100 of 16384": ("TopK", [f(1, 80, 16384), c([100])], {}),
        "top 1000 of 200000": ("TopK", [f(1, 200000), c([1000])], {}),
        "argmax of channels": ("ArgMax", [f(1, 21, 512, 512)], {"axis": 1, "keepdims": 0}),
        "rows of a table": ("Gather", [f(30000, 256), c(rng.integers(0, 30000, (8, 128)))], {}),
        "grid sample": ("GridSample", [f(1, 64, 64, 64), places], {}),
        "pad, mirrored": ("Pad", [f(1, 64, 128, 128), borders], {"mode": "reflect"}),
        "pad, zeros": ("Pad", [f(1, 64, 128, 128), borders], {"mode": "constant"}),
        "resize, nearest": ("Resize", [f(1, 64, 64, 64), None, twice], {"mode": "nearest"}),
        "resize, linear": ("Resize", [f(1, 64, 64, 64), None, twice], {"mode": "linear"}),
        "resize, cubic": ("Resize", [f(1, 3, 256, 256), None, twice], {"mode": "cubic"}),
        "mean of channels": ("ReduceMean", [f(8, 256, 56, 56)], {"axes": [1]}),
        "softmax of channels": ("Softmax", [f(1, 21, 256, 256)], {"axis": 1}),
        "3-D maxima": ("MaxPool", [f(1, 64, 16, 56, 56)], {"kernel_shape": [3] * 3, "strides": [2] * 3}),
        "response norm": ("LRN", [f(8, 192, 27, 27)], {"size": 5}),
        "running sum": ("CumSum", [f(64, 4096), c(1)], {}),
        "transpose": ("Transpose", [f(8, 64, 56, 56)], {"perm": [0, 2, 3, 1]}),
        "depth to space": ("DepthToSpace", [f(1, 256, 64, 64)], {"blocksize": 2}),
    }


def model_of(op: str, inputs: list[Any], attributes: dict[str, Any]) -> tuple[bytes, dict[str, np.ndarray]]:
    """The operator as a model, and what it is fed with."""
    import onnx
    from onnx import helper, numpy_helper

    names, feed, constants = [], {}, []
    for i, value in enumerate(inputs):
        names.append("" if value is None else f"x{i}")
        if isinstance(value, tuple):
            constants.append(numpy_helper.from_array(value[1], f"x{i}"))
        elif value is not None:
            feed[f"x{i}"] = value
    outputs = ["y0", "y1"] if op == "TopK" else ["y0"]
    kinds = {"ArgMax": [onnx.TensorProto.INT64]}.get(op, [onnx.TensorProto.FLOAT, onnx.TensorProto.INT64])
    graph = helper.make_graph(
        [helper.make_node(op, names, outputs, **attributes)],
        op,
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in feed.items()
        ],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(outputs, kinds)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return model.SerializeToString(), feed


def error_of(got: list[np.ndarray], want: list[np.ndarray]) -> float:
    """The rms error of the first result. Raises common.Wrong."""
    return common.checked(got[0], want[0], LIMIT)["rms_error"]


def main() -> int:
    parser = common.arguments(__doc__)
    parser.add_argument("--match", default="", help="only cases whose label contains this")
    parser.add_argument("--device", default="cpu", help="OpenCL device (default cpu)")
    args = parser.parse_args()
    import sessions

    results: list[dict[str, Any]] = []
    for label, case in cases().items():
        if args.match in label:
            data, feed = model_of(*case)
            row = sessions.beside_onnxruntime(label, data, lambda _, feed=feed: feed, error_of, args)
            results.append(row)
            print(
                f"{label:22} clcnn {row['clcnn_ms']:8.3f} ms  onnxruntime {row['peer_ms']:8.3f} ms  "
                f"ratio {row['ratio']:6.2f}",
                flush=True,
            )
    common.finish(results, args.json, device=args.device)
    return 0


if __name__ == "__main__":
    sys.exit(main())
