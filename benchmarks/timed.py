"""Plans on the timed device against their predictions: what run_timed_eight, run_two_types and run_winners share.

A run counts only if the machine was less than half busy and no predicted instruction is shorter than 2 ms, so that what the
operating system adds to a sleep is small beside what is measured."""
import json
import os
import bench

BUSY_BAR, SHORTEST_BAR_S, ERROR_BAR, EXPOSED_BAR = 0.5, 2e-3, 0.05, 0.05
COMMUNICATION = ("tp", "dp", "cp", "ep", "pp", "host")
WORK = ("compute", "recompute", "optimizer")
AS_BUSY = 0.99  # of the work of a stage's busiest rank


def add_options(p, cluster):
    p.add_argument("--model", default=os.path.join(bench.CASES, "eight-layers.json"), help="(benchmarks/cases/eight-layers.json)")
    p.add_argument("--cluster", default=os.path.join(bench.CASES, cluster), help=f"(benchmarks/cases/{cluster})")
    p.add_argument("--batch", type=int, default=16, help="(16)")
    p.add_argument("--steps", type=int, default=4, help="steps of a run; the first is not timed (4)")
    p.add_argument("--only", help="names of plans that contain this")
    p.add_argument("--any-load", action="store_true", help="while developing: do not reject for a busy machine")


def slow_cluster(path, slower, changes):
    """A file with the cluster of run_timed_eight, other nodes, links (bytes per second) and memory where changes names them, and all of it
    so many times slower: the same problem, beside which what the operating system adds is smaller. Returns its path."""
    with open(os.path.join(bench.ROOT, bench.CASES, "slow-2x4.json"), encoding="utf-8") as file:
        cluster = json.load(file)
    device, (node, network) = cluster["device"], cluster["levels"]
    node.update(fanout=changes.get("devices_per_node", node["fanout"]), bytes_per_s=changes.get("node_bytes_per_s", node["bytes_per_s"]))
    network.update(fanout=changes.get("nodes", network["fanout"]), bytes_per_s=changes.get("network_bytes_per_s", network["bytes_per_s"]))
    device.update(devices_per_node=node["fanout"], memory_bytes=changes.get("memory_bytes", device["memory_bytes"]))
    for key in ("launch_ns", "collective_launch_ns", "host_latency_ns"):
        device[key] = round(device[key] * slower)
    for key in ("vector_flops_per_s", "memory_bytes_per_s", "host_bytes_per_s"):
        device[key] /= slower
    device["matmul_flops_per_s"] = {dtype: rate / slower for dtype, rate in device["matmul_flops_per_s"].items()}
    for level in (node, network):
        level.update(bytes_per_s=level["bytes_per_s"] / slower, latency_ns=round(level["latency_ns"] * slower))
    cluster.update(name=f"slow-{network['fanout']}x{node['fanout']}", levels=[node, network] if network["fanout"] > 1 else [node])
    return bench.write_json(path, cluster)


def simulated(b, plan_path):
    """Predicted step seconds and the shortest instruction in seconds."""
    trace_path = b.path("timed-trace.json")
    output, _, _ = b.run_cleave("simulate", plan_path, "--json", "--trace", trace_path)
    with open(trace_path, encoding="utf-8") as file:
        trace = json.load(file)
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X" and "instr" in e.get("args", {})]
    shortest = min((e for e in spans if e["dur"] > 0 and e["cat"] != "receive"), key=lambda e: e["dur"])
    return json.loads(output)["step_s"], shortest["dur"] * 1e-6, shortest["name"]


def seconds(breakdown, kinds):
    return sum(breakdown[kind] for kind in kinds)


def exposed_by_stage(ranks):
    """Seconds of exposed communication and of copies to host memory: predicted of each stage, measured of its busiest ranks. The
    prediction speaks of those: of the slower type of device, of a parameter server and not of those that wait for it."""
    stages = []
    for stage in sorted({r["stage"] for r in ranks}):
        here = [r for r in ranks if r["stage"] == stage]
        most = max(seconds(r["breakdown_s"], WORK) for r in here)
        busy = [r for r in here if seconds(r["breakdown_s"], WORK) >= AS_BUSY * most]
        stages.append({"stage": stage, "ranks": [r["rank"] for r in busy],
                       "predicted_s": seconds(here[0]["predicted_breakdown_s"], COMMUNICATION),
                       "measured_s": [seconds(r["breakdown_s"], COMMUNICATION) for r in busy]})
    return stages


