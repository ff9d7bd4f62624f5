"""Builds the extension module clcnn._core; everything that needs no code is in pyproject.toml.

The module keeps to the limited API of Python 3.11, so that one build serves every later version.
Free-threaded interpreters have none before 3.15 and get a build of their own.

Environment: CLCNN_SANITIZE=1 (AddressSanitizer and UBSan), CLCNN_DEBUG=1 (-O0, assertions on),
CLCNN_COVERAGE=1 (gcov counters), CC and CFLAGS as usual. Objects stay in build/, one folder per interpreter
and set of flags, and are reused while they are newer than their source, every header and this file.
"""

import os
import re
import shlex
import subprocess
import sysconfig
from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

VARIANTS = {
    "SANITIZE": "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all",
    "DEBUG": "-O0 -g -UNDEBUG",
    "COVERAGE": "-O0 -g --coverage",
}
CHOSEN = [name for name in VARIANTS if os.environ.get(f"CLCNN_{name}") == "1"]
LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")
FLAGS = [flag for name in CHOSEN for flag in VARIANTS[name].split()]
# Looked for before anything is compiled: header, what it belongs to, and its package for apt, dnf and brew.
NEEDED = [
    ("stdlib.h", "a C compiler with the C library's headers", "gcc libc6-dev", "gcc glibc-devel", "gcc"),
    ("Python.h", "Python's headers", "python3-dev", "python3-devel", "python"),
    ("CL/cl.h", "the OpenCL headers", "opencl-c-headers", "opencl-headers", "opencl-headers"),
]
INSTALL = "`apt install {}` (Debian, Ubuntu), `dnf install {}` (Fedora) or `brew install {}` (macOS) first."
# C string contents of each byte; a question mark could start one of C11's trigraphs.
BYTES = [chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in range(256)]


def files(folder: str, *patterns: str) -> list[str]:
    return sorted((str(p) for pattern in patterns for p in Path(folder).rglob(pattern)), key=os.path.basename)


def literal(line: str) -> str:
    return '"' + "".join(BYTES[b] for b in line.encode()) + '"'


def embed(target: Path) -> str:
    """Writes the table that csrc/base/embedded.h declares, a string a line, and returns its path."""
    code = '#include "base/embedded.h"\n\nconst struct clcnn_embedded clcnn_embedded_files[] = {\n'
    for path in (kernels := sorted(map(Path, files("kernels", "*.cl", "*.clh", "*.h")))):
        text = path.read_text("utf-8")
        body = "\n     ".join(map(literal, text.splitlines(keepends=True))) or '""'
        name = literal(path.relative_to("kernels").as_posix())
        code += f"    {{{name},\n     {body},\n     {len(text.encode())}}},\n"
    code += f"}};\nconst size_t clcnn_embedded_count = {len(kernels)};\n"
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists() or target.read_text("utf-8") != code:
        target.write_text(code, "utf-8")
    return str(target)


class Build(build_ext):
    def build_extensions(self) -> None:
        compiler = shlex.split(os.environ.get("CC", "")) or self.compiler.compiler[:1]
        search = [f"-I{sysconfig.get_paths()['include']}", *shlex.split(os.environ.get("CFLAGS", ""))]
        for header, what, *packages in NEEDED:
            try:
                probe = [*compiler, *search, "-E", "-x", "c", "-"]
                subprocess.run(probe, input=f"#include <{header}>".encode(), capture_output=True, check=True)
            except (OSError, subprocess.CalledProcessError):
                raise SystemExit(f"clcnn needs {what} ({header}): run " + INSTALL.format(*packages)) from None
        self.force = True  # link always: distutils does not see that the flags differ
        self.build_temp = "-".join(["build/temp", sysconfig.get_config_var("SOABI"), *CHOSEN]).lower()
        self.extensions[0].sources.append(embed(Path(self.build_temp, "embedded.c")))
        serial, headers = self.compiler.compile, max(map(os.path.getmtime, self.extensions[0].depends))

        def compile_one(source: str, options: dict) -> list[str]:
            made = self.compiler.object_filenames([source], output_dir=options["output_dir"])
            fresh = os.path.exists(*made) and os.path.getmtime(*made) > max(os.path.getmtime(source), headers)
            return made if fresh else serial([source], **options)

        with ThreadPool() as pool:
            self.compiler.compile = lambda sources, **options: sum(
                pool.map(lambda source: compile_one(source, options), sources, chunksize=1), [])  # fmt: skip
            super().build_extensions()

    def copy_extensions_to_source(self) -> None:
        """For builds in place: a module named after one version would be imported before the one for all."""
        for old in Path("python/clcnn").glob("_core.cpython-*.so") if LIMITED else ():
            if not re.match(r"_core\.cpython-\d+t-", old.name):
                old.unlink()
        super().copy_extensions_to_source()


TAG = {"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED else {}
setup(cmdclass={"build_ext": Build}, options=TAG, ext_modules=[Extension(
    "clcnn._core", files("csrc", "*.c"), include_dirs=["csrc", "kernels", numpy.get_include()],
    depends=["setup.py", *files("csrc", "*.h", "*.def"), *files("kernels", "*.h")],
    define_macros=[("_GNU_SOURCE", "1"), *[("Py_LIMITED_API", "0x030B0000")] * LIMITED],
    py_limited_api=LIMITED, libraries=["dl", "pthread", "m"],
    extra_compile_args=["-std=c11", "-O2", "-Wall", "-Wextra", "-Wshadow", "-fvisibility=hidden", *FLAGS],
    extra_link_args=FLAGS)])  # fmt: skip
