#!/usr/bin/env python3
"""Names in files never command a terminal: what verbs say and write holds no control byte and is UTF-8. usage: test_cli_shown.py CLEAVE SOURCE_ROOT"""
import json
import os
import pty
import subprocess

from calls import CLEAVE, ROOT, check, main, run

# As they stand in files: ESC, BEL, DEL, CR, backspace, C1 as a character, C1 as a byte, a cut character, an overlong one.
HOSTILE = [b"\x1b[2J", b"\x07", b"\x7f", b"\r", b"\b", b"\xc2\x9b2J", b"\x9b2J", b"\xe2\x82", b"\xc0\x9b"]


def is_plain(data):
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    return not any((ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) <= 0x9F for c in text)


def look(name, *words):
    """What the verb says on both streams."""
    result = subprocess.run([CLEAVE, *map(str, words)], capture_output=True, timeout=120)
    check(f"{name}: {result.stdout[-300:]} {result.stderr[-300:]}", is_plain(result.stdout) and is_plain(result.stderr) and 0 <= result.returncode < 5)
    return result


def names_in_json(folder):
    """Both as bytes and as JSON escapes, in keys, names and values."""
    model, plan = (ROOT / "models/zoo/tiny-gpt.json").read_bytes(), folder / "plan.json"
    words = ["--cluster", "1x2:cpu", "--batch", 8, "--seq", 16]
    for i, bad in enumerate(HOSTILE):
        for how, raw in (("byte", bad), ("escape", json.dumps(bad.decode("latin-1"))[1:-1].encode())):
            file = folder / f"{how}{i}.json"
            for where, text in (("name", model.replace(b'"name": "tiny-gpt"', b'"name": "a' + raw + b'"')), ("key", model.replace(b'"hidden"', b'"hid' + raw + b'den"')),
                                ("value", model.replace(b"gelu", raw)), ("number", model.replace(b" 64,", raw + b","))):
                file.write_bytes(text)
                said = look(f"model {how} {bad} {where}", "plan", file, *words, "-o", plan)
                if said.returncode == 0:
                    look(f"plan {how} {bad}", "show", plan)
                    look(f"check {how} {bad}", "check", plan)
                    report, markdown = folder / "report.html", folder / "report.md"
                    look(f"compare {how} {bad}", "compare", plan, "--report", report, "--markdown", markdown)
                    for written in (report, markdown, plan):
                        check(f"{written.name} of {how} {bad}", is_plain(written.read_bytes()))
            for option in ("--cluster", "--profile"):
                file.write_bytes(b'{"format": "cleave-' + option[2:].encode() + b'", "version": 1, "na' + raw + b'me": "' + raw + b'"}')
                look(f"{option} {how} {bad}", "plan", "tiny-gpt", *([] if option == "--cluster" else words[:2]), option, file, *words[2:])


def names_elsewhere(folder):
    for i, bad in enumerate(HOSTILE):
        file = folder / f"rows{i}.csv"
        file.write_bytes(b"id,model,ga" + bad + b"pu,step_ms\n1," + bad + b"," + bad + b",1\n")
        look(f"rows {bad}", "validate", file)
        script = folder / f"launch{i}.sh"
        script.write_bytes(b"torchrun pretrain_gpt.py --num-layers " + bad + b" --" + bad + b" 1 --seq-length 64\n")
        look(f"launch {bad}", "estimate", "--from", b"megatron-lm=".decode() + str(script))
        look(f"word {bad}", "plan", os.fsdecode(bad), "--cluster", os.fsdecode(bad), "--batch", 8)
        look(f"verb {bad}", os.fsdecode(bad))
        path = folder / os.fsdecode(b"x" + bad)
        path.write_bytes(b"{}")
        look(f"path {bad}", "show", path)


def no_line_of_ours(folder):
    """A name or a value with a new line in it does not begin a line that looks like one of the program."""
    model, file, bad = (ROOT / "models/zoo/tiny-gpt.json").read_bytes(), folder / "lines.json", b"a\\nerror: forged"
    raw = bad.decode().replace("\\n", "\n")
    words = ["--cluster", "1x2:cpu", "--batch", 8, "--seq", 16]
    for where, text in (("name", model.replace(b'"name": "tiny-gpt"', b'"name": "' + bad + b'"')), ("key", model.replace(b'"hidden"', b'"' + bad + b'"')), ("value", model.replace(b"gelu", bad))):
        check(f"there is one: {where}", text != model)
        file.write_bytes(text)
        for verb in ("plan", "recommend", "import"):
            said = look(f"line in a {where} {verb}", verb, file, *(words if verb != "import" else []))
            check(f"line in a {where} {verb}: {said.stdout} {said.stderr}", said.returncode == 2 and b"\nerror: forged" not in said.stdout + said.stderr)
    (folder / "forged.sh").write_text(f"torchrun pretrain_gpt.py --num-layers '{raw}' --tokenizer-model '{raw}' '--{raw}' 1 --seq-length 64\n")
    (folder / "forged.toml").write_text('[model]\nname = "llama3"\nflavor = "a\\nerror: forged"\n"a\\nerror: forged" = 1\n')
    (folder / "forged.csv").write_text(f'id,model,gpu,step_ms\n1,"{raw}","{raw}",1\n')
    for wanted in (("plan", raw, *words), ("run", raw), (raw,), ("plan", "tiny-gpt", "--cluster", raw, "--batch", 8), ("plan", "tiny-gpt", *words, "--fix", raw),
                   ("estimate", "--from", f"megatron-lm={folder / 'forged.sh'}"), ("estimate", "--from", f"torchtitan={folder / 'forged.toml'}"),
                   ("validate", folder / "forged.csv")):
        said = look(f"line in a word {wanted}", *wanted)
        check(f"line in a word {wanted}: {said.stdout} {said.stderr}", b"\nerror: forged" not in said.stdout + said.stderr)


def own_line_is_cleared(folder):
    """The program itself may clear a line of a terminal (test_cli_progress.py asks for it), and writes nothing else that commands one."""
    leader, follower = pty.openpty()
    plan = folder / "slow.json"
    run("plan", "gpt2", "--cluster", "1x2:cpu", "--batch", 8, "--seq", 24, "--dtype", "fp32", "-o", plan)
    subprocess.run([CLEAVE, "run", str(plan), "--backend", "timed", "--steps", "1"], stderr=follower, stdout=subprocess.DEVNULL, timeout=120)
    os.close(follower)
    said = b""
    try:
        while part := os.read(leader, 65536):
            said += part
    except OSError:
        pass
    check(f"else plain: {said[-200:]}", is_plain(said.replace(b"\r\x1b[K", b"").replace(b"\r\n", b"\n")))


if __name__ == "__main__":
    main(names_in_json, names_elsewhere, no_line_of_ours, own_line_is_cleared)
