#!/usr/bin/env python3
"""Holds the floors: which folder may include which, each header compiles alone, the pure core asks the system for nothing, the program is
linked of nothing that only tests need; names begin with their room or file, a header speaks of one file, a tag means one thing, comments name
files that exist; a room's main header says what it is about; files, rooms and the planner are no longer than they may be.

usage: check_structure.py SOURCE_ROOT BUILD_ROOT CC ARCHIVE...   (those of the pure core and of peers/, as pure)
"""
import collections
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

FLOOR = {"base": 1, "models": 2, "planner": 3, "peers": 4, "targets": 4, "formats": 4, "host": 5, "executor": 6, "profiler": 7, "benchmarks": 7, "cli": 8}
# Rooms of planner/, from the ground up. A room uses itself and what stands on a lower floor, by its includes and by the symbols of its
# archive. program/ and plan/ share the vocabulary of dimensions and schedules: the plan names them, lower/ obeys them.
PLANNER = {"knapsack": 1, "plan": 1, "facts": 2, "program": 3, "layout": 4, "cost": 4, "lower": 5, "verify": 5, "sim": 5,
           "space": 5, "price": 6, "cut": 7,
           "tables": 8, "bound": 8, "estimate": 8, "pool": 9, "search": 10, "explain": 11, "check": 11}
# Symbols that a room never takes though the floors would let it: the checker shares prices and space with the search, and nothing
# that solves, so that no mistake is made twice; the verifier shares nothing with what made the program.
NEVER = {"layout": {"cost"}, "lower": {"cost", "verify", "sim", "space"}, "verify": {"cost", "lower", "sim", "space"},
         "check": {"cut", "pool", "search", "explain"}, "bound": {"cut", "tables", "estimate"}, "estimate": {"tables", "bound"}}
# The checker includes structs of cut/ and pool/, of which it takes no symbol; of these rooms it includes nothing either.
NEVER_INCLUDED = {"check": {"search", "explain"}}
SIDEWAYS = {  # edges that the table above forbids, each with its reason
    ("plan", "planner/program/lanes.def"): "a dimension names its lane",
    ("plan", "planner/program/schedule.h"): "a plan names its schedule, whose own rules it checks",
}
UPWARDS = {("plan", "program")}  # the same vocabulary, by symbols
# What the pure core may take from outside: memory, strings, numbers, formatting into memory, GLPK, cJSON, jumps for GLPK's errors.
ALLOWED = re.compile(
    r"^(malloc|calloc|realloc|reallocarray|free|mem(cpy|move|set|cmp|chr)|str\w+|__\w*(snprintf|memcpy|memset|memmove|strcpy|strcat|strncpy|strncat)_chk|"
    r"v?snprintf|__isoc(99|23)_\w+|qsort|bsearch|abs|labs|llabs|isalnum|isalpha|isdigit|isspace|toupper|tolower|__ctype_\w+|"
    r"(sqrt|pow|exp|log|floor|ceil|fabs|fmax|fmin|round|l?lround|trunc|frexp|ldexp|modf|fmod|log2|log10|exp2|erf|tanh|sin|cos|cbrt|rint|llrint|lrint|nearbyint|hypot)[fl]?|"
    r"localeconv|glp_\w+|cJSON_\w+|_?_?(sig)?setjmp|__sigsetjmp|longjmp|__longjmp_chk|__stack_chk_fail|__errno_location|__assert_fail|abort|"
    r"_GLOBAL_OFFSET_TABLE_|__(asan|ubsan|tsan|sanitizer)_\w+|__\w*(di|ti)3?|__popcount\w*|__isnan|__isinf|__finite|__signbit\w*|__fpclassify\w*)$")

# Headers of libraries that are used where they are found: what includes them compiles alone only there.
OPTIONAL = {"cublasLt.h", "cudnn.h", "cupti.h", "nccl.h", "mpi.h"}


def included(path):
    return re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(encoding="utf-8"), re.M)


def check_edges(root, errors):
    for folder in FLOOR:
        for path in sorted((root / folder).rglob("*.[ch]")):
            name = path.relative_to(root).as_posix()
            for target in included(path):
                top = target.split("/")[0]
                if top == "tests":
                    errors.append(f"{name}: includes {target}: {folder}/ is built without tests")
                    continue
                if top not in FLOOR:
                    if "/" in target or not (path.parent / target).exists():
                        errors.append(f"{name}: includes {target}: write the path from the repository's root")
                    continue
                if FLOOR[top] > FLOOR[folder] or (FLOOR[top] == FLOOR[folder] and top != folder):
                    errors.append(f"{name}: includes {target}: {folder}/ stands below {top}/")
                if folder == top == "planner":
                    own, other = name.split("/")[1], target.split("/")[1]
                    if PLANNER[other] > PLANNER[own] and (own, target) not in SIDEWAYS:
                        errors.append(f"{name}: includes {target}: planner/{own} stands below planner/{other}")
                    if other in NEVER_INCLUDED.get(own, ()):
                        errors.append(f"{name}: includes {target}: planner/{own} knows nothing of planner/{other}")


