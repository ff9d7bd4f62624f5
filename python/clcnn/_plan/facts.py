"""What a plan tells of itself: shapes, memory, steps, and why each layer is computed as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clcnn.report import LayerRow, explain_text, html_table, summary_cells, summary_text

if TYPE_CHECKING:
    from clcnn._core import Device
    from clcnn._core import Plan as CorePlan


class Facts:
    """The part of clcnn.Plan that only looks."""

    __slots__ = ()

    if TYPE_CHECKING:
        _core: CorePlan
        rows: list[LayerRow]

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._core.closed

    @property
    def device(self) -> Device:
        """The device that the plan was compiled for."""
        return self._core.device

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs by name, in the order in which calling the plan takes them."""
        return dict(self._core.inputs)

    @property
    def outputs(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the outputs by name: the model's own first, then those of compile(outputs=...)."""
        return dict(self._core.outputs)

    @property
    def input_dtypes(self) -> dict[str, str]:
        """Types of the inputs by name: "float32", "int64", "int32" or "bool"."""
        return dict(self._core.input_dtypes)

    @property
    def output_dtypes(self) -> dict[str, str]:
        """Types of the outputs by name, in the order of `outputs`: as of `input_dtypes`."""
        return dict(self._core.output_dtypes)

    @property
    def stats(self) -> dict[str, Any]:
        """Memory and compile time.

        Returns
        -------
        dict
            arena_bytes, workspace_bytes
                Device memory of activations and of the scratch of layers, and what of it is scratch.
            weights_bytes, peak_bytes
                That of weights, and all of it together.
            live_bytes
                The largest set of activations alive at once.
            step_count, chained_steps
                Steps of a run, and those that run inside one kernel with others.
            launch_count
                Kernels and library calls of a run.
            called
                1: runs without a deadline call the kernels' code instead.
            program_count
                OpenCL programs.
            shared_ends
                Inputs and outputs that steps use where the caller has them.
            select_ms, build_ms, weights_ms, warm_ms
                Milliseconds that compile() chose, built, packed weights and ran first for.

        Examples
        --------
        >>> import clcnn
        >>> with clcnn.compile(clcnn.nn.ReLU(), (2, 3)) as plan:
        ...     plan.stats["step_count"]
        1
        """
        return dict(self._core.stats())

    @property
    def peak_bytes(self) -> int:
        """Device memory of activations, workspace and weights."""
        return self._core.stats()["peak_bytes"]

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The kernel launches of a run in order.

        Returns
        -------
        list of dict
            layer, op, algo : str
                The layer, its operator and the algorithm.
            kernel, entry, defines : str
                The kernel's file, the function in it, and what it is built with.
            groups, group_size : int
                Work-groups, and work-items in each.
            macs, bytes : float
                Multiply-adds, and bytes that must be read and written.

        Examples
        --------
        >>> import clcnn
        >>> with clcnn.compile(clcnn.nn.ReLU(), (2, 3)) as plan:
        ...     [(step["layer"], step["op"]) for step in plan.steps]
        [('relu_1', 'relu')]
        """
        return [dict(step) for step in self._core.steps()]

    @property
    def layers(self) -> list[dict[str, Any]]:
        """The layers after rewriting, each with the algorithm chosen and all its candidates.

        Returns
        -------
        list of dict
            layer, op, algo, fused, key : str
                Its name, operator and algorithm, what it computes besides, and what its time depends on
                (clcnn.wisdom).
            input, output : tuple of int
                Shapes.
            macs, workspace_bytes, weight_bytes : number
            candidates : list of dict
                algo, verdict, reason, workspace_bytes and effort: the time expected, beside that of the
                layer's others; 0 where it is not known.
            error_class, error_bound, error_rounding, part, zeros
                As explain() tells them.

        Examples
        --------
        >>> import clcnn
        >>> with clcnn.compile(clcnn.nn.Conv2d(3, 8, 3), (1, 3, 9, 9)) as plan:
        ...     plan.layers[0]["layer"], plan.layers[0]["output"]
        ('conv_1', (1, 8, 7, 7))
        """
        return [dict(layer) for layer in self._core.layers()]

    @property
    def rewrites(self) -> list[str]:
        """What was folded, fused and removed, one line each."""
        return self._core.rewrites()

    def explain(self, verbose: bool = False) -> str:
        """Why each layer is computed as it is.

        Parameters
        ----------
        verbose : bool
            Tell of every candidate algorithm; else of the one chosen, the one that would be taken next, and
            those expected to take at most twice the least time. Default False.

        Returns
        -------
        str
            For every layer its candidates with verdict, reason, workspace, and the time that the rules expect
            over the least of the candidates'; then the rewrites.

        Examples
        --------
        >>> import clcnn
        >>> with clcnn.compile(clcnn.nn.ReLU(), (2, 3, 4)) as plan:
        ...     print(plan.explain().splitlines()[0])
        relu_1: relu 2x3x4 -> 2x3x4, error class strict, componentwise
        """
        return explain_text(self._core.layers(), self._core.rewrites(), verbose)

    def summary(self) -> str:
        """A table of the model's layers: shape, parameters, multiply-adds, algorithm and workspace.

        Returns
        -------
        str
            A line a layer as it was written, and one of totals. What was merged into another layer has no
            algorithm.

        Examples
        --------
        >>> import clcnn
        >>> with clcnn.compile(clcnn.zoo.lenet5(), (1, 1, 28, 28)) as plan:
        ...     print(plan.summary().splitlines()[-1])
        12 layers, 61,706 parameters, 416,520 multiply-adds
        """
        return summary_text(self.rows, self._core.layers())

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self._core.stats()['step_count']} steps"
        return f"<clcnn.Plan on {self.device.name}: {self.inputs} -> {self.outputs}, {state}>"

    def _repr_html_(self) -> str:
        return html_table(*summary_cells(self.rows, self._core.layers()))
