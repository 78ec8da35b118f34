#!/usr/bin/env python3
"""What scripts and readers of reports rely on: the short of why nothing fits, versions and raw data. usage: test_cli_contract.py CLEAVE SOURCE_ROOT"""
import base64
import hashlib
import html
import html.parser
import json
import re

from calls import ROOT, SHARE, check, expect, main, run, seen_elsewhere

SMALL = ["--cluster", "1x2:cpu", "--batch", 8, "--seq", 16, "--dtype", "fp32"]


def nothing_fits(_folder):
    tight = ["gpt2", "--cluster", "1x2:cpu", "--batch", 512, "--seq", 1024, "--fix", "zero=0,recompute=none,micro-batch=16,offload=none,loss-chunks=1,cp=1"]
    result = run("plan", *tight, "--json")
    report = json.loads(result.stdout)
    short = report["infeasible"]
    check("short of memory", result.returncode == 3 and list(short) == ["constraint", "needed_bytes", "available_bytes", "nearest"] and
          short["constraint"] == "memory" and short["nearest"] and all(short[key] == report[key] for key in list(short)[1:]), result)
    short = json.loads(run("plan", "gpt2", "--cluster", "1x8:a100-sxm-80", "--batch", 63, "--fix", "dp=8", "--json").stdout)["infeasible"]
    check("short of what does not divide", list(short.values()) == ["degrees", None, None, None])
    fields = list(json.loads(run("schema", "infeasible.short", "--json").stdout)["schemas"][0]["properties"])
    check("short as described", list(short) == fields)


@seen_elsewhere
def last_resort(folder):
    """Only a plan of what takes least memory fits after layout: its certificate is one of the whole space all the same."""
    plan = folder / "last.json"
    expect("plan", 0, "of 163 layers recomputed", "plan", "llama-2-70b", "--cluster", "2x8:a100-sxm-80", "--batch", 64, "--fix", "tp=4,offload=none", "-o", plan)
    expect("checks", 0, "the certificate holds", "check", plan)


def embedded(page):
    """The raw data of an HTML report."""
    return json.loads(re.search(r'<script type="application/json" id="cleave-comparison">(.*?)</script>', page, re.S).group(1))


class Page(html.parser.HTMLParser):
    """A report: whether its elements are closed in order, which figures have no words, what it would fetch."""
    VOID = {"meta", "br"}

    def __init__(self, text):
        super().__init__()
        self.stack, self.wrong, self.wordless, self.fetched, self.ids, self.links = [], [], 0, [], set(), set()
        self.feed(text)
        self.wrong += self.stack

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        self.wordless += a.get("role") == "img" and not a.get("aria-label")
        self.fetched += [value for name, value in attributes if name in ("src", "href", "data", "srcset") and not value.startswith("#")]
        self.ids |= {a["id"]} if "id" in a else set()
        self.links |= {a["href"][1:]} if "href" in a else set()
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop() != tag:
            self.wrong.append(tag)


def check_page(text):
    """What holds of every report: it is whole, speaks to those who do not see it, and fetches and runs nothing but its own."""
    seen = Page(text)
    check("elements are closed", not seen.wrong, seen.wrong)
    check("figures have words", seen.wordless == 0 and text.count('role="img"') >= 4, seen.wordless)
    check("it is small", len(text) < 1_000_000, len(text))
    check("nothing is fetched", not seen.fetched and not re.search(r"@import|url\(", text), seen.fetched)
    check("links lead somewhere", seen.links <= seen.ids, seen.links - seen.ids)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    named = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    check("its script is named by its hash", len(scripts) == 1 and f"script-src 'sha256-{named[0]}'" in text, named)
    check("both colour schemes, paper, keys", all(words in text for words in ("prefers-color-scheme:dark", "@media print", "focus-visible", "ArrowDown")))


