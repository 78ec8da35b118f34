#!/usr/bin/env python3
"""A plan that lies in another folder, whose model's file is gone: it holds the model's description, and nothing else is read.

usage: test_cli_moved.py CLEAVE SOURCE_ROOT
"""
import json
from calls import ROOT, check, expect, main, run, seen_elsewhere

JOB = ["--cluster", "1x2:cpu", "--batch", 8, "--seq", 16, "--dtype", "fp32"]


def moved(folder):
    home, away = folder / "home", folder / "away"
    home.mkdir()
    away.mkdir()
    (home / "m.json").write_text((ROOT / "models/zoo/tiny-gpt.json").read_text())
    expect("plan", 0, "micro-batch", "plan", "m.json", *JOB, "--fix", "dp=2,micro-batch=2", "-o", "plan.json", cwd=home)
    text = (home / "plan.json").read_text()
    (home / "plan.json").rename(away / "plan.json")
    (home / "m.json").unlink()
    for verb in (["show"], ["check"], ["simulate"], ["explain"], ["run", "--steps", 1]):
        expect(f"{verb[0]} of a plan that moved", 0, "", *verb, "plan.json", cwd=away)
    check("show --json writes the description again", run("show", "plan.json", "--json", cwd=away).stdout == text)
    plan = json.loads(text)
    check("the file says the micro-batch", plan["decisions"]["micro_batch_size"] == 2 and plan["decisions"]["micro_batches"] == 2, None)
    expect("so does the first line", 0, r"^[^\n]*2 micro-batches of 2 per replica", "show", "plan.json", cwd=away)

    def wrong(name, change, pattern):
        other = json.loads(text)
        change(other)
        (away / "other.json").write_text(json.dumps(other, indent=1))
        return expect(name, 2, pattern, "show", "other.json", cwd=away)

    wrong("a description changed by hand", lambda p: p["context"]["model"]["description"].update(sequence=17), "the description beside it has hash")
    wrong("a description that is none", lambda p: p["context"]["model"].update(description=7), r"description: expected a model, found")
    wrong("a description with a typing error", lambda p: p["context"]["model"]["description"].update(hidden="x"), "description.hidden: expected an integer")
    wrong("a micro-batch that does not follow", lambda p: p["decisions"].update(micro_batch_size=4), "micro_batch_size: expected 2")
    # files of before: a name is read as always, a path to elsewhere is not
    (folder / "secret.json").write_text("secret words")
    (away / "a,").mkdir()  # a comma parts names of profiles, and may stand in a path
    for source in ("../secret.json", str(folder / "secret.json"), "a,/../../secret.json", "-"):
        result = wrong(f"an old plan that names {source}",
                       lambda p: (p["context"]["model"].pop("description"), p["context"]["model"].update(source=source)), "give --model")
        check("no message quotes a foreign file", "secret words" not in result.stderr, result)
    expect("the model by hand", 0, "2 devices", "show", "other.json", "--model", "tiny-gpt", cwd=away)
    for key in ("cluster", "profile", "framework"):
        for source in ("../secret.json", str(folder / "secret.json"), "a,/../../secret.json") + ((f"other.json,{folder}/secret.json",) if key == "profile" else ()):
            result = wrong(f"a plan whose {key} is {source}",
                           lambda p: p["context"].update({key: {"source": source, "name": "x", "hash": "0123456789abcdef"}}),
                           rf"context\.{key}: \S+ is not in the plan's folder, and it cannot be taken")
            check(f"no message quotes a foreign {key}", "secret" not in result.stderr.replace("secret.json", ""), result)
    old = json.loads(text)
    del old["context"]["model"]["description"], old["decisions"]["micro_batch_size"]
    old["context"]["model"]["source"] = "tiny-gpt"
    (away / "old.json").write_text(json.dumps(old))
    expect("an old plan", 0, "2 devices", "show", "old.json", cwd=away)


LAUNCHES = {  # of each source: what names a file, the file's ending, what it says, and what cannot be
    "deepspeed": ("deepspeed --num_gpus 2 train.py --deepspeed {}\n", "json", '{"zero_optimization": {"stage": 1}, "auths": {"words": "secret"}}', ": 1"),
    "accelerate": ("accelerate launch --config_file {} train.py\n", "yaml",
                   "distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n  fsdp_version: 2\nauths:\n  words: secret\n", ": 2"),
    "torchtitan": ("torchrun --nproc_per_node 2 train.py --job.config_file {}\n", "toml", "[training]\nseq_len = 16\n[auths]\nwords = 'secret'\n", "= 16"),
    "nnscaler": ("torchrun train.py -f {}\n", "yaml",
                 "compute_config:\n  plan_ngpus: 1\n  runtime_ngpus: 2\n  use_end2end: true\nauths:\n  words: secret\n", ": 2"),
}


@seen_elsewhere
def launched(folder):
    """A launch that names a file: what is not understood there is shown if the file lies with the launch, and counted if not."""
    sent = folder / "sent"
    (sent / "a,").mkdir(parents=True)
    for target, (words, end, says, number) in LAUNCHES.items():
        job = ["estimate", "--from", target, "sent/run.sh", "--model", "tiny-llama", "--cluster", "1x2:cpu", "--batch", 16, "--seq", 16, "--dtype", "fp32"]
        for name in ("near", "../far", str(folder / "far"), "a,/../../far", "link"):
            (folder / f"far.{end}").write_text(says)
            (sent / f"near.{end}").write_text(says)
            if not (sent / f"link.{end}").exists():
                (sent / f"link.{end}").symlink_to(folder / f"far.{end}")
            (sent / "run.sh").write_text(words.format(f"{name}.{end}"))
            for more in ((), ("--json",)):
                result = run(*job, *more, cwd=folder)
                said = result.stdout + result.stderr
                shown = "auths" in said or "secret" in said
                check(f"{target}: {name} is read", result.returncode in (0, 3), result)
                check(f"{target}: {name}: what is not understood", shown if name == "near" else not shown and "settings of files outside of its folder" in said, result)
            (folder / f"far.{end}").write_text(says.replace(number, number[:2] + "secret"))
            if name != "near":
                result = run(*job, cwd=folder)
                check(f"{target}: {name} cannot be taken", result.returncode == 2 and "which is not in its folder and cannot be taken" in result.stderr
                      and "auths" not in result.stderr and "secret" not in result.stderr, result)
    far = '{"deepspeed": "secret.json"}'  # names a file itself
    (folder / "far.json").write_text(far)
    (sent / "run.sh").write_text("deepspeed train.py --deepspeed ../far.json\n")
    result = run("estimate", "--from", "deepspeed", "sent/run.sh", "--model", "tiny-gpt", "--cluster", "1x2:cpu", cwd=folder)
    check("a file elsewhere that names another", result.returncode == 2 and "secret" not in result.stderr, result)


main(moved, launched)
