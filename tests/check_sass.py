#!/usr/bin/env python3
"""What the compiler made of the GPU's kernels, for H100 and its kin: registers, no spills and no stack but where they are known, loads under
way before the first is waited for, no division of doubles but where it is known. Exit status 77: skipped without cuobjdump, or where the
kernels are not compiled for these.

usage: check_sass.py OBJECT NVCC [--print]
--print: what there is of each kernel"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
sys.dont_write_bytecode = True

ARCH, SKIPPED = "sm_90", 77
REGISTERS = 80  # of a thread: of 256 threads three teams still run at once on a multiprocessor
# Kernels that have more. Norms: a team is a warp; 16 of them still run at once. The others: no time of a step goes there,
# but in fp32, where libraries have no attention.
REGISTERS_OF = {**{name: 128 for name in ("norm", "add_norm", "norm_gradient", "norm_gradients", "add_norm_gradient", "add_norm_gradients")},
                **{name: 114 for name in ("attention_query_gradient", "attention_key_gradient", "attention_bias_gradient")},
                **{name: 96 for name in ("gain_gradient", "gate_gradient", "route_gradient")}}
# Bytes of memory that a thread has beside its registers, and what for.
STACK = {"adamw": (32, "a few words of its loop over weights"),
         "add_norm_gradient": (24, "a few words of its loop over rows; steps take add_norm_gradients"),
         "route": (256, "the experts that were chosen so far, indexed by the choice"),
         "route_gradient": (40, "a few words of its loop over experts"),
         "embed_gradient": (8, "two words of its outermost loop")}
# Loads that are under way at once, at least: these kernels wait for memory and for nothing else.
LOADS = {"norm": 8, "add_norm": 16, "norm_gradients": 16, "add_norm_gradients": 8, "norm_gradient": 16, "add_norm_gradient": 16,
         "column_sum": 8, "gain_gradient": 16, "column_finish": 4, "max_sum_exp": 8, "sum_exp_gradient": 8, "square_sum": 8, "square_parts": 4,
         "adamw": 4, "rotate": 8, "gated": 4, "gated_gradient": 6, "unary_gradient": 4, "sum_terms": 4}
# Kernels that store quads of bf16: in one access each, where the compiler once made four of them.
STORES_QUADS = {"norm", "add_norm", "norm_gradient", "norm_gradients", "add_norm_gradient", "add_norm_gradients", "sum_exp_gradient", "gated",
                "gated_gradient", "unary", "unary_gradient", "sum_terms", "rotate", "embed"}
# Kernels that divide doubles, and for what: a hundred instructions each time, which no element must cost.
DIVIDE = {"norm": "of a row", "add_norm": "of a row", "norm_gradient": "of a row", "norm_gradients": "of a row", "add_norm_gradient": "of a row",
          "add_norm_gradients": "of a row", "nll": "of the whole loss", "nll_finish": "of the whole loss", "adamw": "the factor that clips"}


def tool(nvcc):
    """cuobjdump of the path, beside the compiler, or of NVIDIA's packages for Python; None: there is none."""
    folders = [os.path.dirname(os.path.realpath(nvcc)), *(os.path.join(place, "nvidia", "cu13", "bin") for place in sys.path)]
    return shutil.which("cuobjdump") or shutil.which("cuobjdump", path=os.pathsep.join(folders))


def told(*words):
    environment = {**os.environ, "PATH": os.environ["PATH"] + os.pathsep + os.path.dirname(words[0])}  # it calls nvdisasm
    done = subprocess.run(words, text=True, capture_output=True, check=False, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.stderr[-500:]}")
    return done.stdout


def name_of(symbol):
    """Of _Z13gpu_norm_grid8gpu_work: norm; None: none of the kernels."""
    found = re.match(r"_Z\d+gpu_(\w+)_grid8gpu_work$", symbol)
    return found.group(1) if found else None


def resources(text):
    """By kernel (registers, stack)."""
    found = {}
    for symbol, registers, stack in re.findall(r"Function (\w+):\s+REG:(\d+) STACK:(\d+)", text):
        if name_of(symbol):
            found[name_of(symbol)] = (int(registers), int(stack))
    return found