# A choice is its line in choices.def and the code that gives it meaning: outside of tests at most so many files name it, as CHOICE_ID
# or as a member of the space. These are in more, which may become fewer.
MOST_NAMING = 4
NAMING = {"TP": 9, "CP": 6, "TURNS": 8, "PP": 9, "DP": 9, "MICRO": 8, "SP": 6, "HSDP": 6, "SCHEDULE": 12, "INTERLEAVE": 5, "BUCKET": 6,
          "PREFETCH": 5, "ZERO": 6, "RECOMPUTE": 6}


def check_choices(root, errors):
    # a target says of every choice which values it knows: that is what it is for
    texts = {path: path.read_text(encoding="utf-8") for folder in FLOOR if folder != "targets" for path in (root / folder).rglob("*.[ch]")}
    choices = re.findall(r"^CHOICE\((\w+), (\w+),", (root / "planner/space/choices.def").read_text(encoding="utf-8"), re.M)
    for choice, member in choices:
        named = re.compile(rf"\bCHOICE_{choice}\b|\bspace(->|\.){member}\b")
        files = sorted(path.relative_to(root).as_posix() for path, text in texts.items() if named.search(text))
        most = NAMING.get(choice, MOST_NAMING)
        if len(files) > most:
            errors.append(f"choices.def: {choice} is named in {len(files)} files, expected at most {most}: {', '.join(files)}")
        elif choice in NAMING and len(files) < most:
            errors.append(f"choices.def: {choice} is named in {len(files)} files: lower NAMING, now {most}")
    if not choices:
        errors.append("planner/space/choices.def has no choice: nothing was checked")


# Which tables a price table consists of is asked by price_of_stage() and its like: only who makes them names the members.
MADE_IN = ("price", "tables")


def check_price_shapes(root, errors):
    members = re.compile(r"\btable(?:->|\.)by_(?:stage|turns|place)\b")
    found = 0
    for path in sorted((root / "planner").rglob("*.[ch]")):
        name, count = path.relative_to(root), len(members.findall(path.read_text(encoding="utf-8")))
        found += count
        if count and name.parts[1] not in MADE_IN:
            errors.append(f"{name.as_posix()}: names the tables of a price table {count} time(s), expected price_of_stage() and its like")
    if not found:
        errors.append("planner/ names no tables of a price table: nothing was checked")


def beginnings(root, room, stem):
    """What a symbol of the file may begin with: the room, any words of the file's name that follow each other, a type of the room."""
    words = stem.split("_")
    runs = {"_".join(words[first:end]) for first in range(len(words)) for end in range(first + 1, len(words) + 1)}
    tags = {tag for path in (root / "planner" / room).rglob("*.h")
            for tag in re.findall(r"^\s*(?:struct|enum|union) (\w+) \{", path.read_text(encoding="utf-8"), re.M)}
    return {name for word in runs | {room} for name in (word, word + "s", word.removesuffix("s"))} | tags | {tag + "s" for tag in tags}


def check_names(root, archives, errors):
    seen = 0
    for archive in archives:
        room = pathlib.Path(archive).stem.removeprefix("libcleave-")
        if room not in PLANNER:
            continue
        stems = sorted((path.stem for path in (root / "planner" / room).rglob("*.c")), key=len, reverse=True)
        stray = []
        for line in symbols(archive):
            kind, symbol = line.split()[-2:]
            if kind not in ("T", "D", "R", "B"):
                continue
            seen += 1
            object_name = line.split(":")[1].removesuffix(".c.o")
            stem = next(stem for stem in stems if object_name.endswith(stem))
            if not any(symbol == name or symbol.startswith(name + "_") for name in beginnings(root, room, stem)):
                stray.append(f"{symbol} ({stem}.c)")
        if stray:
            errors.append(f"planner/{room}: external names that begin with neither the room nor words of their file nor a type of the room: "
                          f"{', '.join(stray)}; rename them, as {room}_... or after their file")
    if seen == 0:
        errors.append("no external symbol of planner/ was looked at: give the archives of its rooms")


