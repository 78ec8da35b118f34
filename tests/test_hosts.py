#!/usr/bin/env python3
"""Three hosts on one machine: network namespaces, with host names of their own, joined by virtual cables to a switch in
a fourth. Needs root and iproute2; exits 77 where that is not permitted. usage: test_hosts.py CLEAVE SOURCE_ROOT"""
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

from calls import CLEAVE, process_of_rank

HOSTS = {"host-a": "10.77.0.1", "host-b": "10.77.0.2", "host-c": "10.77.0.3"}
SPACE = {host: f"cleave-{os.getpid()}-{host}" for host in HOSTS}
SWITCH = f"cleave-{os.getpid()}-switch"
spaces_made = []
HANGS_S, NEVER_S = 120, 600
SOON_S = 5  # longer than a rank of a loaded machine is silent
failures = []


def check(name, condition, detail=""):
    print(f"{'ok' if condition else 'FAILED'}: {name}", flush=True)
    if not condition:
        failures.append(f"{name}\n{detail}")


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True)


def inside(host):
    """What stands before a command that is to run on the host."""
    return ["ip", "netns", "exec", SPACE[host], "unshare", "--uts", "sh", "-c", f'hostname {host} && exec "$@"', "sh"]


def cable_steps(host, address):
    """No end of it is ever outside the namespaces."""
    inner = ["-n", SPACE[host]]
    return [["-n", SWITCH, "link", "add", host, "type", "veth", "peer", "name", "cable", "netns", SPACE[host]],
            ["-n", SWITCH, "link", "set", host, "master", "bridge", "up"],
            [*inner, "addr", "add", f"{address}/24", "dev", "cable"],
            [*inner, "link", "set", "cable", "up"], [*inner, "link", "set", "lo", "up"]]


def build_network():
    for space in [SWITCH, *SPACE.values()]:
        result = ip("netns", "add", space)
        if result.returncode:
            return f"ip netns add: {result.stderr.strip()}"
        spaces_made.append(space)
    steps = [["-n", SWITCH, "link", "add", "bridge", "type", "bridge"], ["-n", SWITCH, "link", "set", "bridge", "up"]]
    for step in steps + [step for host, address in HOSTS.items() for step in cable_steps(host, address)]:
        result = ip(*step)
        if result.returncode:
            return f"ip {' '.join(step)}: {result.stderr.strip()}"
    result = subprocess.run([*inside("host-c"), "hostname"], capture_output=True, text=True)
    return None if result.stdout.strip() == "host-c" else f"host names: {result.stderr.strip()}"


def remove_network():
    """What was made of it, and what still runs there."""
    for space in spaces_made:
        for process in ip("netns", "pids", space).stdout.split():
            try:
                os.kill(int(process), signal.SIGKILL)
            except ProcessLookupError:
                pass
        ip("netns", "del", space)


@dataclasses.dataclass
class Job:
    plan: str
    hosts: list  # of each rank
    wanted: list  # losses


def hosts_of(ranks_per_host):
    return [host for host in HOSTS for _ in range(ranks_per_host)]


def torchrun_like(rank, hosts):
    """Plain shells: everything by hand."""
    return {"RANK": str(rank), "WORLD_SIZE": str(len(hosts)), "MASTER_ADDR": HOSTS["host-a"], "MASTER_PORT": "29600",
            "CLEAVE_JOB_TOKEN": "between us"}


