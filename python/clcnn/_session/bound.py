"""Runs of a session on values that stay where they are: onnxruntime's OrtValue and IOBinding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clcnn import session_options
from clcnn._session.facts import Facts
from clcnn._session.plans import Clock, Compiled

if TYPE_CHECKING:
    from clcnn.ort_values import IOBinding, OrtValue


class Bound(Facts):
    """The part of clcnn.InferenceSession that runs on bound values."""

    if TYPE_CHECKING:

        def run(
            self,
            output_names: Sequence[str] | None,
            input_feed: Mapping[str, Any],
            run_options: Any = None,
            *,
            timeout: float | None = None,
        ) -> list[Any]: ...

        def _prepared(
            self, input_feed: Mapping[str, Any], clock: Clock
        ) -> tuple[Compiled, dict[str, Any]]: ...

    def run_with_iobinding(
        self, iobinding: IOBinding, run_options: Any = None, *, timeout: float | None = None
    ) -> None:
        """One inference from what is bound to what is bound.

        Parameters
        ----------
        iobinding : IOBinding
            What io_binding() of this session made.
        run_options : RunOptions, optional
        timeout : float, optional
            As of run().

        Raises
        ------
        ArgumentError
            No output is bound. And what run() raises.

        Examples
        --------
        See io_binding().
        """
        session_options.check_run_options(run_options)
        iobinding.run(timeout)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[OrtValue]:
        """One inference from OrtValues to OrtValues in host memory.

        Parameters
        ----------
        output_names : sequence of str, optional
            As of run().
        input_dict_ort_values : {name: OrtValue}
            Arrays and tensors will do, too.
        run_options : RunOptions, optional

        Returns
        -------
        list of OrtValue

        Raises
        ------
        Error
            As run() does.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> clcnn.onnx.save(clcnn.nn.ReLU(), "net.onnx", (1, 2))
        >>> x = clcnn.OrtValue.ortvalue_from_numpy(np.float32([[-1, 1]]))
        >>> with clcnn.InferenceSession("net.onnx") as session:
        ...     session.run_with_ort_values(None, {"input": x})[0].numpy().tolist()
        [[0.0, 1.0]]
        """
        from clcnn.ort_values import OrtValue

        feed = {name: getattr(x, "data", x) for name, x in input_dict_ort_values.items()}
        return [OrtValue(x) for x in self.run(output_names, feed, run_options)]

    def io_binding(self) -> IOBinding:
        """Binds inputs and outputs to arrays, and to tensors that stay on the device.

        Returns
        -------
        IOBinding
            For run_with_iobinding().

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> clcnn.onnx.save(clcnn.nn.ReLU(), "net.onnx", (1, 2))
        >>> with clcnn.InferenceSession("net.onnx") as session:
        ...     binding = session.io_binding()
        ...     binding.bind_cpu_input("input", np.float32([[-1, 1]]))
        ...     binding.bind_output("output", "opencl")
        ...     session.run_with_iobinding(binding)
        ...     binding.copy_outputs_to_cpu()[0].tolist()
        [[0.0, 1.0]]
        """
        from clcnn.ort_values import IOBinding

        return IOBinding(self)  # type: ignore[arg-type] # a session

    def prepared(
        self, input_feed: Mapping[str, Any], timeout: float | None
    ) -> tuple[Compiled, dict[str, Any], float | None]:
        """For clcnn.ort_values: what runs these inputs, what its plan takes, the seconds left."""
        clock = Clock(timeout)
        return *self._prepared(input_feed, clock), clock.left