# Headers that declare functions of more than one .c, of how many. They may become fewer. A room's own header may name all its files, one
# that ends in _parts.h those that share it; of either at most so many functions.
MOST_PARTS = 40
TOLD_OF = {
    "planner/cost/cost_group.h": 2, "planner/cut/chain.h": 2, "planner/cut/partition.h": 5, "planner/explain/explain_conflict.h": 2,
    "planner/explain/explain_facts.h": 2, "planner/facts/cluster.h": 5, "planner/facts/profile.h": 4, "planner/layout/place_work.h": 3,
    "planner/sim/simulate.h": 2, "planner/tables/workbench.h": 2,
}


def bare(path):
    return re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)


def check_declared(root, errors):
    defined = collections.defaultdict(set)
    for path in (root / "planner").rglob("*.c"):
        for name in re.findall(r"^(?!static)[A-Za-z][\w \*]*?\b(\w+)\([^;{}]*\)\n\{", bare(path), re.M):
            defined[name].add(path.name)
    if not defined:
        errors.append("planner/ defines no function: nothing was checked")
    for path in sorted((root / "planner").rglob("*.h")):
        name, text = path.relative_to(root).as_posix(), bare(path)
        for _ in range(3):
            text = re.sub(r"\{[^{}]*\}", ";", text)
        functions = re.findall(r"^(?!static|typedef|#)[A-Za-z][\w \*\n]*?[ \*](\w+)\(", text, re.M)
        files = {file for function in functions for file in defined[function]}
        if path.stem.endswith("_parts") or path.stem == path.parent.name:
            if len(functions) > MOST_PARTS:
                errors.append(f"{name}: expected at most {MOST_PARTS} functions, found {len(functions)}: divide it by subject")
            continue
        most = TOLD_OF.get(name, 1)
        if len(files) > most:
            errors.append(f"{name}: expected functions of at most {most} file(s), found {', '.join(sorted(files))}: give each .c its header, or make "
                          "it the _parts.h of those that share it")
        elif name in TOLD_OF and len(files) < most:
            errors.append(f"{name}: declares functions of {len(files)} file(s): lower TOLD_OF, now {most}")


# Tags that mean more than one thing in planner/, in how many files. They may become fewer.
TAGS = {"pending": 2, "priced": 2, "work": 2}


def check_openings(root, errors):
    """Each room has one main header, whose first lines say what the room answers, what it may use and how it is tested."""
    for room in PLANNER:
        openings = {path.name: path.read_text(encoding="utf-8").partition("*/")[0] for path in sorted((root / "planner" / room).glob("*.h"))}
        main = {name: text for name, text in openings.items() if re.match(rf"/\* The room of (the )?\w+[:.,]", text)}
        if len(main) != 1:
            errors.append(f"planner/{room}: expected one header that begins with 'The room of', found {', '.join(main) or 'none'}")
        for name, text in main.items():
            missing = [words for words, pattern in {"what it uses": r"\b[Ii]t\s+(\*\s+)?uses\b|[Ss]hared with", "how it is tested": r"[Tt]ested\s+(\*\s+)?by"}.items()
                       if not re.search(pattern, text)]
            if missing:
                errors.append(f"planner/{room}/{name}: its opening does not say {' nor '.join(missing)}")


def check_named(root, errors):
    """Comments name files of the tree, by their path from its root, that exist. Those of other projects are of Python."""
    named, folders = 0, "|".join([*FLOOR, "tests", "docs"])
    for folder in FLOOR:
        for path in sorted(path for path in (root / folder).rglob("*") if path.suffix in (".c", ".h", ".def")):
            for comment in re.findall(r"/\*.*?\*/", path.read_text(encoding="utf-8"), re.S):
                for name in re.findall(rf"(?<![\w/])((?:{folders})/[\w/*]+\.(?:c|h|def|md))\b", comment):
                    named += 1
                    if not any(root.glob(name)):
                        errors.append(f"{path.relative_to(root).as_posix()}: a comment names {name}, which there is not")
    if not named:
        errors.append("no comment names a file: nothing was checked")


def check_tags(root, errors):
    where = collections.defaultdict(list)
    for path in sorted((root / "planner").rglob("*.[ch]")):
        for tag in re.findall(r"\b(?:struct|union|enum) (\w+) \{", bare(path)):
            where[tag].append(path.relative_to(root).as_posix())
    if not where:
        errors.append("planner/ defines no struct: nothing was checked")
    for tag, files in sorted(where.items()):
        most = TAGS.get(tag, 1)
        if len(files) > most:
            errors.append(f"tag {tag}: expected to be defined in {most} place(s), found {', '.join(files)}: name each after what it is about")
        elif len(files) < most:
            errors.append(f"tag {tag}: is defined in {len(files)} place(s): lower TAGS, now {most}")


