#!/usr/bin/env python3
"""Holds what documents say of files and verbs against the tree and the program.

usage: check_docs.py CLEAVE SOURCE_ROOT COMBINATION_TABLE

Fails when docs/formats.md or docs/combinations.md is not what the programs print, when README.md, CONTRIBUTING.md or docs/*.md name a file in backticks or
link to one that does not exist, when they show a verb or an option of a verb that the program does not know, when prose is wider than
docs/style.md says, when README is longer than two screens or a page that is to be read in ten minutes than that, and when docs/README.md
leaves a page out.
"""
import difflib
import glob
import pathlib
import re
import subprocess
import sys

GENERATED = ("formats.md", "combinations.md")
WIDEST = 140
TWO_SCREENS = 100  # lines
TEN_MINUTES = 2500  # words
READ_THROUGH = ("planning.md", "cost-model.md", "execution.md", "gpu.md", "choices.md", "running.md", "frameworks.md", "tutorial.md")
EXTENSIONS = "c|h|py|def|md|json|txt|build|csv|sh|html"
# Words in backticks that look like files of the tree but are what a command of the same document writes.
WRITTEN = re.compile(r"^(out/|build[\w-]*/|plan\.json$|profile\.json$|cluster\.json$|model\.json$|config\.json$|report\.(html|md)$|"
                     r"trace\.json$|text\.txt$|manifest\.json$|step-)")
CODE = re.compile(r"```.*?\n(.*?)```", re.S)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
VERB = re.compile(r"(?:^|[\s(`/])cleave[ \t]+([a-z][a-z-]*)((?:[^`|;&\n]|\\\n)*)")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def looks_like_file(word):
    return re.fullmatch(r"[\w.*/<>{},+-]+", word) and (re.search(rf"\.({EXTENSIONS})$", word) or ("/" in word and word.endswith("/")))


def expanded(word):
    """a.{c,h} becomes the two names that it stands for."""
    braces = re.search(r"\{([^}]*)\}", word)
    if not braces:
        return [word]
    return [name for part in braces.group(1).split(",") for name in expanded(word[:braces.start()] + part + word[braces.end():])]


def exists(root, word):
    """A path from the root; a name alone may stand anywhere in the tree."""
    if "*" in word or "/" in word:
        return bool(glob.glob(str(root / word))) or (root / word).exists()
    return any(p for p in root.rglob(word) if "build" not in p.relative_to(root).parts[0])


def check_files(root, path, text, errors):
    for word in SPAN.findall(CODE.sub("", text)):
        if "x.c" in word or "x.json" in word or WRITTEN.match(word) or not looks_like_file(word):
            continue
        for name in expanded(word):
            if not exists(root, name):
                errors.append(f"{path.name}: `{word}`: no such file")
    for target in LINK.findall(CODE.sub("", text)):
        if "://" not in target and not (path.parent / target).exists():
            errors.append(f"{path.name}: link to {target}: no such file")


def check_verbs(path, text, help_of, errors):
    commands = "\n".join(CODE.findall(text)) + "\n" + "\n".join(SPAN.findall(CODE.sub("", text)))
    for verb, rest in VERB.findall(commands):
        if verb not in help_of:
            errors.append(f"{path.name}: cleave {verb}: no such verb")
            continue
        for option in re.findall(r"(?<!\S)--[a-z][a-z-]*", rest.replace("\\\n", " ").split(" #")[0]):
            if option not in help_of[verb] and option != "--help":
                errors.append(f"{path.name}: cleave {verb} {option}: no such option")


def check_width(path, text, errors):
    """Of prose: tables and blocks of code are as wide as they must be."""
    for number, line in enumerate(CODE.sub(lambda block: "\n" * block.group(0).count("\n"), text).split("\n"), 1):
        if len(line) > WIDEST and not line.lstrip().startswith("|"):
            errors.append(f"{path.name}:{number}: expected at most {WIDEST} characters, found {len(line)}")


def check_lengths(root, documents, errors):
    lines = len((root / "README.md").read_text(encoding="utf-8").splitlines())
    if lines > TWO_SCREENS:
        errors.append(f"README.md: {lines} lines, expected at most {TWO_SCREENS}: what whoever sees it first need not know goes to docs/")
    for name in READ_THROUGH:
        words = len((root / "docs" / name).read_text(encoding="utf-8").split())
        if words > TEN_MINUTES:
            errors.append(f"docs/{name}: {words} words, expected at most {TEN_MINUTES}: facts go to the code that has them, anecdotes to measured.md")
    index = (root / "docs/README.md").read_text(encoding="utf-8")
    errors += [f"docs/README.md: leaves out {path.name}" for path in documents
               if path.parent.name == "docs" and path.name != "README.md" and f"({path.name})" not in index]


def check_generated(root, name, command, typed, errors):
    wanted, path = run(*command), root / "docs" / name
    found = path.read_text(encoding="utf-8") if path.exists() else ""
    if found == wanted:
        return
    lines = list(difflib.unified_diff(found.splitlines(), wanted.splitlines(), f"docs/{name}", "the program", lineterm="", n=0))
    errors.append(f"docs/{name} is not what the program says; type: {typed} > docs/{name}\n  " + "\n  ".join(lines[:12]))


def main():
    cleave, root = sys.argv[1], pathlib.Path(sys.argv[2])
    verbs = re.findall(r"^  ([a-z-]+) +\S", run(cleave, "--help").split("usage: cleave VERB")[1].split("cleave VERB --help")[0], re.M)
    help_of = {verb: set(re.findall(r"--[a-z][a-z-]*", run(cleave, verb, "--help"))) for verb in verbs}
    help_of["help"] = set()
    errors = []
    documents = [p for p in [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").glob("*.md"))] if p.exists()]
    for path in documents:
        text = path.read_text(encoding="utf-8")
        if path.name != "formats.md":
            check_files(root, path, text, errors)
        if path.name not in GENERATED:
            check_width(path, text, errors)
        check_verbs(path, text, help_of, errors)
    check_lengths(root, documents, errors)
    check_generated(root, "formats.md", [cleave, "schema", "--markdown"], "build/cli/cleave schema --markdown", errors)
    check_generated(root, "combinations.md", [sys.argv[3]], "build/tests/combination_table", errors)
    for error in errors:
        print(error)
    print(f"{len(documents)} documents, {len(verbs)} verbs, {len(errors)} errors")
    return 1 if errors or not verbs else 0


if __name__ == "__main__":
    sys.exit(main())
