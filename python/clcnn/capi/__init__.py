"""Where programs written for onnxruntime import its exceptions from."""

from clcnn.capi import onnxruntime_pybind11_state

__all__ = ["onnxruntime_pybind11_state"]