def instructions(text):
    """By kernel its instructions in order, each (operation, registers that it reads, registers that it writes)."""
    found, current = {}, None
    for line in text.splitlines():
        if "Function :" in line:
            current = found.setdefault(name_of(line.split()[-1]), [])
            continue
        match = re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?);", line)
        if match and current is not None:
            current.append(parsed(*match.groups()))
    found.pop(None, None)
    return found


def parsed(operation, operands):
    first, _, rest = operands.partition(",")
    stores = operation.startswith(("ST", "RED", "BAR"))
    words = 4 if ".128" in operation else 2 if ".64" in operation else 1
    written = [int(r) + i for r in re.findall(r"\bR(\d+)", first) for i in range(words)] if not stores else []
    return operation, {int(r) for r in re.findall(r"\bR(\d+)", operands if stores else rest)}, written


def loads_under_way(listed):
    """The most loads that follow each other before one's result is read; a jump counts as if it were."""
    most = count = 0
    waited = set()
    for operation, read, written in listed:
        if waited & read or operation.startswith(("BRA", "EXIT", "BSYNC", "CALL", "RET")):
            count, waited = 0, set()
        if operation.startswith(("LDG", "LD.")):
            count, waited = count + 1, waited | set(written)
            most = max(most, count)
    return most


def problems_of(name, listed, registers, stack):
    def count(*operations):
        return sum(operation.startswith(operations) for operation, _, _ in listed)
    most, (bytes_known, what_for) = REGISTERS_OF.get(name, REGISTERS), STACK.get(name, (0, "nothing"))
    if registers > most:
        yield f"{registers} registers, at most {most}"
    if stack > bytes_known:
        yield f"{stack} bytes of stack, known are {bytes_known} for {what_for}"
    if count("STL", "LDL") and name not in STACK:
        yield f"spills: {count('STL')} stores to the thread's memory and {count('LDL')} loads"
    if loads_under_way(listed) < LOADS.get(name, 0):
        yield f"{loads_under_way(listed)} loads under way, at least {LOADS[name]}"
    if name in STORES_QUADS and count("STG.E.64", "ST.E.64") < count("STG.E.U16", "ST.E.U16"):
        yield f"{count('STG.E.64', 'ST.E.64')} stores of quads of bf16 beside {count('STG.E.U16', 'ST.E.U16')} of single elements"
    if count("MUFU.RCP64H") and name not in DIVIDE:
        yield f"{count('MUFU.RCP64H')} divisions of doubles"


def kernels_of(root):
    text = (root / "executor" / "gpu" / "kernels.def").read_text(encoding="utf-8")
    return set(re.findall(r"^GPU_KERNEL\(\w+, gpu_(\w+), \d+\)", text, re.M))


def main():
    cuobjdump = tool(sys.argv[2])
    if not cuobjdump:
        print("skipped: there is no cuobjdump")
        return SKIPPED
    if ARCH not in told(cuobjdump, "-lelf", sys.argv[1]):
        print(f"skipped: the kernels are not compiled for {ARCH}")
        return SKIPPED
    used = resources(told(cuobjdump, "-arch", ARCH, "-res-usage", sys.argv[1]))
    listed = instructions(told(cuobjdump, "-arch", ARCH, "-sass", sys.argv[1]))
    expected = kernels_of(pathlib.Path(__file__).resolve().parent.parent)
    problems = [f"{name}: it is not in the object" for name in sorted(expected - (set(used) & set(listed)))]
    problems += [f"{name}: the tables here know it, kernels.def does not" for name in sorted({*REGISTERS_OF, *STACK, *LOADS, *STORES_QUADS, *DIVIDE} - expected)]
    for name in sorted(expected & set(used) & set(listed)):
        if "--print" in sys.argv:
            print(f"{name:26} {used[name][0]:4} registers {used[name][1]:4} stack {loads_under_way(listed[name]):4} loads under way "
                  f"{sum(operation.startswith('MUFU.RCP64H') for operation, _, _ in listed[name]):3} divisions {len(listed[name]):6} instructions")
        problems += [f"{name}: {text}" for text in problems_of(name, listed[name], *used[name])]
    for problem in problems:
        print(f"FAIL {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
