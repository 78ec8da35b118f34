#!/usr/bin/env python3
"""The program as people call it: exit codes, messages, no partial files. usage: test_cli.py CLEAVE SOURCE_ROOT"""
import json
import os
import pathlib
import re

from calls import ALL, CLEAVE, ROOT, SMALL, check, described, expect, main, run, seen_elsewhere, some


def usage(_folder):
    expect("help", 0, "usage: cleave VERB", "--help")
    expect("version", 0, r"cleave \d", "--version")
    expect("no verb", 2, "usage")
    expect("unknown verb", 2, "did you mean 'plan'", "plam")
    expect("unknown option", 2, "did you mean --cluster", "plan", "gpt2", "--clutser", "1x2:cpu")
    expect("no operand", 2, "usage: cleave plan", "plan")
    expect("number", 2, "--batch: expected a number from 1 to 1000000000, auto, or auto:MOST with such a number, found 'x'", "plan", "gpt2", "--cluster", "1x2:cpu", "--batch", "x")
    expect("negative", 2, "--batch: expected", "plan", "gpt2", "--cluster", "1x2:cpu", "--batch", "-4")
    listing = run("--help").stdout
    for verb in re.findall(r"^  (\w+) {2,}", listing, re.M):
        expect(f"{verb} --help", 0, f"usage: cleave {verb}", verb, "--help")
    expect("completion", 0, "complete .* cleave", "--completion")
    expect("man page", 0, r"\.TH CLEAVE", "--man-page")
    expect("devices", 0, "a100-sxm-80", "devices")
    check("devices --json", json.loads(run("devices", "--json").stdout)["format"] == "cleave-devices")
    check("schedules --json", json.loads(run("schedules", "--json").stdout)["format"] == "cleave-schedules")
    expect("schedules say what they hold", 0, r"zb-h1.*\n.*in flight at stage k.*min\(m, P - k\).*taken when named", "schedules")
    check("schema --json", json.loads(run("schema", "--json").stdout)["schemas"])
    expect("schema unknown", 2, "did you mean attention", "schema", "atention")


def wrong_usages(folder):
    """What people mistype: exit 2, and the message names the option and what is valid."""
    job = ["--cluster", "1x2:cpu", "--batch", 8]
    plan = ["plan", "tiny-gpt", *job]
    estimate = ["estimate", "tiny-gpt", *job]
    cases = [  # arguments, pattern
        (["--hlep"], "unknown option --hlep"),
        (["-x"], "unknown option -x"),
        (["help", "plam"], "did you mean 'plan'"),
        (["plan", "tiny-gpt"], "--cluster is missing"),
        (["plan", "tiny-gpt", "--cluster", "1x2:cpu"], "--batch is missing"),
        ([*plan, "extra"], "expected 1 operand, found 2"),
        ([*plan, "-o"], "--output needs a value"),
        ([*plan, "-q"], "unknown option -q"),
        ([*plan, "--sequence-length", "8"], "did you mean --seq"),
        ([*plan, "--global-batch-size=8"], "did you mean --batch"),
        ([*estimate, "--micro-batch-size", "8"], "did you mean --micro-batch"),
        ([*plan, "--tp", "8"], "did you mean --fix tp=VALUE"),
        ([*plan, "--zero-stage", "3"], "did you mean --fix zero=VALUE"),
        ([*plan, "--gbs", "8"], "unknown option --gbs; did you mean --batch[?]"),
        ([*plan, "--json=3"], "--json takes no value"),
        ([*plan, "--batch", "inf"], "--batch: expected a number from 1 to 1000000000, auto, or auto:MOST with such a number, found 'inf'"),
        ([*plan, "--batch", "0"], "--batch: expected a number from 1 to 1000000000, auto, or auto:MOST with such a number, found '0'"),
        ([*plan, "--top", "8.5"], "--top: expected a whole number"),
        ([*plan, "--time-limit", "inf"], "--time-limit: expected a number"),
        ([*plan, "--time-limit", "1e300"], "--time-limit: expected 0 to 1000000000"),
        ([*plan, "--reserve", "nan"], "--reserve: expected bytes or a percentage"),
        ([*plan, "--clip", "nan"], "--clip: expected a norm of 0 .* or more, found 'nan'"),
        ([*plan, "--clip", "-1"], "--clip: expected a norm of 0"),
        ([*plan, "--clip", "1x"], "--clip: expected a norm of 0"),
        ([*plan, "--clip", "1", "--schedule", "pipedream"], "give --clip 0, or another --schedule"),
        ([*plan, "--reserve", "inf"], "--reserve: expected bytes or a percentage"),
        ([*plan, "--reserve", "-1"], "--reserve: expected bytes or a percentage"),
        ([*plan, "--reserve", "100%"], "percentage below 100%"),
        ([*plan, "--reserve", "1e14"], "leaves nothing"),
        ([*plan, "--reserve", "10"], "10 without a unit would be so many bytes: type 10GiB, 10GB, 10% or 10B"),
        ([*plan, "--fix", "tp"], "expected KEY=VALUE, found 'tp'"),
        ([*plan, "--fix", "tp="], "tp needs a value"),
        ([*plan, "--fix", "tp=x"], "tp: expected a number from 1 to 1000000000, found 'x'"),
        ([*plan, "--fix", "zeor=1"], "unknown key 'zeor'; did you mean zero\\?"),
        ([*plan, "--seq", "128k"], "--seq: expected a whole number, found '128k': type 131072 \\(times 1024\\) or 128000"),
        ([*plan, "--fix", "qqqqqqqq=1"], "known: tp, cp, turns, pp, dp, micro-batch, sp, tp-by, cp-by, dp-by, ep-over, ep, order, hsdp, schedule, interleave, extra-in-flight, bucket, prefetch, loss-chunks, zero, recompute, recompute-except, offload, slices, reshard, replicate"),
        ([*plan, "--fix", "layer[0-1].pp=1"], "layers have no key 'pp'; known: tp, sp, hsdp, zero, recompute, recompute-except, offload, slices, reshard, replicate"),
        ([*plan, "--fix", "replicate=q+qq"], "replicate: expected one of none or, joined by \\+, some of embed, .*; found 'q\\+qq'"),
        ([*plan, "--fix", "bucket=4M"], "bucket: expected bytes, such as 4MiB, found '4M'"),
        ([*plan, "--space", "bucket=1MiB:much"], "bucket"),
        ([*plan, "--fix", "turns=2,schedule=zb-v"], "turns: .*1f1b, gpipe, .*zb-h1.*; found zb-v"),
        ([*plan, "--fix", "tp=2,zero=1,tp=1"], "--fix: tp is given twice, tp=2 and tp=1; leave one of them out"),
        ([*plan, "--space", "zero=0:1,tp=1,zero=0"], "--space: zero is given twice, zero=0:1 and zero=0"),
        ([*plan, "--fix", "turns=65"], "turns: expected a number from 1 to 64, found '65'"),
        ([*plan, "--fix", "turns=2,schedule=zb-v"], "turns: .*1f1b, gpipe, .*zb-h1.*; found zb-v"),
        ([*plan, "--fix", "turns=65"], "turns: expected a number from 1 to 64, found '65'"),
        ([*plan, "--space", "spread=1:2"], "--space: spread is not searched any more: .*leave it out, or give turns=1:2:4"),
        ([*plan, "--fix", "spread-tp=2"], "--fix: spread-tp is not searched any more: .*leave it out, or give turns=1:2:4"),
        ([*plan, "--fix", "layouts=3"], "--fix: layouts is not searched any more: all layers of a plan have one layout; leave it out"),
        ([*plan, "--fix", "reshard=no"], "reshard: expected true or false, or 1 or 0; found 'no'"),
        ([*plan, "--fix", "sp=2"], "sp: expected true or false, or 1 or 0; found '2'"),
        ([*plan, "--fix", "layer[4294967296].zero=0"], "expected layer\\[FIRST-LAST\\].KEY=VALUE or layer\\[NUMBER\\].KEY=VALUE"),
        ([*plan, "--fix", "layer[0].resharding=false"], "known: tp, sp, hsdp, zero, recompute, recompute-except, offload, slices, reshard"),
        ([*plan, "--space", "recompute=some"], "expected one of none, selective, full, block; found 'some'"),
        ([*plan, "--schedule", "gpipee"], "--schedule: schedule: expected one of 1f1b, gpipe"),
        ([*plan, "--schedule", ""], "--schedule: schedule needs a value"),
        ([*plan, "--dtype", "fp12"], "--dtype: expected one of fp32"),
        ([*plan, "--dtype", "fp8"], "expected a dtype that it computes in"),
        ([*plan, "--profile", folder / "other.json"], 'format: expected "cleave-profile", found "cleave-model"'),
        (["plan", "gpt", *job], "did you mean gpt2"),
        (["plan", "zzzzzzzz", *job], "which has: bert-large .*gpt2 "),
        (["plan", folder, *job], "found a directory"),
        ([*estimate, "--fix", "tp=1:2"], "tp has 2 values, but one configuration is priced"),
        ([*estimate, "--fix", "layer[0-1].zero=0:3"], r"layer\[0-1\].zero has 2 values"),
        ([*estimate, "--fix", "tp=2", "--tp", 2], "--fix: tp is given by --tp, too; leave one of them out"),
        ([*estimate, "--fix", "turns=1:2"], "dp is missing: .* give it, such as --fix dp=1"),
        ([*estimate, "--fix", "turns=1:2,dp=1", "--reversed"], "reversed: where stages have several meshes"),
        ([*estimate, "--recompute", "ful"], "--recompute: expected one of none, selective, full"),
        ([*estimate, "--offload", "weights"], "--offload: expected one of none, activations, optimizer, both, parameters, activations.parameters, optimizer.parameters, all"),
        ([*estimate, "--schedule", "1f1b,gpipe"], "--schedule: expected one of"),
        ([*estimate, "--tp", "3"], "expected pp x tp x cp x dp = 2"),
        (["show"], "usage: cleave show PLAN"),
        (["show", folder / "other.json"], 'format: expected "cleave-plan", found "cleave-model"'),
        (["run", folder / "other.json", "--backend", "cudda"], "backend: expected one of cpu"),
        (["run", folder / "other.json", "--steps", "0"], "--steps 0 does nothing: give --to-hf, or some steps"),
        (["run", folder / "other.json", "--timeout", "inf"], "--timeout: expected a number"),
        (["compare"], "give plan files, or --auto"),
        (["compare", folder / "other.json", "--auto", "tiny-gpt", *job], "not both"),
        (["compare", folder / "other.json"], 'found "cleave-model"'),
        (["compare", "a.json", "-o", "r.html"], "unknown option -o; did you mean --report r.html"),
        (["compare", "a.json", "-or.xyz"], "unknown option -o; did you mean --report FILE.html or --markdown FILE.md"),
        (["compare", "a.json", "--report", "a.b/r.xyz"], "expected FILE.html, found 'a.b/r.xyz'; type --report a.b/r.html"),
        (["compare", "a.json", "--report", "r.md"], "expected FILE.html, found 'r.md'; did you mean --markdown r.md"),
        (["compare", folder / "other.json", "--steady", 5], "--steady 5: no plan is run: give --run, too"),
        (["compare", folder / "other.json", "--run", "--backend", "timed", "--steady", 5], "--backend timed does not depend on it"),
        (["compare", folder / "other.json", "--run", "--steady", -5], "--steady: expected 0 to 1000, found -5"),
        (["import", folder / "other.json", "more"], "expected 1 operand, found 2"),
        (["devices", "--jso"], "did you mean --json"),
        (["schedules", "x"], "expected 0 operands, found 1"),
        (["schema", "--json", "--markdown"], "found both"),
        (["profile", "tiny-gpt"], "-o profile.json or --json"),
        (["profile", "tiny-gpt", "--json", "--transport", "mpii"], "transport: expected one of .*did you mean mpi"),
    ]
    (folder / "other.json").write_text('{"sequence": 8, "format": "cleave-model", "version": 1}')
    for arguments, pattern in some(cases):
        result = expect(f"cleave {' '.join(map(str, arguments))}", 2, pattern, *arguments)
        check(f"cleave {' '.join(map(str, arguments))}: nothing on stdout", result.stdout == "", result)
    (folder / "tiny-gpt").mkdir()
    expect("a folder does not hide a model of the zoo", 0, "step", *estimate, "--seq", 16, cwd=folder)
    whole = run(*plan, "--seq", 16, "-o", "-")
    check("plan -o -: the plan file alone", whole.returncode == 0 and json.loads(whole.stdout)["format"] == "cleave-plan", whole)
    whole = run(*estimate, "--seq", 16, "-o", "-")
    check("estimate -o -: the plan file alone", whole.returncode == 0 and json.loads(whole.stdout)["predicted"]["fits"] is True, whole)


