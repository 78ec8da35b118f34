"""What the tests of the scripts for GPUs share: checks that are counted when they fail, and a Python that finds no PyTorch."""
import sys

# As a sitecustomize: an absent module, since what looks for one is told so before the machine's own is found.
HIDES_TORCH = """import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "torch" else find(name, *more)
"""
failures = 0


def check(what, holds, found=""):
    global failures
    if not holds:
        failures += 1
        print(f"FAIL {what}: {found}")


def end():
    print(f"{failures} failures")
    sys.exit(1 if failures else 0)