@seen_elsewhere
def raw_data(folder):
    plan, page, table, profile = folder / "<b>&.json", folder / "report.html", folder / "report.md", folder / "profile.json"
    profile.write_text(json.dumps({"format": "cleave-profile", "version": 1, "dtype": "fp32", "software": "<i>library</i> 1.2"}))
    run("plan", "tiny-gpt", *SMALL, "--profile", profile, "-o", plan)
    result = run("compare", plan, "--profile", profile, "--run", "--steps", 4, "--rounds", 2, "--report", page, "--markdown", table, "--json")
    text, data = page.read_text(), json.loads(result.stdout)
    check_page(text)
    check("one object in both", result.returncode == 0 and embedded(text) == data, result)
    entry = data["plans"][0]
    check("the plan file", entry["plan_file"] == json.loads(plan.read_text()))
    check("every step of every round", [len(r["step_s"]) for r in entry["rounds"]] == [3, 3] and
          all(r["counts"] and min([*r["step_s"], r["first_step_s"], r["reference_before_s"], r["reference_after_s"]]) > 0 for r in entry["rounds"]), result)
    steps = sorted(step for r in entry["rounds"] for step in r["step_s"])
    check("the median is theirs", abs(entry["measured_step_s"] - (steps[2] + steps[3]) / 2) < 2e-9, result)
    shown = json.loads(run("doctor", "--json").stdout)["matmuls"]
    names = list(data["provenance"])
    check("versions", data["provenance"]["matmuls"].startswith(shown["library"]) and re.match(r"(gcc|clang) \d", data["provenance"]["compiler"]) and
          data["provenance"]["software of the profile"] == "<i>library</i> 1.2" and data["provenance"]["transport"] == "threads" and
          names == sorted(names, key=lambda name: text.index(f"<td>{html.escape(name)}</td><td>")), result)
    check("nothing of it is markup", not re.search("<b>&|<i>", text) and "&lt;i&gt;library" in text and "<i>" not in table.read_text().replace("\\<", ""))
    check("bars are of one step", "one step&#39;s timeline: " in text)


def same_report(folder):
    """Of equal inputs, unless something was measured. A search on other devices and with less memory joins it."""
    plan, pages = folder / "again.json", [folder / "first.html", folder / "second.html"]
    run("plan", "tiny-gpt", *SMALL, "-o", plan)
    for place in pages:
        result = run("compare", plan, "--report", place, "--scaling", "--pareto")
        check("searches join the table", result.returncode == 0 and "step against memory, searched:" in result.stdout and "step against devices, searched:" in result.stdout, result)
    first, second = (place.read_text().replace("first.html", "X").replace("second.html", "X") for place in pages)
    other = folder / "other.json"
    run("plan", "tiny-gpt", *["16" if word == 8 else word for word in SMALL], "-o", other)
    result = run("compare", plan, other, "--report", folder / "two.html")
    check("other work is said", "not steps of the same work" in result.stderr and "not steps of the same work" in (folder / "two.html").read_text(), result)
    run("plan", "tiny-gpt", *["1x4:cpu" if str(word).startswith("1x") else word for word in SMALL], "-o", other)
    result = run("compare", plan, other)
    check("other devices are said", "not steps of the same devices: " in result.stderr and "not steps of the same work" not in result.stderr, result)
    run("plan", "tiny-gpt", *SMALL, "--framework", "megatron-lm", "-o", other)
    result = run("compare", plan, other)
    check("other frameworks are said", re.search("not steps of the same framework: .*again.json is priced as by cleave, .*other.json as by megatron-lm$", result.stderr, re.M), result)
    run("plan", "tiny-gpt", *SMALL, "--framework", "deepspeed", "-o", folder / "third.json")
    result = run("compare", plan, other, other, folder / "third.json")
    check("each other framework is said once", re.search("by cleave, .*other.json as by megatron-lm, .*third.json as by deepspeed$", result.stderr, re.M), result)
    result = run("compare", plan, plan)
    check("the same devices are not said", "the same " not in result.stderr, result)
    (folder / "train.sh").write_text("#!/bin/sh\n")
    expect("a launch is no plan file", 2, "given as --from TARGET=.*train.sh", "compare", folder / "train.sh")
    check("equal bytes", first == second and 'id="scaling"' in first)
    check_page(first)


