"""Memory of a plan's ranks: what the planner promised, what is laid out, and what steps with real mathematics touch of it (`cleave run
--poison`, docs/running.md)."""
import json
import bench

OVER_BAR, UNTOUCHED_BAR = 0.02, 0.02
STEPS = 2  # asynchronous schedules have an opening, and a second step runs into the first one


def promised(b, path):
    """Bytes by stage, of the device and of the host: what stands in the plan file, or what the search would have written there of a
    plan that was changed by hand."""
    with open(path, encoding="utf-8") as file:
        predicted = json.load(file).get("predicted")
    if predicted:
        return predicted["peak_bytes"], predicted.get("host_bytes")
    stages = json.loads(b.run_cleave("simulate", path, "--json")[0])["stages"]
    return [s["promised_bytes"] for s in stages], None


def of_ranks(b, path):
    """Bytes by rank."""
    output, _, _ = b.run_cleave("run", path, "--poison", "--steps", str(STEPS), "--json")
    summary = bench.step_times(output)[1]
    if summary["last_loss"] is None:
        raise bench.Failed(f"{path}: the loss of a poisoned run is no number: a step reads what nobody wrote")
    stages, (device, host) = [r["stage"] for r in summary["ranks"]], promised(b, path)
    bytes_ = {"stage": stages, "promised": [device[s] for s in stages], "arena": summary["predicted_peak_bytes"],
              "touched": summary["peak_bytes"]}
    if host:
        bytes_.update(host_promised=[host[s] for s in stages], host_arena=summary["predicted_host_peak_bytes"],
                      host_touched=summary["host_peak_bytes"])
    if "allocated_bytes" in summary:
        bytes_["allocated_by_a_step"] = summary["allocated_bytes"]
    return bytes_


def shares(bytes_, what):
    """Of each rank's arena, on the device and on the host: what else there is of it, over the arena."""
    return [some / arena for host in ("", "host_") for some, arena in zip(bytes_.get(host + what, []), bytes_.get(host + "arena", []))
            if arena > 0]


def text(bytes_):
    return (f"arena {max(bytes_['arena']) / 2**20:.2f} MiB   promised {100 * (max(shares(bytes_, 'promised')) - 1):+.1f}%   "
            f"touched {100 * min(shares(bytes_, 'touched')):.1f}%")


def bars(b, rows):
    """Of rows with "bytes"."""
    def most(of):
        row = max(rows, key=of)
        return of(row), row["plan"]
    below, name = most(lambda r: 1 - min(shares(r["bytes"], "promised")))
    b.bar(f"memory: arena above what was promised, most of all ranks ({name})", below, 0)
    above, name = most(lambda r: max(shares(r["bytes"], "promised")) - 1)
    b.bar(f"memory: promised above the arena, most of all ranks ({name})", above, OVER_BAR)
    beyond, name = most(lambda r: max(shares(r["bytes"], "touched")) - 1)
    b.bar(f"memory: touched above the arena, most of all ranks ({name})", beyond, 0)
    idle, name = most(lambda r: 1 - min(shares(r["bytes"], "touched")))
    b.bar(f"memory: never touched of the arena, most of all ranks ({name})", idle, UNTOUCHED_BAR)
    allocated, name = most(lambda r: r["bytes"].get("allocated_by_a_step", 0))
    b.bar(f"memory: allocated by a step beside its arenas ({name})", allocated, 0, "bytes", 1)
