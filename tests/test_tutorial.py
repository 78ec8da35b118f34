#!/usr/bin/env python3
"""docs/tutorial.md and README.md as whoever follows them: writes their files, types their commands, compares what they print.

usage: test_tutorial.py CLEAVE SOURCE_ROOT [--renew]

A block with a file's name behind its language is that file. In blocks without a language, lines behind "$ " are commands, the others
what they print, in order; "..." stands for any lines, or for the rest of a line. Words and small whole numbers must be the same;
quantities (with a decimal point, or a unit) may be off by a tenth, since prices become better. Lines of the tutorial's blocks in sh want a
cluster: they must stand in the README of an export. --renew puts what is printed now in place of lines that differ in numbers alone.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

CLEAVE, ROOT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.S | re.M)
NUMBER = re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?(?:%| (?:[KMGT]i?B|ns|us|ms|s|min|%|tokens)\b)?")
TOLERANCE, SLACK = 0.1, 0.51  # of a quantity; and of one near 0, as percentages are


def quantity(word):
    return float(re.match(r"[+-]?[\d,]+(?:\.\d+)?", word)[0].replace(",", ""))


def near(wanted, found):
    a, b = quantity(wanted), quantity(found)
    free = "." in wanted or " " in wanted or abs(a) >= 1000
    return wanted == found or (free and wanted[-1] == found[-1] and abs(a - b) <= max(TOLERANCE * abs(a), SLACK))


def alike(wanted, found):
    """Whether the line is what the document says."""
    if wanted.endswith("..."):
        wanted = wanted[:-3].rstrip()
        found = found if found == wanted else re.match(r"\s*" + r"\s+".join(r"\S+" for _ in wanted.split()), found + " ")
        found = found if isinstance(found, str) or found is None else found[0]
    if found is None or [re.sub(r"\s+", " ", p) for p in NUMBER.split(wanted)] != [re.sub(r"\s+", " ", p) for p in NUMBER.split(found)]:
        return False
    return all(near(a, b) for a, b in zip(NUMBER.findall(wanted), NUMBER.findall(found), strict=True))


def compare(wanted, found):
    """The first line of the document that does not hold, or None."""
    place, skipping = 0, False
    for line in wanted:
        if line.strip() == "...":
            skipping = True
            continue
        while skipping and place < len(found) and not alike(line, found[place]):
            place += 1
        if place == len(found) or not alike(line, found[place]):
            return line
        place, skipping = place + 1, False
    return None if skipping or place == len(found) else f"(nothing more) but there is: {found[place]}"


def type_block(text, folder):
    """Each command of a block: it, whether it went well, the lines that are expected, those that were found."""
    commands = re.split(r"^\$ ", text, flags=re.M)[1:]
    for command, *wanted in (part.rstrip("\n").split("\n") for part in commands):
        done = subprocess.run(["bash", "-c", command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              env={"PATH": f"{CLEAVE.parent}:/usr/bin:/bin", "HOME": str(folder)})
        yield command, done.returncode == 0, wanted, done.stdout.splitlines()


def renewed(tutorial, wanted, found):
    for line in wanted:
        same = [new for new in found if NUMBER.sub("#", new).split() == NUMBER.sub("#", line).split()]
        tutorial = tutorial.replace(f"\n{line}\n", f"\n{same[0]}\n") if len(same) == 1 else tutorial
    return tutorial


def follow(page, failures):
    """Types what the page says, in a folder of its own: how many commands, and how many lines are for a cluster."""
    path = ROOT / page
    renewable = text = path.read_text(encoding="utf-8")
    typed, later = 0, []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for language, block in BLOCK.findall(text):
            if language == "sh" and page != "README.md":
                later += block.splitlines()
            elif " " in language:
                (folder / language.split(" ")[1]).write_text(block, encoding="utf-8")
            for command, good, wanted, found in type_block(block, folder) if not language else ():
                typed += 1
                renewable = renewed(renewable, wanted, found)
                missing = compare(wanted, found)
                if not good or missing is not None:
                    failures.append(f"{page}: $ {command}\n  expected: {missing}\n  found:\n    " + "\n    ".join(found))
        readmes = "\n".join(readme.read_text(encoding="utf-8") for readme in folder.glob("*/README.md"))
        failures += [f"no README of an export has: {line}" for line in later if line.strip() not in readmes]
    if "--renew" in sys.argv:
        path.write_text(renewable, encoding="utf-8")
    return typed, len(later)


def main():
    failures = []
    typed, later = follow("docs/tutorial.md", failures)
    shown, _ = follow("README.md", failures)
    for failure in failures:
        print("FAILED", failure)
    print(f"{typed} and {shown} commands, {later} lines for a cluster, {len(failures)} failures")
    sys.exit(1 if failures or typed < 10 or shown < 3 else 0)


main()