@seen_elsewhere
def taken_out(folder):
    """Plan files of a report of which there were none before are whole: they check."""
    result = run("compare", "--auto", "tiny-gpt", *SMALL, "--json")
    data = json.loads(result.stdout)
    check("nothing was run", all(entry["rounds"] == [] for entry in data["plans"]) and data["provenance"]["matmuls"] == "none: not run", result)
    for i, entry in enumerate(data["plans"]):
        path = folder / f"taken-{i}.json"
        path.write_text(json.dumps(entry["plan_file"]))
        expect(f"{entry['name']}, taken out", 0, "the certificate holds", "check", path)


# Objects whose keys are names that somebody gave: groups of rows, what was used, dtypes, a model's own fields.
NAMED = {"summary", "provenance", "matmul_flops_per_s", "description"}


def keys_of(value, inside=""):
    """All keys that stand in the value, with where."""
    for key, below in value.items() if isinstance(value, dict) else ():
        yield key, inside
        yield from keys_of(below, f"{inside}.{key}") if key not in NAMED else ((k, key) for group in (below if key == "summary" else {}).values()
                                                                             if isinstance(group, dict) for k in group)
    for item in value if isinstance(value, list) else ():
        yield from keys_of(item, inside + "[]")


@seen_elsewhere
def described(folder):
    """Every key that a verb prints with --json is in the schema: a field of its own, or named in what one says."""
    known = set()
    for table in json.loads(run("schema", "--json").stdout)["schemas"]:
        for key, field in table["properties"].items():
            known |= {key, *re.findall(r"[A-Za-z_0-9-]+", field["description"]), *field.get("enum", [])}
    plan, h100, rows = folder / "plan.json", ["gpt2", "--cluster", "1x2:h100-sxm", "--batch", 8], ROOT / "tests/data/measurements.csv"
    job = ["tiny-gpt", "--cluster", "1x2:cpu", "--batch", 8]
    large = [*h100, "--reserve", "79.9GiB", "--fix", "pp=1,zero=0,recompute=full,offload=none"] if SHARE > 1 else ["llama-3-70b", *h100[1:]]
    check("a plan to print", run("plan", *job, "-o", plan).returncode == 0)
    verbs = [("plan", *job, "--top", 2), ("plan", *job, "--pareto", "memory"), ("plan", *job[:-1], "auto:4", "--seq", 16), ("estimate", *h100),
             ("plan", *h100, "--target", "deepspeed", "--objective", "cost", "--price", "h100-sxm=2"), ("plan", *large),
             ("estimate", "--from", "megatron-lm", "--bf16 --micro-batch-size 1 --global-batch-size 8", "--model", *h100[:3]),
             ("explain", plan), ("explain", *large), ("show", plan), ("check", plan), ("simulate", plan), ("diff", plan, plan),
             ("run", plan, "--steps", 2), ("compare", plan), ("compare", plan, "--steps", 2, "--rounds", 1), ("doctor",), ("devices",), ("dimensions",), ("schedules",),
             ("recommend", "gpt2", "--batch", 8, "--among", "1x1:h100-sxm,1x2:h100-sxm", "--tokens", 1e9, "--target-time", "30d", "--price", "h100-sxm=2"),
             ("validate", rows), ("calibrate", rows)]
    for verb in verbs:
        result = run(*verb, "--json")
        texts = result.stdout.splitlines() if verb[0] == "run" else [result.stdout]
        missing = sorted({f"{inside}.{key}" for text in texts for key, inside in keys_of(json.loads(text or "{}")) if key not in known})
        check(f"{' '.join(map(str, verb))}: not in the schema: {missing}", result.returncode in (0, 3) and result.stdout and not missing, result)


main(nothing_fits, last_resort, raw_data, same_report, taken_out, described)
