"""Hosts on one machine: each with its own processes, network, host name and mounts, on a bridge that leads nowhere else.

They are made by unshare(1) and ended by killing its process, with which the kernel ends all that runs in them; they also end with
the process that made them, however that ends.  With sshd, and
with Slurm as Debian packs it, there is what mpmon meets on a cluster.  Nothing outside is changed: what Slurm wants of control
groups, and a file of host names, is mounted for these hosts only.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Container, Sequence
from pathlib import Path
from typing import final

import pytest

from tests.patience import becomes, ran, status_of

FRONT = "front"
FABRIC = "eth1"
"""The second network, where there is one: between hosts only, as that of a cluster over which jobs talk."""

_NETWORKS = {"eth0": "10.77", FABRIC: "10.78"}
_NETWORK = _NETWORKS["eth0"]

_INIT = "trap : CHLD TERM; while :; do sleep 100000 & wait; done"
"""bash as the first process also takes the orphans."""

NEEDED = {
    "ssh": ("ip", "setpriv", "unshare", "nsenter", "sshd", "ssh", "ssh-keygen"),
    "slurm": ("slurmd", "slurmctld", "srun", "munged"),
}
"""Programs, by what is to run on the hosts."""

_SLURM = """\
ClusterName=lab
SlurmctldHost=front({front})
AuthType=auth/munge
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool/%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerNode=2000
NodeName=h[1-{count}] CPUs=16 RealMemory=4000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def skip_without(*kinds: str) -> None:
    """Skip a test where there is no such lab to be had."""
    if os.geteuid() != 0:
        pytest.skip("only root can make hosts of namespaces everywhere")
    missing = [name for kind in ("ssh", *kinds) for name in NEEDED[kind] if not _path(name)]
    if missing:
        pytest.skip(f"these programs are missing here: {', '.join(missing)}")
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "true"], check=False, capture_output=True
    )
    if tried.returncode:
        pytest.skip("no namespaces can be made here")