@seen_elsewhere
def nothing_divides(folder):
    """Degrees that exclude each other: exit 3 as where memory is short, and the report says why on both streams."""
    gpt2 = ["gpt2", "--cluster", "1x8:a100-sxm-80", "--batch", 64, "--fix"]
    for cluster, fixed, pattern in some([
            ("1x5:cpu", "turns=2", "no configuration of 5 devices.*turns are at most the micro-batches"),
            ("1x8:cpu", "dp=3", "; dp 3: expected a divisor of 8 devices, found 3"),
            ("1x8:cpu", "micro-batch=5", "; leave micro-batch out of --fix and --space"),
            ("1x8:cpu", "tp=2,dp=3,pp=1", "; leave dp out of --fix and --space"),
            ("1x8:cpu", "dp=4,tp=4,pp=1", "; tp 4 x dp 4: expected a divisor of 8 devices, found 16"),
            ("1x8:cpu", "dp=4,tp=4,pp=1,cp=1", "; tp 4 x dp 4: expected 8 devices, found 16"),
            ("1x8:cpu", "tp=3", "; tp: expected 1, 2, 4, which divide the 4 heads of layer 1.attention, found 3"),
            ("2x2:cpu", "tp=4", "; tp: expected 1, 2, within a node of 2 devices, found 4"),
            ("1x6:cpu", "tp=4", "; tp: expected 1, 2, which divide 6 devices, found 4"),
            ("1x8:cpu", "dp=4,hsdp=3", "hsdp: expected a divisor of the data-parallel ranks, of which there are at most 4, found 3"),
            ("1x8:cpu", "dp=4,hsdp=8", "at most 4, found 8")]):
        job = ["plan", "tiny-gpt", "--cluster", cluster, "--batch", 4, "--seq", 16, "--fix", fixed]
        result = run(*job, "--json")
        if not SMALL:
            expect(f"nothing divides: {fixed}", 3, pattern, *job)
        report = json.loads(result.stdout)
        check(f"nothing divides: {fixed}, --json", result.returncode == 3 and report["format"] == "cleave-infeasible" and
              re.search(pattern, report["why"]) and report["why"] in result.stderr and described("infeasible", report), result)
    for fixed in some(("hsdp=4,dp=8", "hsdp=8,dp=8", "hsdp=2")):
        expect(f"nothing divides: {fixed} does", 0, "step", "plan", *gpt2, fixed)
    both = r"which divide the 12 heads of layer 1.attention, found 8; pp 2 x tp 8: expected a divisor of 8 devices, found 16"
    expect("nothing divides: both reasons", 3, both, "plan", *gpt2, "tp=8,pp=2")
    expect("nothing divides: as explain exits", 3, "nothing fits", "explain", *gpt2, "tp=8,pp=2")


@seen_elsewhere
def bad_models(folder):
    cases = [  # name, text, pattern behind FILE:
        ("malformed", '{"format": "cleave-model",', r":1:\d+: "),
        ("trailing", '{"format":"cleave-model","version":1} x', r":1:39: "),
        ("duplicate", '{"format":"cleave-model",\n "format":"cleave-model"}', r":2:\d+: .*each key once"),
        ("not an object", "[1]", r":1:1: .*expected"),
        ("unknown key", '{"format":"cleave-model","version":1,"hiden":4}', r"did you mean"),
        ("deep", "[" * 2000, r"(deep|depth|nest)"),
        ("empty", "", r"(empty|expected)"),
    ]
    for name, text, pattern in cases:
        path = folder / f"{name}.json"
        path.write_text(text)
        expect(f"model {name}", 2, re.escape(str(path)) + ".*" + pattern, "plan", path, "--cluster", "1x2:cpu", "--batch", 4)
    (folder / "utf8.json").write_bytes(b'{"name": "\xff\xfe"}')
    expect("invalid UTF-8", 2, "UTF-8", "plan", folder / "utf8.json", "--cluster", "1x2:cpu", "--batch", 4)
    expect("missing file", 2, "No such file", "plan", folder / "absent.json", "--cluster", "1x2:cpu", "--batch", 4)
    config = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257, "n_positions": 1024,
              "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}
    good = folder / "config.json"
    good.write_text(json.dumps(config))
    expect("Hugging Face", 0, '"cleave-model"', "import", good)
    (folder / "heads.json").write_text(json.dumps({**config, "n_head": 11}))
    expect("heads that do not divide", 2, r"n_head.*(11|divi)", "import", folder / "heads.json")
    (folder / "fraction.json").write_text(json.dumps({**config, "n_layer": 12.5}))
    expect("fractional layers", 2, r"n_layer.*12\.5", "import", folder / "fraction.json")
    (folder / "huge.json").write_text(json.dumps({**config, "n_embd": 1e30}))
    expect("huge", 2, r"n_embd", "import", folder / "huge.json")


@seen_elsewhere
def bad_clusters(_folder):
    for text, pattern in [("1x2:a100-sxm-8", "did you mean"), ("0x2:cpu", "expected"), ("1x2", "expected"), ("1x2:cpu@bogus=1", "bogus"), ("axb:cpu", "expected"),
                          ("64xH100", "did you mean 8x8:h100-sxm"), ("2xNVL72", r"did you mean 2x72:gb200\? \(or gb300\)"), ("1xGB300-NVL72", r"did you mean 1x72:gb300\?"), ("a100-80gb", "did you mean 1x8:a100-sxm-80"), ("8x A100", "did you mean 1x8:a100-sxm-80"),
                          ("h100x16", "did you mean 2x8:h100-sxm"), ("2x8:H100", '"h100-sxm"[?]'), ("12xl40s", "did you mean 2x6:l40s")]:
        expect(f"cluster {text}", 2, pattern, "plan", "gpt2", "--cluster", text, "--batch", 4)



