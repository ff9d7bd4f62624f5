"""Builds OpenCL C by itself, without clcnn: what a driver says to a kernel file as it stands."""

from __future__ import annotations

import ctypes
import re
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_ulong, c_void_p
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[2] / "kernels"
BUILD_LOG = 0x1183  # CL_PROGRAM_BUILD_LOG
ALL_DEVICES = 0xFFFFFFFF
INCLUDE = re.compile(r'^#include "([^"]+)"$', re.MULTILINE)


def paste(path: Path) -> str:
    """The file's text with quoted includes, which are paths below kernels/, in their place, as the host
    builds it."""
    return INCLUDE.sub(lambda line: paste(KERNELS / line[1]), path.read_text())


class Compiler:
    """The first device of the first platform that has one. OSError without a loader."""

    def __init__(self) -> None:
        self._cl = ctypes.CDLL("libOpenCL.so.1")
        for name in ("clCreateContext", "clCreateProgramWithSource"):
            getattr(self._cl, name).restype = c_void_p
        platforms, self._device = (c_void_p * 16)(), c_void_p()
        self._cl.clGetPlatformIDs(c_uint(16), platforms, None)
        for platform in filter(None, platforms):
            found = self._cl.clGetDeviceIDs(
                c_void_p(platform), c_ulong(ALL_DEVICES), c_uint(1), byref(self._device), None
            )
            if found == 0:
                break
        self._context = c_void_p(
            self._cl.clCreateContext(None, c_uint(1), byref(self._device), None, None, byref(c_int()))
        )

    def build(self, source: str, options: str = "-cl-std=CL1.2") -> tuple[int, str]:
        """OpenCL's code for the build, and the log."""
        text, code, size = c_char_p(source.encode()), c_int(), c_size_t()
        program = c_void_p(
            self._cl.clCreateProgramWithSource(self._context, c_uint(1), byref(text), None, byref(code))
        )
        try:
            result = self._cl.clBuildProgram(
                program, c_uint(1), byref(self._device), options.encode(), None, None
            )
            log = ctypes.create_string_buffer(1 << 16)
            self._cl.clGetProgramBuildInfo(
                program, self._device, c_uint(BUILD_LOG), c_size_t(len(log)), log, byref(size)
            )
            return result, log.value.decode(errors="replace")
        finally:
            self._cl.clReleaseProgram(program)

    def close(self) -> None:
        self._cl.clReleaseContext(self._context)
