#!/usr/bin/env python3
"""Requests for memory that fail, of every verb: a few of those that benchmarks/run_reliability tries all of. And what readers take.
usage: test_cli_memory.py CLEAVE SOURCE_ROOT LIBRARY (tests/short_memory.c)"""
import sys

import short_memory
from calls import ALL, CLEAVE, ROOT, check, main

SLOW = {"compare", "profile", "validate", "calibrate", "explain", "recommend"}
FEW = {"plan", "check", "run", "run --checkpoint", "export", "diff", "--version"}


def tried(folder):
    """Spread over each call; the slow ones are left to the benchmark, and so are those of several processes."""
    short = short_memory.Short(CLEAVE, ROOT, sys.argv[3], folder)
    for name in short.calls.calls:
        if name not in FEW and (not ALL or name in SLOW or "a process each" in name):
            continue
        count, failed = short.sweep(name, 8)
        check(f"{name}: {failed}", count > 0 and not failed)


main(tried)
