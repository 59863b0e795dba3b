"""The flow of the paper's demo with engram_fast: one sentence through 30 blocks, two of them with n-gram memory.

    python examples/demo_model.py [--png gates.png] [--small]

Prints the shapes and the gates, and writes a heat map of the gates (tokens x branches). `--small` has tables of 10 MB
instead of 5.3 GB and a narrower model.
"""

from __future__ import annotations

import argparse

from engram_fast import BackBoneConfig, EngramConfig
from engram_fast.nn.demo import TEXT, run_demo


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", nargs="?", default=TEXT)
    parser.add_argument("--png", default="engram_gates.png")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args(arguments)
    engram_config, backbone_config = EngramConfig(), BackBoneConfig()
    if options.small:
        engram_config = EngramConfig(engram_vocab_size=[5003, 5003], n_embed_per_ngram=64)
        backbone_config = BackBoneConfig(hidden_size=64)
    run_demo(options.text, engram_config=engram_config, backbone_config=backbone_config, png=options.png)


if __name__ == "__main__":
    main()