def stages_by_hand(folder):
    """Cuts that a user gives, as numbers of blocks and as Megatron-LM writes them; here by its own two substitutions."""
    def megatron(layout):
        layout = layout.replace(",", "")
        for pattern in (r"\(([^)]+)\)\*(\d+)", r"(.)\*(\d+)"):
            layout = re.sub(pattern, lambda found: found.group(1) * int(found.group(2)), layout)
        return layout.split("|")
    job = ["estimate", "llama-3-70b", "--cluster", "8x8:h100-sxm", "--batch", 64, "--tp", 8, "-o", "-"]
    for cuts, extra in (("9,10,10,10,10,10,10,11", []), ("Et*9|(t*10|)*6t*11L", []), ("E|t*3|(tt|)*35,t*6|t|L", ["--pp", 2, "--tp", 4]),
                        ("Et|(t|)*78tL", ["--interleave", 10]), ("(Ett|tt|)*1t*75|t,L", ["--pp", 4, "--dp", 2])):
        pieces = megatron(cuts) if "E" in cuts else ["t" * int(blocks) for blocks in cuts.split(",")]
        done = run(*job, "--stages", cuts, *extra)
        stages = json.loads(done.stdout)["decisions"]["stages"] if done.returncode in (0, 3) else []  # 3: it does not fit
        layers = [chunk for stage in stages for chunk in stage["layers"].split(",")]
        wanted, first = [], 0
        for place, piece in enumerate(pieces):
            count = 2 * piece.count("t") + (place == 0) + 2 * (place == len(pieces) - 1)
            wanted.append(f"{first}-{first + count - 1}" if count > 1 else f"{first}")
            first += count
        rounds = len(pieces) // max(1, len(stages))
        dealt = [wanted[chunk * len(stages) + stage] for stage in range(len(stages)) for chunk in range(rounds)]
        check(f"estimate --stages {cuts}: {layers}, expected {dealt}", layers == dealt != [], done)
    for model, stages, chunks, cut in (("llama-3-70b", 8, 1, 10), ("llama-3-70b", 8, 5, 2), ("llama-3-70b", 8, 10, 1), ("gpt2", 4, 3, 1),
                                       ("gpt2", 8, 1, None), ("llama-3-405b", 4, 3, None)):
        chunked = ["--interleave", chunks] if chunks > 1 else []
        done = run("estimate", model, "--cluster", "8x8:h100-sxm", "--batch", 64, "--pp", stages, *chunked, "-o", "-")
        layers = [stage["layers"].split(",") for stage in json.loads(done.stdout)["decisions"]["stages"]]
        first = sorted(int(chunk.split("-")[0]) for stage in layers for chunk in stage)
        last = max(int(chunk.split("-")[1]) for stage in layers for chunk in stage)
        blocks = [(end - begin) // 2 for begin, end in zip([1, *first[1:]], [*first[1:], last - 1])]
        parts = [blocks[0] + 1, *blocks[1:-1], blocks[-1] + 1]  # with embedding and head
        even = set(blocks) == {cut} if cut else chunks == 1 or max(parts) - min(parts) <= 1
        check(f"estimate {model}, {stages} stages x {chunks}: whole blocks, the loss with its head, {first}",
              all(begin % 2 for begin in first[1:]) and first[-1] <= last - 1 and even and len(first) == stages * chunks, done)
    for cuts, words in (("40,41", "81 blocks, but model llama-3-70b has 80"), ("Et*80", "one E and one L"), ("E||t*80L", "stage 1 of .* is empty"),
                        ("Et*80LL", "L last"), ("E(t*80L", r"found '\(t\*80L'"), ("x", "found 'x'"), ("40,,40", "found ',40'"),
                        ("Et*0|t*80L", r"found 't\*0"), ("40,40 --pp 4", "2 are cut")):
        cuts, *extra = cuts.split(" ")
        expect(f"--stages {cuts}", 2, words, *job, "--stages", cuts, *extra)
    plan, forged = folder / "cut.json", folder / "forged.json"
    small = ["plan", "gpt2", "--cluster", "1x8:a100-sxm-80", "--batch", 64]
    expect("plan --stages", 0, "no plan of the space is shorter", *small, "--stages", "2,4,4,2", "--schedule", "1f1b,gpipe,zb-h1", "-o", plan)
    text = json.loads(plan.read_text())
    check("plan keeps the cut", [s["layers"] for s in text["decisions"]["stages"]] == ["0-4", "5-12", "13-20", "21-26"] and
          text["certificate"]["space"]["stages"] == [0, 5, 13, 21])
    expect("check of a cut by hand", 0, "the certificate holds", "check", plan)
    found = run("explain", plan, "--part", "versus")
    check("explain names the cut", "--stages 'Ett|tttt|tttt|ttL' seeks them where it was chosen" in found.stderr, found)
    for stages, words in (([0, 5, 13, 20], "does not hold"), ([], "at which each stage begins")):
        text["certificate"]["space"]["stages"] = stages
        forged.write_text(json.dumps(text))
        check(f"a cut of {stages} does not hold", (found := run("check", forged)).returncode in (2, 4) and re.search(words, found.stderr), found)
    for cuts, code, words in (("2,4,4", 2, "10 blocks, but model gpt2 has 12"), ("3,3,3,3 --fix pp=8", 2, "4 are cut, but pp is 8"), ("12,", 2, "found"),
                              ("6,6 --fix turns=2", 2, "goes without replicas in turn"), ("2,2,2,4,2", 3, "cuts 5, and no configuration has as many: expected 1, 2, 4, 8")):
        cuts, *extra = cuts.split(" ")
        expect(f"plan --stages {cuts}", code, words, *small, "--stages", cuts, *extra)

def plans(folder):
    plan = folder / "plan.json"
    args = ["plan", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", 8, "--seq", 16, "--dtype", "fp32"]
    expect("plan", 0, "stage 0", *args, "-o", plan)
    again = folder / "again.json"
    run(*args, "-o", again)
    threads = [run("plan", "tiny-gpt", "--cluster", "1x2:cpu" if SMALL else "2x4:cpu", "--batch", 16, "--jobs", jobs, "--json") for jobs in (1, 3)]
    check("any number of jobs gives the same bytes", threads[0].returncode == 0 and threads[0].stdout == threads[1].stdout, threads[1])
    explained = [run("explain", "tiny-gpt", "--cluster", "1x2:a100-sxm-80", "--batch", 16, "--draws", 1 if SMALL else 2, "--jobs", jobs, "--json") for jobs in (1, 3)]
    check("any number of jobs explains alike", explained[0].returncode == 0 and explained[0].stdout == explained[1].stdout, explained[1])
    refused = run("plan", "gpt2", "--cluster", "1x8:a100-sxm-80", "--batch", 64, "--schedule", "gpipe", "--fix", "pp=4,extra-in-flight=1")
    check("the choice that a schedule refuses is named", refused.returncode != 0 and "found extra-in-flight 1" in refused.stderr, refused)
    early = run("explain", "gpt2", "--cluster", "1x8:a100-sxm-80", "--batch", 64, "--part", "what-if", "--time-limit", 0.01)
    check("what is not known is not said", early.returncode != 0 or "what binds: not known" in early.stdout, early)
    check("same inputs give the same bytes", plan.read_bytes() == again.read_bytes())
    answer = run(*args, "--json")
    check("plan --json", answer.returncode == 0 and {"decisions", "predicted", "certificate", "context"} <= json.loads(answer.stdout).keys(), answer)
    predicted = json.loads(answer.stdout)["predicted"]
    check("breakdown sums to the step", abs(sum(predicted["breakdown_s"].values()) - predicted["step_s"]) < 1e-8)
    check("bytes of the fullest stage by kind sum to its peak",
          sum(predicted["fullest_stage_bytes"].values()) == predicted["peak_bytes"][predicted["fullest_stage"]], predicted)
    expect("show", 0, "tiny-gpt", "show", plan)
    expect("simulate", 0, "step", "simulate", plan, "--trace", folder / "trace.json")
    check("trace", json.loads((folder / "trace.json").read_text())["traceEvents"])
    result = expect("run", 0, '"summary"', "run", plan, "--steps", 3, "--json")
    losses = [json.loads(line)["loss"] for line in result.stdout.splitlines()[:-1]]
    ran, stages = json.loads(result.stdout.splitlines()[-1])["summary"], json.loads(run("simulate", plan, "--json").stdout)["stages"]
    check("run --json: time of each rank", [r["rank"] for r in ran["ranks"]] == [0, 1] and all(
        abs(sum(r["breakdown_s"].values()) - ran["timeline_step_s"]) < 1e-7 and
        all(abs(s - stages[r["stage"]]["breakdown_s"][kind]) < 1e-9 for kind, s in r["predicted_breakdown_s"].items()) for r in ran["ranks"]), result)
    check("a plan that is judged whole promises its arenas", all(s["promised_bytes"] == s["peak_bytes"] for s in stages) and
          ran["predicted_peak_bytes"] == [stages[r["stage"]]["peak_bytes"] for r in ran["ranks"]], stages)
    check("no host memory without offload", "host_peak_bytes" not in ran)
    offloads = folder / "offloads.json"
    run(*args, "--fix", "offload=both", "-o", offloads)
    ran = json.loads(expect("run offloaded", 0, '"summary"', "run", offloads, "--steps", 1, "--poison", "--json").stdout.splitlines()[-1])["summary"]
    hosts = json.loads(offloads.read_text())["predicted"]["host_bytes"]
    check("host memory by rank", ran["predicted_host_peak_bytes"] == [hosts[r["stage"]] for r in ran["ranks"]] and all(
        0.9 * laid_out < touched <= laid_out for touched, laid_out in zip(ran["host_peak_bytes"], ran["predicted_host_peak_bytes"])), ran)
    opaque = folder / "opaque.json"
    run("plan", "tiny-opaque", "--cluster", "1x2:cpu", "--batch", 4, "-o", opaque)
    expect("no mathematics, no loss", 0, r"step    1  loss +none .*\n", "run", opaque, "--backend", "timed", "--steps", 1)
    lines = run("run", opaque, "--backend", "timed", "--steps", 2, "--json").stdout.splitlines()
    check("no loss in JSON", all(json.loads(line)["loss"] is None for line in lines[:2]) and json.loads(lines[2])["summary"]["last_loss"] is None)
    compared = run("compare", opaque, "--run", "--backend", "timed", "--steps", 2, "--rounds", 1, "--json", "--report", folder / "opaque.html")
    compared = json.loads(compared.stdout)["plans"][0]
    check("no losses in a report", "losses" not in compared and compared["steps"] == 2 and "Training loss" not in (folder / "opaque.html").read_text())
    check("losses are finite numbers", len(losses) == 3 and all(isinstance(x, float) and 0 < x < 20 for x in losses), result)
    expect("degrees that do not divide the batch", 3, "or give --batch 6 or 8", *args[:4], "--batch", 7, "--fix", "dp=2")
    expect("a batch that no degrees divide", 3, "; 1024 or 1040 sequences would do$", "plan", "gpt2", "--cluster", "128x8:a100-sxm-80", "--batch", 1025)
    expect("wrong rank count", 2, "2 ranks", "run", plan, "-n", 3)
    expect("missing data", 2, "No such file", "run", plan, "--data", folder / "none.txt")
    expect("plan for another model", 2, "model", "show", plan, "--model", "tiny-llama")
    expect("plan for another cluster", 2, "cluster|devices", "show", plan, "--cluster", "1x4:cpu")
    broken = folder / "broken.json"
    broken.write_text(plan.read_text().replace('"decisions"', '"decision"'))
    expect("broken plan", 2, r"broken\.json:\d+:\d+", "show", broken)
    expect("unknown profile", 2, "No such file", *args, "--profile", folder / "none.json")
    expect("does not divide", 2, "batch", "estimate", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", 7, "--micro-batch", 2, "--dp", 2, "--seq", 16, "--dtype", "fp32")
    nothing = expect("nothing fits", 3, "fit", "plan", "gpt3-175b", "--cluster", "1x1:a100-sxm-80", "--batch", 1)
    check("nothing fits: says how much is missing", re.search(r"\d.*[GT]iB", nothing.stderr), nothing)
    tight = ["plan", "gpt2", "--cluster", "1x2:cpu", "--batch", 512, "--seq", 1024, "--fix", "zero=0,recompute=none,micro-batch=16,offload=none,loss-chunks=1,cp=1"]
    nothing = run(*tight, "--json")
    report = json.loads(nothing.stdout)
    sizes = {c["name"]: (c["now"], c["value"]) for c in report["changes"] if c["found"]}
    check("nothing fits: what would", nothing.returncode == 3 and report["constraints"] == ["memory"] and not report["irreducible"] and
          report["needed_bytes"] > report["available_bytes"] > 0 and report["nearest"] and report["stage"] == 0 and
          sizes.keys() == {"micro-batch", "sequence", "devices", "memory per device"} and
          all(size[1] < size[0] for name, size in sizes.items() if name in ("micro-batch", "sequence")), nothing)
    check("nothing fits: as described", described("infeasible", report) and described("infeasible.change", report["changes"][0]), nothing)
    check("nothing fits: what to type", re.search(fr"--seq {sizes['sequence'][1]}: .*\nnot enough: a smaller batch\n", nothing.stderr, re.S), nothing)
    expect("nothing fits: what was typed does", 0, "stage 0", *tight[:7], sizes["sequence"][1], *tight[8:])
    expect("nothing fits: half of it did not", 3, "nothing fits", *tight[:7], 2 * sizes["sequence"][1], *tight[8:])
    loops = folder / "loops.json"
    expect("estimate --interleave", 0, "pp 2 x 2 chunks.*interleaved", "estimate", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", 4, "--micro-batch", 1, "--pp", 2, "--interleave", 2, "--seq", 16, "--dtype", "fp32", "-o", loops)
    expect("run chunks", 0, "median step", "run", loops, "--steps", 2)
    expect("interleave asks for its schedule", 2, "schedule interleaved runs several", "estimate", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", 4, "--micro-batch", 1, "--pp", 2, "--interleave", 2, "--schedule", "1f1b")
    stages_by_hand(folder)
    turns = json.loads(loops.read_text())
    turns["decisions"].update(schedule="1f1b", interleave=1, stages=[{"layers": "0-6", "atoms": [1, 1], "turns": 2}])
    loops.write_text(json.dumps({key: turns[key] for key in ("format", "version", "decisions", "context")}))
    expect("show turns", 0, "ranks 0 to 1: 2 replicas take micro-batches in turn", "show", loops)
    expect("run turns", 0, "median step", "run", loops, "--steps", 2)
    expect("plan turns", 0, "2 replicas take micro-batches in turn", "plan", "tiny-gpt", "--cluster", "1x3:cpu", "--batch", 8, "--fix", "pp=2,tp=1,dp=1", "--space", "turns=1:2", "--seq", 16, "--dtype", "fp32", "-o", loops)
    expect("check turns", 0, "the certificate holds", "check", loops)
    expect("run planned turns", 0, "median step", "run", loops, "--steps", 2)
    said = expect("explain of a wider space", 0, "why not another", "explain", loops, "--part", "alternatives")
    check("it says what it leaves out", "chosen from more than other plans are sought in now: --space turns=1:2 looks there" in said.stderr, said)
    said = expect("explain in the plan's space", 0, "why not another", "explain", loops, "--part", "alternatives", "--space", "turns=1:2")
    check("nothing is left out", "chosen from more" not in said.stderr, said)
    not_the_best(folder)
    plans_of_older_spaces(folder)
    clips = ["plan", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", 8, "--seq", 16, "--dtype", "fp32"]
    expect("clipping is on", 0, "gradients clipped to norm 1\n", *clips)
    for text, named, norm in (("0", [], 0), ("0.5", [], 0.5), (None, ["--schedule", "pipedream", "--fix", "pp=2"], 0)):
        plan = json.loads(run(*clips, *(["--clip", text] if text else []), *named, "--json").stdout)
        check(f"--clip {text} {named}", plan["decisions"]["clip_norm"] == norm, plan["decisions"])
    expect("estimate", 0, "step", "estimate", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", 8, "--micro-batch", 4, "--dp", 2, "--zero", 1, "--seq", 16, "--dtype", "fp32")


def not_the_best(folder):
    """Where explain knows a shorter plan it says so, and what it says to add to the command finds one as short."""
    plan, job = folder / "restricted.json", ("plan", "gpt2", "--cluster", "1x2:rtx4090", "--batch", 24)
    expect("a restricted plan", 0, "step", *job, "--fix", "tp=2", "-o", plan)
    said = expect("explain: not the best", 0, "not the best one known", "explain", plan, "--part", "alternatives")
    shorter = re.search(r"takes ([\d.]+) ms, [\d.]+ % less; for it add ((--fix \S+ ?)+)to cleave plan", said.stdout)
    found = json.loads(run(*job, *shorter[2].split(), "--json").stdout)["predicted"]["step_s"] if shorter else 0
    check("explain: what to add", shorter and 0 < found < 1.01e-3 * float(shorter[1]), said)


def plans_of_older_spaces(folder):
    """Stages of unequal meshes and layers of several layouts are not searched any more; their plans are read, priced, explained and run as any other, and their certificates refused by name."""
    for name, stages, retired in (("unequal_stages", "ranks 0 to 0\n(.|\n)*ranks 1 to 2\n(.|\n)*tp 2", "spread"),
                                  ("unequal_layers", "ranks 0 to 3\n(.|\n)*dp 2 dp 2(.|\n)*dp 2 tp.sp 2(.|\n)*dp 2 dp 2", "layouts")):
        plan = ROOT / "tests/plans" / f"{name}.json"
        expect(f"show {name}", 0, stages, "show", plan)
        predicted = json.loads(plan.read_text())["predicted"]["step_s"]
        simulated = json.loads(expect(f"simulate {name}", 0, "step_s", "simulate", plan, "--json").stdout)
        check(f"{name} takes as long as when it was made", abs(simulated["step_s"] / predicted - 1) < 1e-9, (simulated["step_s"], predicted))
        expect(f"run {name}", 0, "median step", "run", plan, "--steps", 2)
        if ALL or name == "unequal_stages":
            expect(f"explain {name}", 0, "why not another", "explain", plan, "--part", "alternatives")
        expect(f"check {name}", 2, f"certificate.space.{retired}: the certificate is of a space that this version does not search", "check", plan)


def types(folder):
    """Clusters of several device types: a plan over them is shown, simulated, imitated and really run."""
    plan, job = folder / "types.json", ["tiny-gpt", "--batch", 8, "--seq", 16, "--dtype", "fp32"]
    cluster = ["--cluster", "1x2:cpu@memory=2e9,reserve=0+1x2:cpu"]
    shown = expect("devices of a cluster", 0, r"ranks 16 to 47: a100-sxm-80", "devices", "--cluster", "2x8:h100-sxm+4x8:a100-sxm-80")
    check("links of a cluster", re.search(r"h100-sxm: 16 devices(.|\n)*cluster +2 x", shown.stdout), shown)
    summary = json.loads(run("devices", "--cluster", "1x8:h100-sxm+1x8:h100-sxm", "--json").stdout)
    check("groups that are alike are one", len(summary["types"]) == len(summary["groups"]) == 1 and summary["device_count"] == 16)
    same = [run("plan", *job, "--cluster", text, "--json").stdout for text in ("2x2:cpu", "1x2:cpu+1x2:cpu")]
    check("and give the same plan", [json.loads(s)["decisions"] for s in same][0] == [json.loads(s)["decisions"] for s in same][1])
    expect("plan over types", 0, r"stages? .* on", "plan", *job, *cluster, "--fix", "pp=2", "-o", plan)
    expect("reversed", 0, "stages 0 to 1 on 2 cpu each", "estimate", *job, *cluster, "--micro-batch", 2, "--pp", 2, "--reversed", "-o", plan)
    decisions = json.loads(plan.read_text())
    check("the plan says where its stages begin", [s.get("first_rank") for s in decisions["decisions"]["stages"]] == [2, 0], plan.read_text())
    check("memory by stage", len(decisions["predicted"]["stage_available_bytes"]) == 2)
    expect("show over types", 0, "stages 0 to 1 on 2 cpu each", "show", plan)
    simulated = expect("simulate over types", 0, '"devices": "2 cpu"', "simulate", plan, "--json")
    check("simulated stages", len(json.loads(simulated.stdout)["stages"]) == 2)
    turned = expect("run over types", 0, '"summary"', "run", plan, "--steps", 2, "--json")
    straight = folder / "straight.json"
    run("estimate", *job, *cluster, "--micro-batch", 2, "--pp", 2, "-o", straight)
    first = expect("run the other way round", 0, '"summary"', "run", straight, "--steps", 2, "--json")
    check("the order of devices does not change what is learned", losses_of(turned) == losses_of(first), turned)
    expect("imitate over types", 0, '"summary"', "run", plan, "--backend", "timed", "--shape", "--steps", 1, "--json")
    decisions["decisions"]["stages"][0]["first_rank"] = 1
    plan.write_text(json.dumps(decisions))
    expect("ranks twice", 2, "stage 0: expected ranks of its own", "show", plan)
    device = {**json.loads((ROOT / "planner/facts/devices/cpu.json").read_text()), "name": "other"}
    both = folder / "both.json"
    both.write_text(json.dumps({"groups": [{"device": d, "levels": [{"fanout": 2}]} for d in ("cpu", device)]}))
    profiles = []
    for name, ns in (("cpu", 5e6), ("other", 9e6)):
        profiles += ["--profile", folder / f"on-{name}.json"]
        linear = [{"work": "adamw", "loaded": 2, "fixed_ns": ns, "ns_per_unit": 0, "min_units": 0, "max_units": 10**9}]
        profiles[-1].write_text(json.dumps({"format": "cleave-profile", "version": 1, "dtype": "fp32", "device": name, "linear": linear}))
    expect("two profiles", 0, "partly measured", "estimate", *job, "--cluster", both, "--micro-batch", 2, "--pp", 2, *profiles, "-o", plan)
    check("the plan names both profiles", json.loads(plan.read_text())["context"]["profile"]["source"] == f"{profiles[1]},{profiles[3]}", plan.read_text())
    stages = json.loads(expect("and they are found again", 0, "step_s", "simulate", plan, "--json").stdout)["stages"]
    updates = [s["breakdown_s"]["optimizer"] for s in stages]
    check("each stage has its own device's times", updates[0] > 0 and abs(updates[1] / updates[0] - 9 / 5 * 1) < 0.8, updates)
    expect("one of two profiles", 0, "partly measured", "estimate", *job, "--cluster", both, "--micro-batch", 2, "--pp", 2, *profiles[:2])
    profiles[1].write_text(profiles[1].read_text().replace('"device": "cpu", ', ""))
    expect("a profile of no device", 2, 'on-cpu.json.*expected "device"', "plan", *job, "--cluster", both, *profiles)
    profile = folder / "types-profile.json"
    profile.write_text(json.dumps({"format": "cleave-profile", "version": 1, "dtype": "fp32", "device": "h100-sxm"}))
    expect("profile of another device", 2, "measured on device h100-sxm, but cluster 1x2:cpu has cpu", "plan", *job, "--cluster", "1x2:cpu",
           "--profile", profile)
    expect("group that is none", 2, r":1:10: expected 'x'", "devices", "--cluster", "1x2:cpu+1y2:cpu")


def discovers(folder):
    corpus = ROOT / "tests/fuzz/corpus"
    cluster = folder / "found.json"
    pairs = ["discover", "--nvidia-smi-topo", corpus / "topo_pairs.txt", "--device", "a100-pcie-80", "--nodes", "2"]
    found = expect("discover", 0, "", *pairs, "-o", cluster)
    check("discover says what it found", "2 x 4 GPUs" in found.stderr and f"--cluster {cluster}" in found.stderr, found)
    expect("discover cores where GPUs are", 2, "--device cpu: expected what the GPUs in .*topo_pairs.txt are", *pairs[:3], "--device", "cpu")
    check("discover twice", run(*pairs).stdout == cluster.read_text())
    expect("plan with what was found", 0, "on 8 devices", "plan", "tiny-gpt", "--cluster", cluster, "--batch", "8", "--seq", "16")
    expect("discover more nodes than a cluster has", 2, "--nodes: expected at most 262144 nodes of 4 devices", *pairs[:-1], 300000)
    expect("discover another table", 2, r"cluster\.json:1: expected the column GPU0", "discover", "--nvidia-smi-topo", corpus / "cluster.json", "--device", "cpu")
    dgx = ["discover", "--nccl-topo", corpus / "dump_dgx_a100.xml", "--nodes", "2"]
    if "reads no XML" in run(*dgx).stderr:
        expect("discover by NCCL's topology without Expat", 1, "dump_dgx_a100.xml: this build reads no XML: install libexpat1-dev", *dgx)
    else:
        levels = json.loads(expect("discover by NCCL's topology", 0, '"device": "a100-sxm-80"', *dgx).stdout)["levels"]
        check("discover by NCCL's topology: rates", [level["bytes_per_s"] for level in levels] == [300e9, 25e9], levels)
        expect("discover by another XML", 2, r"topo_pairs\.txt:1: expected XML", "discover", "--nccl-topo", corpus / "topo_pairs.txt")
    hwloc = ["discover", "--nodes", "2", "--hwloc", corpus / "hwloc_switched.xml"]
    if "reads no XML" not in run(*hwloc).stderr:
        levels = json.loads(expect("discover by hwloc", 0, '"device": "h100-sxm"', *hwloc).stdout)["levels"]
        check("discover by hwloc: rates", [level["bytes_per_s"] for level in levels] == [450e9, 50e9], levels)
        expect("discover by hwloc: no GPUs", 2, "hwloc saw no GPU", "discover", "--hwloc", corpus / "hwloc_cores.xml", "--device", "h100-sxm")
        found = expect("discover by hwloc: cores beside GPUs", 0, '"device": "cpu"', *hwloc, "--device", "cpu")
        check("discover by hwloc: says that GPUs are left", "--device cpu, although hwloc saw 8 GPUs" in found.stderr, found)
        found = expect("discover by hwloc: another device", 0, '"device": "h200-sxm"', *hwloc, "--device", "h200-sxm")
        check("discover by hwloc: says that the GPUs are others", "the GPUs say that they are h100-sxm" in found.stderr, found)
        expect("discover by hwloc: an empty name", 2, '--hwloc: expected a FILE, found ""', "discover", "--hwloc", "")
        here = run("discover", "--hwloc", "--device", "cpu")
        check("discover by hwloc here", here.returncode == 0 or "no libhwloc.so.15" in here.stderr or "GPU" in here.stderr, here)
    expect("discover by two topologies", 2, "one of --nvidia-smi-topo, --nccl-topo and --hwloc", *dgx, *pairs[1:3])
    measured = ["discover", "--nccl-tests", corpus / "nccl_all_reduce.txt", "--nccl-tests", corpus / "nccl_all_gather.json"]
    levels = json.loads(expect("discover by nccl-tests", 0, '"device": "h100-sxm"', *measured).stdout)["levels"]
    check("discover by nccl-tests: levels", [level["fanout"] for level in levels] == [4, 2])
    expect("discover by nccl-tests in too few nodes", 2, "2 hosts of 4 ranks", *measured, "--nodes", "1")
    expect("discover by nccl-tests: another file", 2, r"topo_pairs\.txt:\d+: expected the header", "discover", "--nccl-tests", corpus / "topo_pairs.txt")
    job = {"SLURM_JOB_NUM_NODES": "4", "SLURM_GPUS_PER_NODE": "h100:8"}
    levels = json.loads(expect("discover a Slurm job", 0, "4 x 8 devices", "discover", "--slurm", "--device", "h100-sxm", env=job).stdout)["levels"]
    check("discover a Slurm job: levels", [level["fanout"] for level in levels] == [8, 4])
    expect("discover a Slurm job of GPUs in other words", 2, "--device NAME .* for h100, found none; nearest: .*h100-sxm", "discover", "--slurm", env=job)
    expect("discover a Slurm job by its type", 0, '"device": "l40s"', "discover", "--slurm", env={"SLURM_NNODES": "2", "SLURM_GPUS": "gpu:l40s:16"})
    for wrong, words in (({"SLURM_JOB_NUM_NODES": "", "SLURM_NNODES": ""}, "expected the environment of a job"), ({"SLURM_NNODES": "2", "SLURM_GPUS_ON_NODE": ""}, "the job has no GPUs"), ({**job, "SLURM_JOB_NUM_NODES": "-4"}, "SLURM_JOB_NUM_NODES: expected a number"),
                         ({"SLURM_NNODES": "3", "SLURM_GPUS": "16"}, "expected a multiple of 3"), ({**job, "SLURM_GPUS_PER_NODE": "h100:"}, "SLURM_GPUS_PER_NODE: expected a number")):
        expect(f"discover a Slurm job: {wrong}", 2, words, "discover", "--slurm", "--device", "h100-sxm", env=wrong)
    levels = json.loads(expect("discover a Slurm job with a topology", 0, "", "discover", "--slurm", *pairs[1:5], env=job).stdout)["levels"]
    check("discover a Slurm job with a topology: nodes", levels[-1]["fanout"] == 4, None)
    double = pathlib.Path(CLEAVE).parent.parent / "tests"
    driver = {"LD_LIBRARY_PATH": f"{double}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
    here = json.loads(expect("discover a driver's GPUs", 0, '"device": "v100-sxm2-16"', "discover", env={**driver, "CLEAVE_NVML_NAME": "Tesla V100-SXM2-16GB"}).stdout)
    check("discover a driver's GPUs: pairs", [(level["fanout"], level["shared"]) for level in here["levels"]] == [(2, False), (2, True)])
    expect("discover unknown GPUs", 2, "--device NAME .* for NVIDIA H100 96GB, found none; nearest: .*h100-sxm", "discover", env={**driver, "CLEAVE_NVML_NAME": "NVIDIA H100 96GB"})
    expect("discover without a driver behind the library", 1, "cannot read the driver: Driver Not Loaded", "discover", env=driver)
    # meson lets tests find the double of the driver's library: then GPUs would be asked for
    alone = {"LD_LIBRARY_PATH": ":".join(p for p in os.environ.get("LD_LIBRARY_PATH", "").split(":") if p and pathlib.Path(p).name != "tests")}
    without = run("discover", "--device", "h100-sxm", env=alone)
    check("discover a GPU where there is none", "the driver of this machine" in without.stderr or
          (without.returncode == 2 and "expected a node with its GPUs; without one type --cluster 1x8:h100-sxm" in without.stderr), without)
    expect("discover for no device", 2, 'did you mean "a100-pcie-40", "a100-pcie-80"\\?', *pairs[:3], "--device", "a100-pcie")
    measured, entry = folder / "measured.json", folder / "entry.json"
    found = expect("discover --measure", 0, "", "discover", "--measure", "--sizes", "8,32,128", "--time-limit", "1", "-o", measured,
                   "--device-entry", entry, env=alone)
    device = json.loads(entry.read_text())
    check("discover --measure: the device", json.loads(measured.read_text())["device"] == device and device["measured"]["repeats"] >= 3, found)
    check("discover --measure says how well it predicts", "products between those of the grid" in found.stderr, found)
    expect("plan on a measured device", 0, "", "plan", "tiny-gpt", "--cluster", measured, "--batch", "4", "-o", folder / "measured_plan.json")
    check("discover --measure: the sizes", all(s[axis] == [8, 32, 128] for s in device.get("matmul_surfaces", []) for axis in "mnk"), device)
    for sizes in ("8", "8,4", "8,,9", "8,x", "0,8", "8,9,"):
        expect(f"discover --measure of sizes {sizes}", 2, "--sizes: expected 2 to 16 ascending sizes", "discover", "--measure", "--sizes", sizes, env=alone)
    expect("discover measures nothing", 2, "--device-entry: expected --measure", "discover", "--device-entry", entry, env=alone)
    expect("discover measures with what computes nothing", 2, "it computes nothing", "discover", "--measure", "--backend", "timed", env=alone)
    expect("discover measures another device than computes", 2, "--backend cpu: expected cuda, which measures device h100-sxm", "discover", "--measure", "--device", "h100-sxm", "--backend", "cpu", env=alone)
    expect("discover measures in no such dtype", 2, "computes in fp32", "discover", "--measure", "--dtype", "bf16", env=alone)


def losses_of(result):
    return [json.loads(line)["loss"] for line in result.stdout.splitlines()[:-1]]


@seen_elsewhere
def orders(folder):
    """A plan in another order of the layers than the file's says so wherever it is shown, is checked over all orders, and runs; one in the
    file's order says nothing."""
    one, four, chain, bad = (folder / name for name in ("order-one.json", "order.json", "order-chain.json", "order-bad.json"))
    job = ["--batch", 8, "--dtype", "fp32", "--cluster", "1x4:a100-sxm-80", "--fix", "pp=4"]
    expect("a plan in its own order", 0, "order ideals", "plan", "tiny-encdec", *job, "-o", four)
    plan = json.loads(four.read_text())
    order = plan["decisions"].get("order")
    check("the plan names its order", order is not None, plan["decisions"])
    for verb, more in (("show", []), ("explain", ["--part", "versus"])):
        expect(f"{verb} names the order", 0, f"layers in the order {order}", verb, four, *more)
    expect("all orders are checked", 0, "order ideals", "check", four)
    expect("its own order against one rank's", 0, "stage 0", "plan", "tiny-encdec", "--batch", 8, "--dtype", "fp32", "--cluster", "1x1:cpu", "-o", one)
    wanted, found = (losses_of(run("run", path, "--steps", 3, "--json")) for path in (one, four))
    check("it learns what one rank learns", all(abs(a - b) < 1e-4 for a, b in zip(found, wanted, strict=True)), (found, wanted))
    plan["decisions"]["order"] = "0-1,6-8,2-5,9-14"
    bad.write_text(json.dumps(plan))
    expect("an order in which a layer comes before what it reads", 2, "expected layer 5.encoder before layer 8.cross_attention", "show", bad)
    towers, layer = folder / "towers.json", {"kind": "opaque", "forward_us": 100, "backward_us": 200, "parameters": 1000, "activation_elements": 1000}
    for count, height, planned, checked in some([
            (2, 12, "all orders of the layers", "in all orders of the layers") if SMALL else
            (2, 45, "all orders of the layers: 2118 order ideals", "in all orders of the layers: 2118 order ideals"),
            (4, 40, "other orders were not tried.*in whatever order no plan takes less than", "in other orders no plan is shorter than")]):
        rows = [{**layer, "name": f"{k}_{i}", "inputs": [f"{k}_{i - 1}" if i else "in"]} for k in range(count) for i in range(height)]
        out = {**layer, "name": "out", "inputs": [f"{k}_{height - 1}" for k in range(count)]}
        towers.write_text(json.dumps({"format": "cleave-model", "version": 1, "name": "towers", "sequence": 16,
                                      "layers": [{**layer, "name": "in"}, *rows, out]}))
        expect(f"orders of {count} towers", 0, planned, "plan", towers, *job, "-o", four)
        expect(f"what is said of the orders of {count} towers is checked", 0, checked, "check", four)
    expect("a chain", 0, "stage 3", "plan", "tiny-gpt", *job, "-o", chain)
    check("a chain has one order", "order" not in json.loads(chain.read_text())["decisions"] and "in the order" not in run("show", chain).stdout)


NAIVE = "pp=4,schedule=gpipe,micro-batch=8,recompute=none"


@seen_elsewhere
def four_ranks(folder):
    """Models that are no chains, whose values skip stages, experts shared out over ranks, a parameter server, and layers on devices of which
    one at a time computes: four ranks learn what one learns, over threads and over MPI, which of shares the first, a mixture and the server have."""
    for model, fixed, shown in some((("tiny-encdec", "pp=4", "stage 3"), ("tiny-uvit", "pp=4", "stage 3"), ("tiny-towers", "pp=4", "stage 3"),
                                     ("tiny-moe", "ep=4", "ep 4"), ("tiny-moe", "pp=2,ep=2", "ep 2"),
                                     ("tiny-gpt", "tp=1,pp=1,dp-by=ps", "ps 4"), ("tiny-gpt", NAIVE, "1 micro-batch of 8, gpipe"))):
        job = [model, "--batch", 8, "--dtype", "fp32"]
        one, four = folder / "one.json", folder / "four.json"
        expect(f"{model} on one rank", 0, "stage 0", "plan", *job, "--cluster", "1x1:cpu", "-o", one)
        expect(f"{model} with {fixed}", 0, shown, "plan", *job, "--cluster", "1x4:cpu", "--fix", fixed, "-o", four)
        expect(f"{model} with {fixed}: simulate", 0, "stage 0", "simulate", four)
        if fixed == NAIVE:
            alone, dealt = (json.loads(path.read_text())["predicted"] for path in (one, four))
            check("no overlap without micro-batches", dealt["step_s"] > alone["breakdown_s"]["compute"] > dealt["breakdown_s"]["compute"] * 2, dealt)
        wanted = losses_of(run("run", one, "--steps", 3, "--json"))
        for transport in ("threads", "mpi") if ALL or (model, fixed) in (("tiny-encdec", "pp=4"), ("tiny-moe", "ep=4"), ("tiny-gpt", "tp=1,pp=1,dp-by=ps")) else ("threads",):
            result = run("run", four, "--steps", 3, "--json", "--transport", transport, "-n", 4)
            if transport == "mpi" and result.returncode == 1 and "mpi" in result.stderr.lower():
                continue  # not built, or no launcher here
            close = result.returncode == 0 and all(abs(a - b) < 1e-4 for a, b in zip(losses_of(result), wanted, strict=True))
            check(f"{model} with {fixed}: {transport} as on one rank", close, result)


def lists(_folder):
    for verb, first in (("dimensions", "none"), ("schedules", "1f1b")):
        rows = json.loads(run(verb, "--json").stdout)[verb]
        shown = run(verb).stdout
        check(f"{verb}: both forms name all", rows[0]["name"] == first and all(re.search(rf"^{re.escape(r['name'])} ", shown, re.M) for r in rows), shown)


def steady(folder):
    """Runs that count on a machine whose speed changes; which those are shows tests/test_compare.c."""
    plan, profile = folder / "steady.json", folder / "slow-profile.json"
    run("plan", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", 8, "--seq", 16, "--dtype", "fp32", "-o", plan)
    job = ["compare", plan, "--run", "--steps", 2, "--rounds", 1, "--markdown", folder / "steady.md", "--report", folder / "steady.html"]
    done = expect("compare --steady", 0, '"reference_product_s"', *job, "--steady", 1000, "--json")
    report = json.loads(done.stdout)
    row = report["plans"][0]
    check("how many runs counted", (row["runs"], row["runs_left_out"], row["timed_steps"]) == (1, 0, 1) and 0 < report["reference_product_s"] < 100 and
          report["profile_reference_product_s"] is None and report["reference_drift"] < 10, done)
    words = "0 of 1 runs left out"
    check("and it is said", all(words in text for text in (done.stderr, report["provenance"]["runs"], (folder / "steady.md").read_text(),
                                                          (folder / "steady.html").read_text())), done)
    never = expect("never steady", 1, r"error: --steady 1e-09: the machine was not steady: in 1 round the .* holds 0 of 1 runs, 1 too few for 1 of each plan: run it again",
                   *job, "--steady", 1e-9)
    check("and nothing is shown", never.stdout == "", never)
    profile.write_text(json.dumps({"format": "cleave-profile", "version": 1, "dtype": "fp32", "reference_ns": 1000}))
    slower = "note: the machine is slower than when the profile was made: .*profile again"
    result = expect("compare at another speed", 0, '"plans"', *job, "--profile", profile, "--json")
    check("says so", abs(json.loads(result.stdout)["profile_reference_product_s"] - 1e-6) < 1e-15 and re.search(slower, result.stderr) and "slower than when the profile" in (folder / "steady.md").read_text(), result)
    result = expect("run at another speed", 0, "median step", "run", plan, "--profile", profile, "--steps", 1)
    check("says so, too", re.search(slower, result.stderr), result)
    expect("steady at another speed", 1, "not as fast as when the profile was made.*takes [1-9][^;]* now; 0 of 1 runs agree with the profile.*profile again", *job,
           "--profile", profile, "--steady", 1000)


def historical(_folder):
    job = ["compare", "--auto", "tiny-gpt", "--cluster", "1x4:cpu", "--batch", 8, "--dtype", "fp32", "--json"]
    times = {p["name"].removesuffix(" (same plan)"): p["predicted_step_s"] for p in json.loads(run(*job, "--historical").stdout)["plans"]}
    check("compare --historical", times["parameter server"] > times["data parallel"] and times["layers on devices"] > times["pipeline, GPipe"], times)
    check("not unless asked for", "parameter server" not in run(*job).stdout)
    result = run(*job[:-1])
    check("what a star marks", "\n* cleave's choice; the others are searched without recomputation, but for ZeRO-3\n" in result.stdout, result)
    result = run(*job[:6], 3, "--dtype", "fp32")
    check("kinds of plan that cannot be", "left out: data parallel (the model, batch and devices have no such configuration)" in result.stderr, result)
    small = run("compare", "--auto", "gpt2", "--cluster", "1x2:h100-sxm", "--batch", 2, "--reserve", "98%")
    check("kinds of plan that do not fit", "left out: data parallel (nothing of this kind fits in memory)" in small.stderr, small)
    expect("dp-by", 2, "dp-by: expected one of dp, ps; found 'rp'", "plan", "tiny-gpt", "--cluster", "1x4:cpu", "--batch", 8, "--fix", "dp-by=rp")


def explains(folder):
    plan, small = folder / "explained.json", ["--cluster", "1x2:cpu", "--batch", 8, "--seq", 16, "--dtype", "fp32"]
    run("plan", "tiny-gpt", *small, "-o", plan)
    draws = 1 if SMALL else 2
    shown = r"time of one step by stage.*memory of one device by stage.*room that is left.*"
    shown += "robustness" if SMALL else "why not another.*what if.*what binds.*robustness"
    expect("explain", 0, shown, "explain", plan, "--draws", 1, *(["--part", "robustness"] if SMALL else []))
    answer = run("explain", plan, "--json", "--draws", draws, "--versus", "tp=2", "--versus", "dp=2,zero=0")
    found = json.loads(answer.stdout)
    for stage in found["stages"]:
        check("explain: time adds up to the step", abs(sum(stage["time_s"].values()) - found["step_s"]) < 1e-8)
        check("explain: memory adds up to the peak", sum(stage["memory_bytes"].values()) == stage["peak_bytes"])
    for other in found["versus"] + found["alternatives"]:
        if other["result"] == "plan":
            check("explain: differences add up", abs(sum(other["difference_s"].values()) - (other["step_s"] - found["step_s"])) < 1e-8)
    check("explain: versus", [v["kind"] for v in found["versus"]] == ["tp=2", "dp=2,zero=0"] and found["versus"][0]["plan"]["tp"] == 2, answer)
    check("explain: regrets", all(0 <= r["regret_mean"] <= r["regret_max"] and r["draws"] == draws for r in found["robustness"]), answer)
    check("explain: complete", found["complete"] is True)
    check("explain --json as described", described("explanation", found) and described("explanation.plan", found["plan"])
          and described("explanation.stage", found["stages"][0]) and described("explanation.alternative", found["versus"][0])
          and described("explanation.what_if", found["what_if"][0]) and described("explanation.robustness", found["robustness"][0]), answer)
    if not SMALL:
        check("explain repeats", answer.stdout == run("explain", plan, "--json", "--draws", draws, "--versus", "tp=2", "--versus", "dp=2,zero=0").stdout)
        few = json.loads(run("explain", plan, "--json", "--part", "versus").stdout)
        check("explain --part", not few["alternatives"] and not few["what_if"] and not few["robustness"])
    model = json.loads(run("explain", "tiny-gpt", *small, "--json", "--part", "versus").stdout)
    check("explain MODEL: the plan that plan chooses", model["plan"] == found["plan"] and model["step_s"] == found["step_s"])
    ended = json.loads(run("explain", plan, "--json", "--time-limit", "1e-6").stdout)
    check("explain: ends early", ended["complete"] is False and ended["stages"])
    nothing = run("explain", "gpt2", "--cluster", "1x8:a100-sxm-80", "--batch", 63, "--fix", "dp=8", "--json")
    report = json.loads(nothing.stdout)
    check("explain: what excludes each other", nothing.returncode == 3 and report["constraints"] == ["dp", "batch"] and report["irreducible"], nothing)
    check("explain: what would do", {c["name"]: c["value"] for c in report["changes"] if c["found"]} == {"dp": None, "batch": 64}, nothing)
    check("infeasible as described", described("infeasible", report) and described("infeasible.change", report["changes"][0]), nothing)
    if not SMALL:
        alike = ["explain", "gpt2", "--cluster", "1x7:a100-sxm-80", "--batch", 5, "--part", "versus", "--versus", "zero=3"]
        expect("explain: no difference is a difference too", 0, r"zero=3: .*\(\+0\.0 %\) .*\n +as long in each item; peak ", *alike)
    text = run("explain", "gpt2", "--cluster", "1x8:a100-sxm-80", "--batch", 63, "--fix", "dp=8")
    check("explain: for people", text.returncode == 3 and re.search("dp=8, by --fix.*64 instead of 63", text.stdout, re.S), text)
    for arguments, pattern in [
            (["explain", "tiny-gpt"], "no such plan file.*--cluster and --batch"),
            (["explain", plan, "--part", "all"], "--part: expected one of versus, alternatives, what-if, robustness; found 'all'"),
            (["explain", plan, "--seq", 8], "--seq belongs to a model; .* is a plan, which has its own .explain a model: give --batch too"),
            (["explain", plan, "--optimizer", "sgd"], "--optimizer belongs to a model"), (["compare", plan, "--clip", 0], "--clip belongs to a model"), (["compare", plan, "--schedule", "1f1b"], "--schedule is of searches"),
            (["compare", "--from", "megatron-lm=x", "--space", "tp=1"], "--space is of searches"), (["compare", plan, "--batch", 8], "--batch belongs to"),
            (["compare", plan, "--moments", "bf16"], "--moments belongs to a model; .*compare --auto MODEL"),
            (["explain", plan, "--versus", "zeor=2", "--part", "what-if"], "--versus: unknown key 'zeor'; did you mean zero"),
            (["explain", plan, "--cluster", "1x4:cpu"], "made for cluster 1x2:cpu"),
            (["explain", plan, "--model", "tiny-llama"], "made for model")]:
        expect(f"cleave {' '.join(map(str, arguments))}", 2, pattern, *arguments)
    moved = folder / "moved.json"
    moved.write_text(plan.read_text().replace('"profile": null', '"profile": {"source": "gone.json", "name": "x", "hash": "0123456789abcdef"}'))
    for verb in ("explain", "check"):
        expect(f"{verb}: the profile is gone", 2, "made with the profile gone.json, which cannot be read; give it with --profile", verb, moved)


def processes(folder):
    """Ranks as processes, from one command: the losses of threads to the last bit, and profiles."""
    plan, wanted = folder / "two.json", None
    expect("a plan for two", 0, "stage 0", "plan", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", 8, "--seq", 16, "--dtype", "fp32", "-o", plan)
    for transport in ("threads", "tcp", "mpi"):
        result = run("run", plan, "--steps", 3, "--json", "--transport", transport, "-n", 2)
        measured = (ALL or transport == "threads") and run("profile", "tiny-gpt", "-n", 2, "--seq", 16, "--batch", 8, "--transport", transport, "--time-limit", 1, "-o",
                       folder / "measured.json")
        if transport == "mpi" and result.returncode == 1 and "mpi" in result.stderr.lower():
            continue  # not built, or no launcher here
        wanted = wanted or losses_of(result)
        check(f"{transport}: the losses of threads", result.returncode == 0 and losses_of(result) == wanted, result)
        if measured:
            profile = json.loads((folder / "measured.json").read_text()) if measured.returncode == 0 else {}
            check(f"profile over {transport}", profile.get("transport") == transport and profile["collectives"], measured)
        (folder / "measured.json").unlink(missing_ok=True)
    wrong = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "CLEAVE_JOB_TOKEN": ""}
    expect("tcp: an empty token", 2, "CLEAVE_JOB_TOKEN: expected 1 to", "run", plan, "--transport", "tcp", env=wrong)
    expect("tcp: an address of another host", 1, "rank 0, which must listen .*cannot listen on 192.0.2.1", "run", plan, "--transport", "tcp",
           env={**wrong, "CLEAVE_JOB_TOKEN": "t", "MASTER_ADDR": "192.0.2.1"})
    expect("tcp: wrong count", 2, "the plan is for 2 ranks, torchrun started 3", "run", plan, "--transport", "tcp", env={**wrong, "WORLD_SIZE": "3"})


@seen_elsewhere
def early(folder):
    """What cannot be written is said before the work, and nothing is left behind."""
    plan = folder / "two.json"
    (folder / "a-file").write_text("")
    before = sorted(os.listdir(folder))
    for name, words in {"timeline": ["run", plan, "--timeline"], "checkpoint": ["run", plan, "--checkpoint"],
                        "report": ["compare", plan, "--run", "--report"], "markdown": ["compare", plan, "--markdown"],
                        "trace": ["simulate", plan, "--trace"], "program": ["simulate", plan, "--program"],
                        "profile": ["profile", "tiny-gpt", "-n", 1, "-o"],
                        # before the search: these would find nothing
                        "plan": ["plan", "gpt3-175b", "--cluster", "1x1:a100-sxm-80", "--batch", 1, "-o"],
                        "estimate": ["estimate", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", 7, "--micro-batch", 2, "--dp", 2, "-o"]}.items():
        result = expect(f"{name}: no folder", 1, "does not exist", *words, folder / "no" / "file")
        check(f"{name}: nothing was done", result.stdout == "", result)
    expect("timeline: not a folder", 1, "Not a directory", "run", plan, "--timeline", folder / "a-file" / "file")
    expect("timeline: a folder", 2, "found a directory", "run", plan, "--timeline", folder)
    expect("checkpoint: a file", 2, "expected a folder, found a file", "run", plan, "--checkpoint", folder / "a-file")
    check("nothing is left behind", sorted(os.listdir(folder)) == before)
    shown = run("show", plan, "--json").stdout
    check("show --json is the file itself", shown == plan.read_text() and json.loads(shown)["predicted"]["step_s"] > 0)
    doctor = json.loads(run("doctor", "--json").stdout)
    check("doctor --json", doctor["format"] == "cleave-doctor" and {m["name"] for m in doctor["modules"]} == {"mpi", "cuda"})
    built = pathlib.Path(CLEAVE).resolve().parent.parent / "executor"
    check("doctor --json: a module that was built is loaded", all(m["found"] or not (built / f"cleave-{m['name']}.so").exists() for m in doctor["modules"]), doctor["modules"])
    check("doctor --json: each is there or has a reason", all(doctor[what].get("description" if doctor[what]["found"] else "reason") for what in ("gpu", "nccl", "cupti")), doctor)
    expect("one valid batch size", 2, "the smallest valid size is 2", "estimate", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", 1, "--dp", 2,
           "--micro-batch", 1)


@seen_elsewhere
def outputs(folder):
    args = ["plan", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", 8, "--seq", 16, "--dtype", "fp32", "-o"]
    result = expect("unwritable folder", 1, "cannot|No such|denied|Not a directory", *args, folder / "no" / "plan.json")
    check("nothing on stdout after a failure", result.returncode == 1)
    if os.path.exists("/dev/full"):
        expect("full disk", 1, "space|write", *args, "/dev/full")
    before = sorted(os.listdir(folder))
    run("plan", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", "x", "-o", folder / "never.json")
    check("no partial file after a failure", sorted(os.listdir(folder)) == before)


@seen_elsewhere
def fills(_folder):
    """Where the bytes of the fullest device go: they add up, and what does not fit ends with 3 and says what is largest."""
    units = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}

    def account(text):
        lines = re.findall(r"^    (\w+) +([\d.]+) (B|KiB|MiB|GiB)  ", text, re.M)
        return {name: float(number) * units[unit] for name, number, unit in lines}
    job = ["estimate", "gpt2", "--cluster", "1x8:a100-sxm-80", "--batch", 64, "--micro-batch", 8, "--zero", 1]
    done = run(*job)
    bytes_of = account(done.stdout)
    together, reserve = bytes_of.pop("together", 0), bytes_of.pop("reserve", 0)
    check("bytes add up", done.returncode == 0 and abs(sum(bytes_of.values()) / together - 1) < 0.01, done)
    peak = max(json.loads(run(*job, "--json").stdout)["predicted"]["peak_bytes"])
    check("to the peak", abs(together / peak - 1) < 0.01 and {"weights", "optimizer", "gradients", "activations", "logits"} <= bytes_of.keys(), done)
    check("beside the reserve", reserve == 3 * 2**30, done)
    short = run("plan", "gpt2", "--cluster", "1x8:a100-sxm-80", "--batch", 64)
    check("plan names the largest", re.search(r"stage 0, which has least room: activations [\d.]+ GiB, logits", short.stdout), short)
    tight = ["estimate", "llama-3-70b", "--cluster", "1x8:a100-sxm-80", "--batch", 8, "--micro-batch", 1, "--tp", 8]
    lacks = expect("an estimate that does not fit", 3, r"does not fit: stage 0 needs \d+ GiB of 77.0 GiB, \d+ GiB too much; most of it are optimizer", *tight)
    check("has its price all the same", "step" in lacks.stdout and "DOES NOT FIT" in lacks.stdout, lacks)
    silent = run(*tight, "--json")
    check("and its plan", silent.returncode == 3 and json.loads(silent.stdout)["predicted"]["fits"] is False, silent)


@seen_elsewhere
def frameworks(folder):
    """A plan keeps what runs it: predicted, checked, explained and run as such, under cleave's own name as without."""
    plan, own, words = folder / "framework.json", folder / "own.json", ["tiny-gpt", "--cluster", "1x2:cpu", "--batch", 8]
    report = {name: json.loads(run("plan", *words, *(["--framework", name] if name else []), "--json", "-o", path).stdout)["predicted"]
              for name, path in (("megatron-lm", plan), ("cleave", own), (None, folder / "none.json"))}
    check("cleave is what runs a plan anyway", own.read_text() == (folder / "none.json").read_text())
    check("a framework takes its time", report["megatron-lm"]["step_s"] > report["cleave"]["step_s"] and
          report["megatron-lm"]["breakdown_s"]["issue"] > 0 == report["cleave"]["breakdown_s"].get("issue", 0), report)
    check("the plan names it", json.loads(plan.read_text())["context"]["framework"]["source"] == "megatron-lm")
    simulated = json.loads(expect("simulate under a framework", 0, "", "simulate", plan, "--json").stdout)
    check("simulated as predicted", simulated["step_s"] == report["megatron-lm"]["step_s"], simulated)
    expect("check under a framework", 0, "as it says", "check", plan)
    explained = run("explain", plan, "--part", "versus", "--versus", "zero=3")
    check("explain seeks where plan did", explained.returncode == 0 and "note" not in explained.stderr and "issue" in explained.stdout, explained)
    expect("run what a framework's plan says", 0, "loss", "run", plan, "--steps", 1)
    estimate = ["estimate", *words, "--recompute", "full", "-o", folder / "full.json"]
    run(*estimate, "--framework", "megatron-lm")
    selective = ["estimate", *words, "--recompute", "selective", "-o", folder / "selective.json", "--framework"]
    for framework, extra, decided in (("torchtitan", [], ("block", "q+v+gate+down+core")), ("megatron-lm", [], ("selective", None)),
                                      ("torchtitan", ["--recompute-except", "q"], ("selective", "q"))):
        run(*selective, framework, *extra)
        check(f"selective by {framework} {extra}", {(layer["recompute"], layer.get("recompute_except")) for layer in json.loads((folder / "selective.json").read_text())["decisions"]["layers"]} == {decided})
    check("full is of blocks there", {layer["recompute"] for layer in json.loads((folder / "full.json").read_text())["decisions"]["layers"]} == {"block"})
    fsdp = run(*estimate, "--framework", "torchtitan").stdout
    check("a framework's bucket is the usual one", "gradient buckets without a limit" in fsdp, fsdp)
    expect("what is asked for goes over it", 0, "gradient buckets of 4.00 MiB", *estimate, "--framework", "torchtitan", "--fix", "bucket=4MiB")
    expect("no such framework", 2, "framework 'megatron-x': neither a file nor a framework of the catalogue; did you mean megatron-lm|which has: .*megatron-lm",
           "estimate", *words, "--framework", "megatron-x")
    bad = folder / "bad.json"
    bad.write_text('{"description": "d", "source": "s", "passes": 0.5}')
    expect("a framework's number out of range", 2, "bad.json:1:.*passes", "estimate", *words, "--framework", bad)
    bad.write_text('{"description": "d", "source": "s", "selective_keeps": "q+qq"}')
    expect("no such operators", 2, r"selective_keeps: expected operators joined by \+, such as q\+k\+v, found .q\+qq", "estimate", *words, "--framework", bad)
    gone = json.loads(plan.read_text())
    gone["context"]["framework"]["source"] = "nobody-knows-it"
    moved = folder / "moved-framework.json"
    moved.write_text(json.dumps(gone))
    expect("a plan's framework is gone", 2, "context.framework|framework 'nobody-knows-it'", "show", moved)


main(usage, wrong_usages, nothing_divides, bad_models, bad_clusters, plans, types, discovers, four_ranks, orders, historical, steady, lists, explains, processes, early, outputs, fills, frameworks)
