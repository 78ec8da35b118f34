#!/usr/bin/env python3
"""What scripts rely on: the short of why nothing fits. usage: test_cli_contract.py CLEAVE SOURCE_ROOT"""
import json

from calls import check, main, run


def nothing_fits(_folder):
    tight = ["gpt2", "--cluster", "1x2:cpu", "--batch", 512, "--seq", 1024, "--fix", "zero=0,recompute=none,micro-batch=16"]
    result = run("plan", *tight, "--json")
    report = json.loads(result.stdout)
    short = report["infeasible"]
    check("short of memory", result.returncode == 3 and list(short) == ["constraint", "needed_bytes", "available_bytes", "nearest"] and
          short["constraint"] == "memory" and short["nearest"] and all(short[key] == report[key] for key in list(short)[1:]), result)
    short = json.loads(run("plan", "gpt2", "--cluster", "1x8:a100-sxm-80", "--batch", 63, "--fix", "dp=8", "--json").stdout)["infeasible"]
    check("short of what does not divide", list(short.values()) == ["degrees", None, None, None])
    fields = list(json.loads(run("schema", "infeasible.short", "--json").stdout)["schemas"][0]["properties"])
    check("short as described", list(short) == fields)


main(nothing_fits)