def _path(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def _end(name: str, device: str) -> str:
    """Of a cable, at the bridge."""
    return name if device == "eth0" else f"{name}-{device}"


@final
class Lab:
    """Some hosts `h1`, `h2` ... and one `front` from which they are reached."""

    def __init__(self, count: int, *, slurm: bool = False, fabric: bool = False, poorer: Container[str] = ()) -> None:
        self._temporary = tempfile.TemporaryDirectory(dir="/tmp")
        self.folder = Path(self._temporary.name)
        self.folder.chmod(0o755)
        self._inits: dict[str, int] = {}
        self._unshares: dict[str, subprocess.Popen[bytes]] = {}
        self._log = (self.folder / "init.log").open("ab")
        self._slurm = slurm
        self._fabric = fabric
        self._poorer = poorer
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm" / "slurm.conf")}
        self.environment["PATH"] += ":/usr/sbin:/sbin"
        try:
            self._make(count)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._unshares.values():
            process.kill()  # --kill-child: the first process of the host goes with it, and all others with that
            process.wait()
        self._log.close()
        self._temporary.cleanup()

    # Hosts

    def _make(self, count: int) -> None:
        addresses = {f"h{number}": f"{_NETWORK}.0.{number}" for number in range(1, count + 1)}
        addresses[FRONT] = f"{_NETWORK}.255.254"
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in addresses.items())]
        (self.folder / "hosts").write_text("\n".join(lines) + "\n")
        self._host(FRONT)
        self._ip(FRONT, "link add br0 type bridge", "link set br0 up", f"addr add {addresses[FRONT]}/16 dev br0")
        for name in sorted(set(addresses) - {FRONT}):
            self._host(name)
            self._wire(name, "eth0", addresses[name], "br0")
        if self._fabric:
            self._ip(FRONT, "link add br1 type bridge", "link set br1 up")
            for name in sorted(set(addresses) - {FRONT}):
                self._wire(name, FABRIC, addresses[name].replace(_NETWORK, _NETWORKS[FABRIC]), "br1")
        self._start_ssh(sorted(set(addresses) - {FRONT}))
        if self._slurm:
            self._start_slurm(sorted(set(addresses) - {FRONT}))

    def _wire(self, name: str, device: str, address: str, bridge: str) -> None:
        """A cable from a host to a bridge."""
        end = _end(name, device)
        self._ip(FRONT, f"link add {end} type veth peer name {device} netns {self._inits[name]}",
                 f"link set {end} master {bridge}", f"link set {end} up")  # fmt: skip
        self._ip(name, f"addr add {address}/16 dev {device}", f"link set {device} up")

    def _host(self, name: str) -> None:
        ready = self.folder / f"{name}.ready"
        steps = [
            f"hostname {name}", "ip link set lo up", f"mount --bind {self.folder}/hosts /etc/hosts",
            "mount -t tmpfs shm /dev/shm", "mount -t tmpfs run /run", "mkdir -p /run/sshd /run/munge",
        ]  # fmt: skip
        if self._slurm:
            # slurmd 22.05 does not start without control groups, nor with both versions of them: one empty hierarchy does.
            steps += ["mount -t tmpfs none /sys/fs/cgroup", "mkdir -p /sys/fs/cgroup/systemd",
                      "mount -t cgroup -o none,name=systemd none /sys/fs/cgroup/systemd"]  # fmt: skip
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL",
             "unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c",
             f"set -e; {'; '.join(steps)}; set +e; : > {ready}; {_INIT}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._log, start_new_session=True,
        )  # fmt: skip
        self._unshares[name] = process
        while not ready.exists():
            assert process.poll() is None, (self.folder / "init.log").read_text()
            time.sleep(0.002)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        self._inits[name] = int(children[0])

    def _ip(self, name: str, *commands: str) -> None:
        """In the network of a host and else here, where its processes have the numbers that are known."""
        subprocess.run(
            ["nsenter", "-t", str(self._inits[name]), "-n", "ip", "-batch", "-"], input="\n".join(commands) + "\n",
            env=self.environment, text=True, check=True,
        )  # fmt: skip

    def on(self, name: str, *words: str) -> list[str]:
        """The words that run a command on a host."""
        return ["nsenter", "-t", str(self._inits[name]), "-n", "-m", "-u", "-i", "-p", "--", *words]

    def run(self, name: str, *words: str, said: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
        """A command on a host, to its end."""
        answer = ran(self.on(name, *words), said=said, seconds=120.0, env=self.environment, cwd="/")
        assert not check or answer.returncode == 0, (words, answer.stdout, answer.stderr)
        return answer

    def start(self, name: str, words: Sequence[str], **given: object) -> subprocess.Popen[bytes]:
        """A command on a host; it ends with the host at the latest."""
        return subprocess.Popen(
            self.on(name, *words),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
            **given,
        )

    def kill(self, name: str) -> None:
        """The machine is gone: nothing answers any more."""
        os.kill(self._inits[name], signal.SIGKILL)

    def cut(self, name: str, device: str = "eth0") -> None:
        """Its cable is out: it lives, and its packets do not arrive."""
        self._ip(FRONT, f"link set {_end(name, device)} down")

    def mend(self, name: str, device: str = "eth0") -> None:
        """Its cable is in again."""
        self._ip(FRONT, f"link set {_end(name, device)} up")

    # What runs on them

    def _start_ssh(self, names: Sequence[str]) -> None:
        keys = self.folder / "ssh"
        keys.mkdir()
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / name)], check=True)
        (keys / "sshd_config").write_text(
            f"Port 22\nHostKey {keys}/host\nAuthorizedKeysFile {keys}/user.pub\nStrictModes no\nUsePAM no\n"
            "PasswordAuthentication no\nPermitRootLogin prohibit-password\nPidFile none\nUseDNS no\n"
        )
        (keys / "config").write_text(
            f"Host h*\n  User root\n  IdentityFile {keys}/user\n  UserKnownHostsFile {keys}/known\n  StrictHostKeyChecking yes\n"
        )
        kind, key, *_ = (keys / "host.pub").read_text().split()
        (keys / "known").write_text(f"h* {kind} {key}\n")
        ours = self.folder / "bin"
        ours.mkdir()
        (ours / "ssh").write_text(f'#!/bin/sh\nexec {_path("ssh")} -F {keys}/config "$@"\n')
        (ours / "ssh").chmod(0o755)
        self.environment["PATH"] = f"{ours}:{self.environment['PATH']}"
        for name in names:
            # One who comes in by a poorer sshd may not read the processes of those who have this capability.
            rights = ("setpriv", "--bounding-set=-sys_ptrace") if name in self._poorer else ()
            self.run(name, *rights, _path("sshd") or "", "-f", str(keys / "sshd_config"))

    def _start_slurm(self, names: Sequence[str]) -> None:
        folder = self.folder / "slurm"
        for inner in ("log", "spool", "state"):
            (folder / inner).mkdir(parents=True)
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        (folder / "cgroup.conf").write_text("# the defaults\n")
        conf = folder / "slurm.conf"
        conf.write_text(_SLURM.format(front=f"{_NETWORK}.255.254", folder=folder, count=len(names)))
        for name in (FRONT, *names):
            self.run(name, "munged", "--force", f"--key-file={key}", "--socket=/run/munge/munge.socket.2", "--num-threads=1",
                     "--pid-file=/run/munge/pid", "--log-file=/run/munge/log", "--seed-file=/run/munge/seed")  # fmt: skip
        self._daemon(FRONT, "slurmctld", "-f", str(conf))
        for name in names:
            self._daemon(name, "slurmd", "-f", str(conf), "-N", name)
        assert becomes(lambda: self._nodes() == f"idle {len(names)}"), self._nodes()

    def _nodes(self) -> str:
        """How many are in which state, as Slurm says."""
        return self.run(FRONT, "sinfo", "-h", "-o", "%T %D").stdout.strip()

    def _daemon(self, name: str, *words: str) -> None:
        """One that keeps the streams it was started with."""
        process = self.start(name, words, stdout=self._log, stderr=self._log)
        assert status_of(process) == 0, (self.folder / "init.log").read_text()
