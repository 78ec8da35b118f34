#!/usr/bin/env python3
"""The choices that users fix: every key of --fix in help, plan, estimate and check. usage: test_cli_choices.py CLEAVE SOURCE_ROOT"""
import json
import re

from calls import check, expect, main, run

SMALL = ["tiny-gpt", "--batch", 8, "--seq", 32, "--dtype", "fp32"]


def keys():
    """As the message for an unknown one lists them."""
    return re.search(r"known: (.*)\n", run("plan", *SMALL, "--cluster", "1x2:cpu", "--fix", "qqqqqqqq=1").stderr).group(1)


def help_names_every_key(folder):
    for verb in ("plan", "compare", "explain"):
        expect(f"{verb} --help", 0, re.escape(keys()), verb, "--help")
    expect("man page", 0, re.escape(keys()).replace(r"\-", r"\\-"), "--man-page")


def buckets(folder):
    """Smaller ones are in the plan, its price and its certificate."""
    plan, steps = folder / "bucket.json", []
    for bucket, size in (("0", 0), ("64KiB", 65536), ("25MiB", 25 << 20), ("1GiB", 1 << 30)):
        fixed = f"dp=16,zero=0,bucket={bucket}"
        expect(f"bucket {bucket}", 0, "step", "plan", "gpt2", "--cluster", "2x8:a100-sxm-80", "--batch", 64, "--fix", fixed, "-o", plan)
        made = json.loads(plan.read_text())
        check(f"bucket {bucket}: in the plan", made["decisions"]["bucket_bytes"] == size and made["certificate"]["space"]["bucket"] == [size])
        expect(f"bucket {bucket}: the certificate holds", 0, "the certificate holds", "check", plan)
        steps.append(made["predicted"]["step_s"])
    check("buckets: transfers one by one and one late one take longer", steps[0] > steps[2] < steps[3])


main(help_names_every_key, buckets)
