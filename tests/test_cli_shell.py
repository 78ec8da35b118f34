#!/usr/bin/env python3
"""Manual pages and completion, which come from the option tables, as the programs read them that they are for: bash, and zsh,
fish, groff and mandoc where they are installed. usage: test_cli_shell.py CLEAVE SOURCE_ROOT"""
import re
import shutil
import subprocess

from calls import check, expect, main, run, seen_elsewhere

VERBS = re.findall(r"^  (\w+) {2,}", run("--help").stdout, re.M)
OFFERS = {  # what stands on the line, and what must be among the offers; "!": must not
    "cleave ": ["plan", "export"],
    "cleave ex": ["explain", "export", "!plan"],
    "cleave plan --tar": ["--target"],
    "cleave plan config.json --target meg": ["megatron-lm", "megatron-bridge", "!torchtitan"],
    "cleave plan llama-3-7": ["llama-3-70b"],
    "cleave export plan.json --to t": ["torchtitan"],
    "cleave estimate gpt2 --recompute s": ["selective"],
    "cleave estimate gpt2 --zero ": ["0", "3"],
    "cleave run plan.json --cp-by ": ["!cp-ring"],
    "cleave plan gpt2 --dtype b": ["bf16"],
    "cleave plan gpt2 --framework torchtitan-": ["torchtitan-compile"],
    "cleave explain pl": ["plan.json"],
    "cleave export pl": ["plan.json"],
    "cleave plan gpt2 -o pl": ["plan.json"],
    "cleave help va": ["validate"],
}


def hold(shell, line, offers, done):
    for wanted in OFFERS[line]:
        absent = wanted.startswith("!")
        check(f"{shell}: '{line}' offers {wanted}", (wanted.lstrip("!") in offers) != absent, done)


def bash(folder):
    (folder / "plan.json").write_text("{}")
    (folder / "completion").write_text(run("--completion", "bash").stdout)
    for line in [*OFFERS, "cleave plan gpt2 --dtype = b"]:  # the last as bash parts --dtype=b
        words = line.split(" ")
        script = f"set -u; . ./completion; COMP_WORDS=({' '.join(repr(w) for w in words)}); COMP_CWORD={len(words) - 1}; _cleave; printf '%s\\n' \"${{COMPREPLY[@]:-}}\""
        done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False)
        check(f"bash takes '{line}'", done.returncode == 0 and not done.stderr, done)
        if line in OFFERS:
            hold("bash", line, done.stdout.split(), done)
        else:
            check("bash: a value behind a sign", done.stdout.split() == ["bf16"], done)
    check("bash is what is written without a name", run("--completion").stdout == run("--completion", "bash").stdout)
    expect("another shell", 2, "expected bash, zsh or fish, found 'tcsh'", "--completion", "tcsh")


def fish(folder):
    if not shutil.which("fish"):
        print("skipped: fish is not installed")
        return
    (folder / "plan.json").write_text("{}")
    (folder / "completion").write_text(run("--completion", "fish").stdout)
    for line in OFFERS:
        done = subprocess.run(["fish", "--no-config", "-c", f"source completion; complete -C '{line}'"], cwd=folder, capture_output=True, text=True, check=False)
        check(f"fish takes '{line}'", done.returncode == 0 and not done.stderr, done)
        if not line.startswith("cleave help"):
            hold("fish", line, [offer.split("\t")[0] for offer in done.stdout.splitlines()], done)


def zsh(folder):
    """What it is told of verbs and options: how it completes with that is its own affair, and needs a terminal."""
    if not shutil.which("zsh"):
        print("skipped: zsh is not installed")
        return
    (folder / "_cleave").write_text(run("--completion", "zsh").stdout)
    told = {
        ("cleave", ""): ["plan:chooses the best plan for a model on a cluster"],
        ("cleave", "plan", ""): ["--target=[", ":TARGET:(megatron-lm ", "(-o --output)-o", "*:operand: _cleave_name_or_file bert-large", "--json["],
        ("cleave", "export", "plan.json", "--to", ""): ["--to=[megatron-lm, torchtitan, ...\\: what the plan is for]:TARGET:(megatron-lm ", "*:operand:_files"],
    }
    for words, wanted in told.items():
        script = f"""_describe() {{ print -rl -- $verbs }}
_arguments() {{ print -rl -- "$@" }}
words=({" ".join(f"'{word}'" for word in words)}) CURRENT={len(words)}
. ./_cleave"""
        done = subprocess.run(["zsh", "-f", "-c", script], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
        check(f"zsh takes {words}", done.returncode == 0 and not done.stderr, done)
        for offer in wanted:
            check(f"zsh is told {offer}", offer in done.stdout, done)


@seen_elsewhere
def man_pages(folder):
    for verb in [None, *VERBS]:
        name = f"cleave-{verb}" if verb else "cleave"
        page = expect(f"page of {name}", 0, rf"\.TH {name.upper()} 1", "--man-page", *([verb] if verb else [])).stdout
        (folder / f"{name}.1").write_text(page)
        options = re.findall(r"--([a-z][a-z-]*)", run(verb, "--help").stdout.split("\noptions:")[1]) if verb else ["completion"]
        check(f"{name} has every option", all(f"--{option}".replace("-", r"\-") in page for option in options))
    check("the program's page names every verb", all(f"cleave\\-{verb} (1)" in (folder / "cleave.1").read_text() for verb in VERBS))
    for reader in (["groff", "-ww", "-man", "-Tutf8"], ["man", "--warnings", "-l"], ["mandoc", "-Tlint", "-Wwarning"]):
        if not shutil.which(reader[0]):
            print(f"skipped: {reader[0]} is not installed")
            continue
        done = subprocess.run([*reader, *sorted(map(str, folder.glob("*.1")))], capture_output=True, text=True, check=False,
                              env={"PATH": "/usr/bin:/bin", "MANWIDTH": "100", "LC_ALL": "C.UTF-8", "PAGER": "cat"})
        said = [line for line in (done.stdout if reader[0] == "mandoc" else done.stderr).splitlines() if "missing date" not in line]
        check(f"{reader[0]} reads the pages", not said, done)
    expect("page of no verb", 2, "did you mean 'plan'", "--man-page", "plam")


if __name__ == "__main__":
    main(bash, fish, zsh, man_pages)
