"""The tests that a GPU has to pass, as meson lists them; of a pack (benchmarks/gpu/pack), as they were listed when it was made."""
import json
import os
import sys

KEPT = "gpu-tests.json"  # in the build folder of a pack; what it has of BUILD, ROOT and PYTHON is where the pack and its Python are


def is_for(backend, test):
    """Of suite gpu, and what needs a GPU in part; without one those of emulated devices."""
    if backend == "cuda":
        return any(s.split(":")[-1] == "gpu" for s in test["suite"]) or test["name"] == "cuda_nccl"
    return any(s.split(":")[-1] == "slow" for s in test["suite"]) and "gpu" in test["name"] and test["name"] not in ("gpu_script", "gpu_pack")


def listed(build, root, introspect):
    """name, suite, cmd and env of all tests. introspect(): the text of `meson introspect --tests`."""
    path = os.path.join(build, KEPT)
    if not os.path.exists(path):
        return json.loads(introspect())
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for name, value in (("@BUILD@", build), ("@ROOT@", root), ("@PYTHON@", sys.executable)):
        text = text.replace(name, json.dumps(value)[1:-1])
    return json.loads(text)