def lacks_library(cc, path):
    """A header of a module whose library this machine need not have."""
    wanted = [name for name in re.findall(r"^\s*#\s*include\s+<([^>]+)>", path.read_text(encoding="utf-8"), re.M) if name in OPTIONAL]
    return any(subprocess.run([*cc, "-E", "-x", "c", "-"], input=f"#include <{name}>\n", capture_output=True, text=True).returncode
               for name in wanted)


def compiled_first(root, build):
    """Headers before which a source file of the build has nothing: they compile alone if it does."""
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        path = build / entry["file"]
        found = re.search(r'^\s*#.*?"([^"]+)"|^\s*#', path.read_text(encoding="utf-8"), re.M) if path.suffix == ".c" else None
        if found and found[1]:
            yield root / found[1]


def check_headers(root, build, cc, errors):
    first = set(compiled_first(root, build))
    for folder in [*FLOOR, "tests/emulated"]:
        for path in sorted(set((root / folder).rglob("*.h")) - first):
            result = subprocess.run([*cc, "-std=gnu11", "-fsyntax-only", f"-I{root}", "-x", "c", str(path)], capture_output=True, text=True)
            if result.returncode and not lacks_library(cc, path):
                errors.append(f"{path.relative_to(root)}: does not compile alone:\n{result.stderr.strip()}")


def symbols(archive):
    return subprocess.run(["nm", "-A", archive], capture_output=True, text=True, check=True).stdout.splitlines()


def check_rooms(archives, errors):
    """By the symbols of each room's archive: the includes may be innocent where a prototype is repeated."""
    room_of, wanted = {}, []
    for archive in archives:
        room = pathlib.Path(archive).stem.removeprefix("libcleave-")
        if room not in PLANNER:
            continue
        for line in symbols(archive):
            kind, symbol = line.split()[-2:]
            if kind == "U":
                wanted.append((room, symbol))
            elif kind.isupper():
                room_of[symbol] = room
    for missing in sorted(set(PLANNER) - {room for room, _ in wanted}):
        errors.append(f"no archive of planner/{missing}: nothing was checked there")
    for room, symbol in sorted(set(wanted)):
        other = room_of.get(symbol, room)
        if other != room and (PLANNER[other] > PLANNER[room] and (room, other) not in UPWARDS or other in NEVER.get(room, ())):
            errors.append(f"planner/{room} uses {symbol} of planner/{other}, which it must not")


def check_symbols(archives, errors):
    defined, wanted = set(), {}
    for archive in archives:
        for line in symbols(archive):
            place, _, rest = line.partition(": " if ": " in line else ":")
            fields = line.split()
            kind, symbol = fields[-2], fields[-1]
            if kind == "U":
                wanted.setdefault(symbol, place.split(":")[-1] or line)
            else:
                defined.add(symbol)
    for symbol in sorted(set(wanted) - defined):
        if not ALLOWED.match(symbol):
            errors.append(f"the pure core uses {symbol} (in {wanted[symbol]}): files, clocks, environment, threads and printing stay above planner/")


def link_command(build):
    """The words of the command that links cli/cleave, its paths relative to the build folder."""
    return shlex.split(subprocess.run(["ninja", "-C", build, "-t", "commands", "cli/cleave"], capture_output=True, text=True, check=True).stdout.splitlines()[-1])


def check_doubles(build, errors):
    """The program is linked of no archive with a part that stands for a GPU in tests."""
    archives = [word for word in link_command(build) if word.endswith(".a")]
    objects = [name for archive in archives for name in subprocess.run(["ar", "t", build / archive], capture_output=True, text=True, check=True).stdout.split()]
    errors += [f"cli/cleave is linked of an archive that holds {name}: doubles stay in tests/" for name in objects if "emulated" in pathlib.PurePath(name).name]
    if not any("gpu_device.c" in name for name in objects):
        errors.append("no archive that cli/cleave is linked of holds executor/gpu/device.c: nothing was checked")


# External functions that no program calls, each with its reason.
UNCALLED = {
    "busy_bound_of_cut": "the bound of one cut, which tests hold against that of all cuts",
    "stages_latency": "the objective without a deadline",
}


