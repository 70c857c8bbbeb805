# SPDX-License-Identifier: GPL-2.0-or-later
"""Network namespaces: making, entering, removing. All of ours are named rl<pid>-..., by the pid of the run."""
import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import time

CLONE_NEWNET = 0x40000000
NETNS_DIR = '/run/netns'
SCRATCH_DIR = '/tmp'
PREFIX = re.compile(r'^rl(\d+)-')

libc = ctypes.CDLL(None, use_errno=True)


def _setns(fd):
    if libc.setns(fd, CLONE_NEWNET):
        err = ctypes.get_errno()
        raise OSError(err, os.strerror(err))


class Failed(Exception):
    """A command of the set-up failed; says which one and why."""


def run(*argv, check=True, stdin=None, timeout=60):
    """Run a command; its standard output as text."""
    r = subprocess.run([str(a) for a in argv], input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL,
                       capture_output=True, text=True, timeout=timeout)
    if check and r.returncode:
        raise Failed(f'{" ".join(map(str, argv))}: exit {r.returncode}: {r.stderr.strip() or r.stdout.strip()}')
    return r.stdout


class Netns:
    """One network namespace; sockets and files opened inside enter() belong to it for good."""

    def __init__(self, name):
        self.name = name
        run('ip', 'netns', 'add', name)
        self.fd = os.open(f'{NETNS_DIR}/{name}', os.O_RDONLY | os.O_CLOEXEC)
        self.inode = os.fstat(self.fd).st_ino
        run('ip', '-n', name, 'link', 'set', 'lo', 'up')

    @contextlib.contextmanager
    def enter(self):
        """The calling thread works inside the namespace."""
        home = os.open('/proc/thread-self/ns/net', os.O_RDONLY | os.O_CLOEXEC)
        try:
            _setns(self.fd)
            try:
                yield self
            finally:
                _setns(home)
        finally:
            os.close(home)

    def ip(self, *words, check=True):
        """ip(8) in the namespace; the words may come as one string."""
        if len(words) == 1:
            words = words[0].split()
        return run('ip', '-n', self.name, *words, check=check)

    def ip_json(self, words):
        out = run('ip', '-n', self.name, '-j', *words.split())
        return json.loads(out or '[]')

    def batch(self, lines, force=False):
        """Many ip(8) commands in one process."""
        text = lines if isinstance(lines, str) else '\n'.join(lines) + '\n'
        return run('ip', '-n', self.name, *(['-force'] if force else []), '-batch', '-', stdin=text,
                   check=not force)

    def argv(self, *argv):
        """The command line that runs @argv inside, with /sys of the namespace, dying with this process."""
        return ['ip', 'netns', 'exec', self.name, 'setpriv', '--pdeathsig', 'KILL', '--'] + [str(a) for a in argv]

    def run(self, *argv, **kw):
        return run(*self.argv(*argv), **kw)

    def popen(self, *argv, **kw):
        kw.setdefault('stdin', subprocess.DEVNULL)
        return subprocess.Popen(self.argv(*argv), **kw)

    def sysctl(self, key, value):
        with self.enter(), open('/proc/sys/' + key.replace('.', '/'), 'w') as f:
            f.write(str(value))

    def sysctls(self, settings):
        with self.enter():
            for key, value in settings.items():
                with open('/proc/sys/' + key.replace('.', '/'), 'w') as f:
                    f.write(str(value))

    def processes(self):
        return processes_in(self.inode)

    def delete(self):
        if self.fd < 0:
            return
        os.close(self.fd)
        self.fd = -1
        remove(self.name)


def processes_in(inode):
    """pids of the processes inside the namespace with this inode number, not us."""
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            if int(pid) != os.getpid() and os.stat(f'/proc/{pid}/ns/net').st_ino == inode:
                found.append(int(pid))
        except OSError:
            continue
    return found


def remove(name):
    """Kill what runs in the namespace (by pid) and remove it."""
    path = f'{NETNS_DIR}/{name}'
    try:
        inode = os.stat(path).st_ino
    except FileNotFoundError:
        return
    for _ in range(50):
        pids = processes_in(inode)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not pids:
            break
        time.sleep(0.02)
    run('ip', 'netns', 'del', name, check=False)


def _pid_alive(pid):
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False


def left_over():
    """Names of namespaces of runs that are dead."""
    try:
        names = os.listdir(NETNS_DIR)
    except FileNotFoundError:
        return []
    ours = [(n, PREFIX.match(n)) for n in names]
    return sorted(n for n, m in ours if m and not _pid_alive(int(m.group(1))))


def clean_left_overs():
    """Remove namespaces and scratch directories of dead runs. What was removed."""
    removed = left_over()
    for name in removed:
        remove(name)
    for entry in os.listdir(SCRATCH_DIR):
        m = PREFIX.match(entry)
        if m and not _pid_alive(int(m.group(1))):
            shutil.rmtree(os.path.join(SCRATCH_DIR, entry), ignore_errors=True)
            removed.append(os.path.join(SCRATCH_DIR, entry))
    return removed