def slurm_like(rank, hosts):
    local = hosts[:rank].count(hosts[rank])
    return {"SLURM_PROCID": str(rank), "SLURM_NTASKS": str(len(hosts)), "SLURM_LOCALID": str(local), "SLURM_JOB_ID": "17",
            "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "10.77.0.[1-3]"}


def start(variables, arguments, hosts):
    return [subprocess.Popen([*inside(host), CLEAVE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env={**os.environ, **variables(rank, hosts)}) for rank, host in enumerate(hosts)]


def finish(processes, patience_s=HANGS_S):
    """Exit codes, standard outputs and errors by rank. No claim about speed: who takes so long is taken to hang."""
    results = []
    for process in processes:
        try:
            out, err = process.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            err += "\n(killed by the test: it did not end)"
        results.append((process.returncode, out, err))
    return results


def losses(text):
    return [json.loads(line)["loss"] for line in text.splitlines() if '"step"' in line and '"loss"' in line]


def equal_bits(job, what):
    run = ["run", job.plan, "--transport", "tcp", "--steps", "3", "--json"]
    for name, variables in [("plain shells", torchrun_like), ("Slurm's variables", slurm_like)]:
        results = finish(start(variables, run, job.hosts))
        check(f"{what}, {name}: all ranks end well", all(r[0] == 0 for r in results), results)
        check(f"{what}, {name}: the losses of threads, to the last bit", losses(results[0][1]) == job.wanted, results[0])


def wrong_places(job):
    cluster = "but the plan's cluster 3x2:cpu has"
    a, b, c = HOSTS
    for name, hosts, told in [
            ("ranks of one node on two hosts", [a, b, a, b, c, c], f"rank 0 runs on host {a} and rank 1 on host {b}, {cluster} both in one node"),
            ("two nodes on one host", [a, a, b, b, a, a], f"rank 0 and rank 4 both run on host {a}, {cluster} them in different nodes")]:
        results = finish(start(torchrun_like, ["run", job.plan, "--transport", "tcp", "--steps", "3"], hosts))
        check(f"{name} are refused", all(r[0] == 2 and told in r[2] for r in results), results)


def wait_for_steps(process):
    """Until the ranks have told each other of a step: they do so four times a second, and what they told at first is that they
    have begun nothing."""
    process.stdout.readline()
    until = time.monotonic() + 1
    while time.monotonic() < until:
        if not process.stdout.readline():
            return


def trouble(job, name, deed, patterns, timeout_s):
    """deed(processes) happens while all run; then every rank that still can ends with exit 1, and one says what happened.
    With a timeout beyond HANGS_S they end because they are told, not because time is up."""
    ranks = start(torchrun_like, ["run", job.plan, "--transport", "tcp", "--steps", "200000", "--timeout", str(timeout_s)], job.hosts)
    wait_for_steps(ranks[0])
    spared = deed(ranks)
    results = finish([ranks[r] for r in spared])
    check(f"{name}: the others end with exit 1", all(r[0] == 1 for r in results), results)
    for rank, result in zip(spared, results):
        check(f"{name}: rank {rank} says who and where", any(re.search(p, result[2], re.S) for p in patterns), result[2])
    for process in ranks:
        if process.poll() is None:
            process.kill()
        process.communicate()


def kill_last(ranks):
    ranks[5].send_signal(signal.SIGKILL)
    return [0, 1, 2, 3, 4]


def kill_first(ranks):
    ranks[0].send_signal(signal.SIGKILL)
    return [1, 2, 3, 4, 5]


def stop_one(ranks):
    ranks[2].send_signal(signal.SIGSTOP)
    return [0, 1, 3, 4, 5]


def set_cable(state):
    ip("-n", SPACE["host-c"], "link", "set", "cable", state)


def cut_cable(ranks):
    set_cable("down")
    return list(range(len(ranks)))


def mpirun_setup(job, folder):
    """What stands before the program, and the environment, of Open MPI over all hosts: its agent enters the namespaces."""
    agent = folder / "agent"
    cases = "".join(f'{address}) space={SPACE[host]} name={host} ;;\n' for host, address in HOSTS.items())
    agent.write_text(f'#!/bin/sh\ncase "$1" in\n{cases}esac\nshift\n'
                     'exec ip netns exec "$space" unshare --uts sh -c "hostname $name && exec $*"\n')
    agent.chmod(agent.stat().st_mode | stat.S_IXUSR)
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "OMPI_MCA_plm_rsh_agent": str(agent), "OMPI_MCA_rmaps_base_oversubscribe": "1",
           "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_btl_tcp_if_include": "10.77.0.0/24",
           "OMPI_MCA_oob_tcp_if_include": "10.77.0.0/24"}
    hosts = ",".join(f"{address}:{job.hosts.count(host)}" for host, address in HOSTS.items())
    return [*inside("host-a"), "mpirun", "-n", str(len(job.hosts)), "--host", hosts], env


def by_mpirun(job, what, folder):
    """Whether mpirun and the module are there."""
    if not shutil.which("mpirun"):
        print("skipped: mpirun is not installed")
        return False
    mpirun, env = mpirun_setup(job, folder)
    meet = {"MASTER_ADDR": HOSTS["host-a"], "MASTER_PORT": "29601"}
    for transport, given in [("mpi", {}), ("mpi", meet), ("tcp", meet)]:
        command = [*mpirun, *[word for name in given for word in ("-x", name)], CLEAVE, "run", job.plan, "--transport", transport,
                   "--steps", "3", "--json"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**env, **given})
        if transport == "mpi" and "transport mpi is absent" in result.stderr:
            print("skipped: the MPI module is not built")
            return False
        name = f"{what}, mpirun, transport {transport}, {'MASTER_ADDR' if given else 'nothing said'}"
        check(f"{name}: ends well", result.returncode == 0 and "not watched" not in result.stderr, result)
        check(f"{name}: the losses of threads", losses(result.stdout) == job.wanted, result)
    return True