def check_dead(root, build, errors):
    """Each external function is called by the program: the linker, told to drop what nothing refers to, drops none of them (of those that two
    archives hold, it keeps one). What another
    line of the product names stays: a module calls it, or code for a library that this build lacks."""
    words = link_command(build)
    archives = list(dict.fromkeys(word for word in words if word.endswith(".a")))
    external = collections.Counter(line.split()[-1] for archive in archives for line in symbols(build / archive) if line.split()[-2] == "T")
    with tempfile.TemporaryDirectory() as folder:
        canary = pathlib.Path(folder) / "canary.c"
        canary.write_text("void dead_canary(void);\nvoid dead_canary(void)\n{\n}\n", encoding="utf-8")
        at = words.index("-o")
        others = [word for word in words[at + 2:] if not word.endswith(".a")]
        linked = subprocess.run([*words[:at], "-o", f"{folder}/program", "-ffunction-sections", str(canary), "-Wl,--gc-sections", "-Wl,--print-gc-sections",
                                 "-Wl,--allow-multiple-definition", "-Wl,--whole-archive", *archives, "-Wl,--no-whole-archive", *others],
                                cwd=build, capture_output=True, text=True)
    dropped = collections.Counter(re.findall(r"\.text\.([A-Za-z_]\w*)[')]", linked.stdout + linked.stderr))
    if linked.returncode or "dead_canary" not in dropped:
        errors.append(f"the program cannot be linked without its dead code: {linked.stderr.strip()[-2000:]}")
        return
    text = [re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S) for folder in FLOOR for path in sorted((root / folder).rglob("*.[ch]*"))]
    text.append((root / "cleave.c").read_text(encoding="utf-8"))
    for name in sorted(dropped.keys() - UNCALLED.keys()):
        if external[name] == dropped[name] and not any(re.search(rf"^(?![A-Za-z]).*\b{name}\b", file, re.M) for file in text):
            errors.append(f"nothing calls {name}(): delete it, or make it part of the tests that want it")


# Lines of a file, of a room and of the planner: a house is lived in as long as one finds one's way.
MOST_LINES = {"file": 600, "room": 6000, "planner": 50000}


def check_sizes(root, errors):
    lines = {path: len(path.read_text(encoding="utf-8").splitlines())
             for path in (root / "planner").rglob("*") if path.suffix in (".c", ".h", ".def")}
    rooms = collections.Counter()
    for path, count in lines.items():
        rooms[path.relative_to(root).parts[1]] += count
        if count > MOST_LINES["file"]:
            errors.append(f"{path.relative_to(root).as_posix()}: {count} lines, expected at most {MOST_LINES['file']}")
    for room, count in rooms.items():
        if count > MOST_LINES["room"]:
            errors.append(f"planner/{room} has {count} lines, expected at most {MOST_LINES['room']}")
    if sum(rooms.values()) > MOST_LINES["planner"]:
        errors.append(f"planner/ has {sum(rooms.values())} lines, expected at most {MOST_LINES['planner']}: what earns nothing goes")
    if not lines:
        errors.append("planner/ has no source: nothing was counted")


def report(root):
    """What is told and not held: whether sentences become words again. Branches a line of all functions; static functions that are called
    once; constants that tune the search."""
    lines = branches = static = once = 0
    for path in (root / "planner").rglob("*.c"):
        text = re.sub(r'"(\\.|[^"\\\n])*"', '""', bare(path))
        for qualifier, name, body in re.findall(r"^(static )?[A-Za-z][\w \*]*?\b(\w+)\([^;{}]*\)\n\{\n(.*?)^\}", text, re.M | re.S):
            lines += sum(1 for line in body.split("\n") if line.strip()) + 2
            branches += len(re.findall(r"\b(?:if|for|while|case)\b|\?|&&|\|\|", body))
            static += bool(qualifier)
            once += bool(qualifier) and len(re.findall(rf"\b{name}\b", text)) == 2
    constants = len(re.findall(r"^ {4}[A-Z_]+ = ", (root / "planner/estimate/effort.h").read_text(encoding="utf-8"), re.M))
    print(f"planner: {branches / max(lines, 1):.2f} branches a line, {100 * once / max(static, 1):.0f} % of static functions called once, {constants} constants in effort.h")


def main():
    root, build, rest = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    archives = [argument for argument in rest if argument.endswith(".a")]
    cc = rest[: len(rest) - len(archives)]  # of several words where a compiler cache stands before it
    errors = []
    check_sizes(root, errors)
    check_edges(root, errors)
    check_choices(root, errors)
    check_price_shapes(root, errors)
    check_headers(root, build, cc, errors)
    check_symbols(archives, errors)
    check_rooms(archives, errors)
    check_names(root, archives, errors)
    check_declared(root, errors)
    check_named(root, errors)
    check_tags(root, errors)
    check_openings(root, errors)
    check_doubles(build, errors)
    check_dead(root, build, errors)
    for error in errors:
        print(error)
    report(root)
    print(f"{len(errors)} violations")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