def exposed(ranks, step_s):
    """Sums over the stages and their ratio; and the largest difference on any stage, in shares of the step."""
    stages = exposed_by_stage(ranks)
    predicted = sum(s["predicted_s"] for s in stages)
    measured = sum(sum(s["measured_s"]) / len(s["ranks"]) for s in stages)
    return {"predicted_exposed_s": predicted, "measured_exposed_s": measured, "exposed_error": predicted / measured - 1 if measured else None,
            "exposed_away": max(abs(s["predicted_s"] - m) for s in stages for m in s["measured_s"]) / step_s, "exposed_by_stage": stages}


def imitated(b, o, name, fix, plan_path):
    """The row of a plan: predicted, then run on the timed device."""
    step_s, shortest_s, shortest_name = simulated(b, plan_path)
    if shortest_s < SHORTEST_BAR_S:
        raise bench.Failed(f"{name}: {shortest_name} takes {1e3 * shortest_s:.2f} ms, shorter than {1e3 * SHORTEST_BAR_S:.0f} ms: "
                           "what is measured would be the operating system")
    meter = bench.CpuMeter()
    output, _, _ = b.run_cleave("run", plan_path, "--backend", "timed", "--shape", "--steps", str(o.steps), "--json")
    busy = meter.share()
    steps, summary = bench.step_times(output)
    measured_s = bench.median(steps)
    return {"plan": name, "fix": fix, "predicted_step_s": step_s, "measured_step_s": measured_s, "error": step_s / measured_s - 1,
            "spread": bench.spread(steps), "timed_steps": len(steps), "host_busy": busy, "shortest_instruction_s": shortest_s,
            **exposed(summary["ranks"], measured_s), "stage": summary["breakdown_stage"],
            "predicted_breakdown_s": summary["predicted_breakdown_s"], "measured_breakdown_s": summary["breakdown_s"]}


def one_plan(b, o, name, fix):
    plan_path = b.path("timed-plan.json")
    b.run_cleave("plan", o.model, "--cluster", o.cluster, "--batch", str(o.batch), "--dtype", "fp32", *(["--fix", fix] if fix else []),
                 "-o", plan_path)
    return imitated(b, o, name, fix, plan_path)


def check_busy(row, o):
    if row["host_busy"] >= BUSY_BAR and not o.any_load:
        raise bench.Rejected(f"{row['plan']}: the machine was {100 * row['host_busy']:.0f} % busy, allowed are {100 * BUSY_BAR:.0f} %")


def print_row(r):
    error = "" if r["exposed_error"] is None else f"{100 * r['exposed_error']:+6.1f}%"
    bench.say(f"{r['plan']:26} {r['predicted_step_s']:7.3f} s {r['measured_step_s']:7.3f} s {100 * r['error']:+6.1f}%   exposed "
              f"{r['predicted_exposed_s']:6.3f} s {r['measured_exposed_s']:6.3f} s {error:7}   busy {100 * r['host_busy']:3.0f}%   shortest "
              f"{1e3 * r['shortest_instruction_s']:.1f} ms   spread {100 * r['spread']:.1f}%")


def bars(b, rows, what):
    """what: "plans"."""
    worst, far = max(rows, key=lambda r: abs(r["error"])), max(rows, key=lambda r: r["exposed_away"])
    b.bar(f"largest |error| of the step over {len(rows)} {what} ({worst['plan']})", abs(worst["error"]), ERROR_BAR)
    b.bar(f"exposed communication of a stage, largest |predicted - measured| in shares of the step ({far['plan']})", far["exposed_away"],
          EXPOSED_BAR)
    b.bar("host busy, most of all runs", max(r["host_busy"] for r in rows), BUSY_BAR)


def compare(name_, all_plans, o):
    """Predicts and imitates each plan, (name, restriction) of all_plans; the result is stored under the name."""
    b = bench.Bench(name_, o)
    valid = True
    plans = [p for p in all_plans if not o.only or o.only.lower() in p[0].lower()]
    rows = []
    bench.say(f"{'plan':26} predicted  measured   error")
    for name, fix in plans:
        def once(_):
            row = one_plan(b, o, name, fix)
            print_row(row)
            check_busy(row, o)
            rows.append(row)
        valid = b.attempts(once) and valid
    b.rows, b.bars = rows, []
    b.notes = {"model": o.model, "cluster": o.cluster, "batch": o.batch}
    if rows:
        bars(b, rows, "plans")
    return b.finish(valid)