def trouble_by_mpirun(job, folder):
    mpirun, env = mpirun_setup(job, folder)
    line = r"rank 5 \(stage 2, host host-c\): step \d+, instruction \d+"
    mpi_trouble(job, "stopped", signal.SIGSTOP, mpirun, env, 1,
                rf"rank 5 on host host-c was not heard of for too long \(--timeout\); last seen: .*{line}")
    # mpirun ends all at once when a process dies, so that its own word may be the only one
    mpi_trouble(job, "killed", signal.SIGKILL, mpirun, env, None,
                r"rank 5 on host host-c died; last seen|process rank 5 .* exited on signal 9")
    # told to spare the others, mpirun waits for what does not come any more
    mpi_trouble(job, "killed, and the others spared", signal.SIGKILL, [*mpirun, "--enable-recovery"], env, None,
                rf"rank 5 on host host-c died; last seen: .*{line}", patience_s=12)


def mpi_trouble_once(job, sent, mpirun, env, patience_s):
    launcher = subprocess.Popen([*mpirun, CLEAVE, "run", job.plan, "--transport", "mpi", "--steps", "200000", "--timeout", "4"],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    wait_for_steps(launcher)
    os.kill(process_of_rank(5, job.plan), sent)
    return finish([launcher], patience_s)


def mpi_trouble(job, name, sent, mpirun, env, code, pattern, patience_s=HANGS_S):
    """A rank of the last host is killed or stopped while all run under mpirun, which itself is ended after so many seconds."""
    for _ in range(3):
        results = mpi_trouble_once(job, sent, mpirun, env, patience_s)
        if results[0][0] != -signal.SIGSEGV:  # seen in Open MPI 4.1.4: mpirun itself crashes while it forwards what a daemon logs
            break
        print(f"note: mpirun itself crashed, a rank is {name}: tried again")
    found = results[0][0]
    check(f"mpirun, a rank is {name}: ends badly", found == code if code else found != 0, results)
    check(f"mpirun, a rank is {name}: says who and where", re.search(pattern, results[0][2], re.S), results[0][2])


def make_job(folder, ranks_per_host, fixed):
    plan = str(folder / f"{fixed}.json")
    made = subprocess.run([CLEAVE, "plan", "tiny-gpt", "--cluster", f"3x{ranks_per_host}:cpu", "--batch", "6", "--seq", "32",
                           "--fix", fixed, "-o", plan], capture_output=True, text=True)
    check(f"a plan, {fixed}", made.returncode == 0, made.stderr)
    threads = subprocess.run([CLEAVE, "run", plan, "--steps", "3", "--json"], capture_output=True, text=True)
    wanted = losses(threads.stdout)
    check(f"threads, {fixed}", threads.returncode == 0 and len(wanted) == 3, threads.stderr)
    return Job(plan, hosts_of(ranks_per_host), wanted)


def all_troubles(job):
    line = r"rank 5 \(stage 2, host host-c\): step \d+, instruction \d+"
    trouble(job, "a rank dies on the last host", kill_last, [rf"rank 5 on host host-c died; last seen: .*{line}"], NEVER_S)
    trouble(job, "rank 0 dies", kill_first, [r"rank 0 (on host host-a )?died; last seen: .*rank 0 \(stage 0, host host-a\): step"], NEVER_S)
    trouble(job, "a rank hangs on another host", stop_one,
            [r"rank 2 on host host-b was not heard of for too long \(--timeout\); last seen: .*rank 2 \(stage 1, host host-b\): step", r"no rank made progress for 5 s .*rank 2 \(stage 1"],
            SOON_S)
    trouble(job, "one of three cables is cut", cut_cable, [r"rank \d( on host host-\w)? was not heard of", r"no rank made progress for 5 s"], SOON_S)
    set_cable("up")


def all_checks(folder):
    pairs = make_job(folder, 2, "pp=3,dp=2")  # a stage on each host
    singles = make_job(folder, 1, "dp=3")  # every sum goes over all hosts
    crossed = make_job(folder, 2, "dp=3,tp=2")
    for job, what in [(pairs, "three stages of two ranks"), (singles, "one rank a host"), (crossed, "sums over and within hosts")]:
        equal_bits(job, what)
    wrong_places(pairs)
    all_troubles(pairs)
    if by_mpirun(pairs, "three stages of two ranks", folder):
        by_mpirun(singles, "one rank a host", folder)
        trouble_by_mpirun(pairs, folder)


def main():
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("unshare"):
        print("skipped: network namespaces need root, ip and unshare")
        return 77
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was made is removed
    try:
        problem = build_network()
        if problem:
            print(f"skipped: {problem}")
            return 77
        with tempfile.TemporaryDirectory() as folder:
            all_checks(pathlib.Path(folder))
    finally:
        remove_network()
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
