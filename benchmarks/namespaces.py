"""Hosts on one machine: network namespaces with host names of their own, each joined by a virtual cable to a switch in a namespace more. Needs
root and iproute2."""
import os
import shutil
import signal
import subprocess


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=False)


class Hosts:
    """As a context; why_not: what is missing here, None: nothing."""

    def __init__(self, count):
        self.names = [f"host-{i}" for i in range(count)]
        self.spaces = [f"cleave-{os.getpid()}-{name}" for name in [*self.names, "switch"]]
        self.made, self.why_not = [], None

    def address(self, host):
        return f"10.78.0.{host + 1}"

    def __enter__(self):
        if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("unshare"):
            self.why_not = "network namespaces need root, ip and unshare"
            return self
        steps = [["netns", "add", space] for space in self.spaces]
        switch = ["-n", self.spaces[-1]]
        steps += [[*switch, "link", "add", "bridge", "type", "bridge"], [*switch, "link", "set", "bridge", "up"]]
        for host, name in enumerate(self.names):
            inner = ["-n", self.spaces[host]]
            steps += [[*switch, "link", "add", name, "type", "veth", "peer", "name", "cable", "netns", self.spaces[host]],
                      [*switch, "link", "set", name, "master", "bridge", "up"], [*inner, "addr", "add", f"{self.address(host)}/24", "dev", "cable"],
                      [*inner, "link", "set", "cable", "up"], [*inner, "link", "set", "lo", "up"]]
        for step in steps:
            done = ip(*step)
            if done.returncode != 0:
                self.why_not = f"ip {' '.join(step)}: {done.stderr.strip()}"
                return self
            if step[:2] == ["netns", "add"]:
                self.made.append(step[2])
        return self

    def __exit__(self, *_):
        for space in self.made:
            for process in ip("netns", "pids", space).stdout.split():
                try:
                    os.kill(int(process), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            ip("netns", "del", space)

    def set_link(self, host, state):
        """Of the switch's end, so that the host itself sees a cable without the other's signal."""
        ip("-n", self.spaces[-1], "link", "set", self.names[host], state)

    def start(self, host, command, **more):
        inside = ["ip", "netns", "exec", self.spaces[host], "unshare", "--uts", "sh", "-c", f'hostname {self.names[host]} && exec "$@"', "sh"]
        return subprocess.Popen([*inside, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
