"""ONNX Runtime's `NGramHashMapping` on the CPU: a node per layer, int64, ids compressed before, outputs bound once."""

from __future__ import annotations

from typing import Any

import numpy as np

from benches.cases import Case, lookup
from benches.peers.base import Peer

NAME, NEEDS, THREADS = "ONNX Runtime", ("onnxruntime", "onnx"), (1, 2)


def case(base: Case) -> Case | None:
    return base


class OnnxRuntime(Peer):
    adds_offsets = True

    def prepare(self) -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        # Its threads spin after a run by default, which would slow down whoever is timed next.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        options.log_severity_level = 3
        self.session = ort.InferenceSession(self.model(), options, providers=["CPUExecutionProvider"])
        self.binding = self.session.io_binding()
        self.compressed = lookup().astype(np.int64)[self.ids]
        self.binding.bind_cpu_input("input_ids", self.compressed)
        columns = self.case.layout.columns
        self.out = np.zeros((len(self.case.layout.layer_ids), *self.ids.shape, columns), dtype=np.int64)
        for layer, rows in enumerate(self.out):
            self.binding.bind_output(f"rows_{layer}", "cpu", 0, np.int64, rows.shape, rows.ctypes.data)

    def model(self) -> bytes:
        from onnx import TensorProto, helper, numpy_helper

        numbers = self.case.numbers
        nodes, constants, outputs = [], [], []
        for i, layer in enumerate(numbers["layers"]):
            for name, key in (("multipliers", "multipliers"), ("vocab_sizes", "moduli"), ("head_offsets", "offsets")):
                values = np.array(layer[key], dtype=np.int64)
                constants.append(numpy_helper.from_array(values, f"{name}_{i}"))
            inputs = ["input_ids", f"multipliers_{i}", f"vocab_sizes_{i}", "", f"head_offsets_{i}"]
            nodes.append(
                helper.make_node(
                    "NGramHashMapping",
                    inputs,
                    [f"rows_{i}"],
                    domain="com.microsoft",
                    pad_id=numbers["fill"],
                    n_head_per_ngram=numbers["heads"],
                    max_ngram_size=numbers["max_order"],
                )
            )
            outputs.append(helper.make_tensor_value_info(f"rows_{i}", TensorProto.INT64, ["B", "T", "C"]))
        ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["B", "T"])
        graph = helper.make_graph(nodes, "hash", [ids], outputs, constants)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()

    def run(self) -> Any:
        self.session.run_with_iobinding(self.binding)
        return self.out

    def arrange(self, answer: np.ndarray) -> np.ndarray:
        return answer.copy()


make = OnnxRuntime
