# SPDX-License-Identifier: GPL-2.0-or-later
"""A real systemd, booted as PID 1 by systemd-nspawn inside a network namespace of the lab.

Its root is an overlay over this machine's own /, so it runs the very programs that are installed here; what it
writes lies in a tmpfs. Both are mounted in a mount namespace of their own, which ends with the last process: nothing
can stay mounted, whatever kills the test. /sys/fs/bpf does not exist inside.

class Container       boot, run, systemctl, journal, stop
class RouterdService  routerd installed in it as a service; stands in for Lab.daemon
"""
import contextlib
import glob
import json
import os
import resource
import shutil
import signal
import subprocess
import time

from . import kernel
from .netns import PREFIX, SCRATCH_DIR, Failed
from .routerd import METRICS, ROOT, Routerd, binary, config_text

BOOT_SECONDS = 30
CAP_SYS_RESOURCE = 24
# Not needed for a router and slow, or about to touch what belongs to the whole machine (sysctl, modules, time).
MASKED = '''
    timers.target systemd-timesyncd.service systemd-pstore.service systemd-firstboot.service systemd-sysctl.service
    systemd-modules-load.service systemd-binfmt.service proc-sys-fs-binfmt_misc.automount systemd-update-utmp.service
    systemd-random-seed.service systemd-machine-id-commit.service systemd-journal-flush.service kmod-static-nodes.service
    systemd-repart.service systemd-resolved.service systemd-networkd.service systemd-networkd.socket systemd-udevd.service
    sys-fs-fuse-connections.mount sys-kernel-config.mount sys-kernel-debug.mount sys-kernel-tracing.mount
    dev-hugepages.mount dev-mqueue.mount systemd-logind.service getty.target systemd-ask-password-console.path
    systemd-ask-password-wall.path apparmor.service e2scrub_reap.service cron.service ssh.service
'''.split()
# $1 = directory, $2 = name, $3 = network namespace, the rest = masked units
BOOT = r'''
set -e
dir=$1 name=$2 netns=$3; shift 3
for group in $(ls -d /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup 2> /dev/null); do
	[ -e "$group/cgroup.procs" ] || continue
	mkdir -p "$group/$name"
	echo $$ > "$group/$name/cgroup.procs"
done
mount -t tmpfs -o mode=0755 routerd-lab "$dir"
mkdir "$dir/upper" "$dir/work" "$dir/root"
units=$dir/upper/etc/systemd/system
mkdir -p "$units" "$dir/upper/etc/systemd/journald.conf.d"
for unit; do ln -s /dev/null "$units/$unit"; done
printf '[Journal]\nStorage=volatile\nForwardToConsole=no\n' > "$dir/upper/etc/systemd/journald.conf.d/lab.conf"
mount -t overlay routerd-lab -o "lowerdir=/,upperdir=$dir/upper,workdir=$dir/work" "$dir/root"
exec systemd-nspawn --quiet --directory="$dir/root" --machine="$name" --boot --network-namespace-path="$netns" \
	--register=no --keep-unit --link-journal=no --console=pipe --capability=all --system-call-filter=bpf \
	systemd.unit=basic.target systemd.show_status=no
'''


def missing():
    """Why no container can be booted here; '' when it can."""
    for program, package in (('systemd-nspawn', 'systemd-container'), ('/lib/systemd/systemd', 'systemd'),
                             ('nsenter', 'util-linux')):
        if not shutil.which(program):
            return f'{program} is missing: apt-get install {package}'
    if not _cgroup_roots():
        return 'no cgroup hierarchy is mounted below /sys/fs/cgroup'
    return ''


def _cgroup_roots():
    return [d for d in ('/sys/fs/cgroup/systemd', '/sys/fs/cgroup/unified', '/sys/fs/cgroup')
            if os.path.exists(d + '/cgroup.procs')]


def _end_cgroups(name):
    """Kill what is in the container's control groups, and remove them, innermost first, until they are gone."""
    for top in _cgroup_roots():
        base = f'{top}/{name}'
        for _ in range(200):
            for path, _, _ in os.walk(base, topdown=False):
                with contextlib.suppress(OSError), open(path + '/cgroup.procs') as f:
                    for pid in f.read().split():
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(int(pid), signal.SIGKILL)
                with contextlib.suppress(OSError):
                    os.rmdir(path)
            if not os.path.exists(base):
                break
            time.sleep(0.02)


def clean_left_overs():
    """Control groups of dead runs, with what runs in them."""
    for top in _cgroup_roots():
        for path in glob.glob(f'{top}/rl*-*'):
            m = PREFIX.match(os.path.basename(path))
            if m and not os.path.exists(f'/proc/{m.group(1)}'):
                _end_cgroups(os.path.basename(path))


class Container:
    """One booted systemd in the network namespace @ns (a Netns). stop() ends it, whatever state it is in."""

    def __init__(self, ns, name):
        self.ns, self.name = ns, f'{name}c'
        self.directory = f'{SCRATCH_DIR}/{self.name}'
        self.console_path = f'{self.directory}/console'   # below the tmpfs that the container sees there
        self.nspawn, self.leader = None, 0

    # ---- life ----
    def boot(self):
        reason = missing()
        if reason:
            raise Failed(reason)
        clean_left_overs()
        os.makedirs(self.directory)
        environment = {**os.environ, 'SYSTEMD_NSPAWN_UNIFIED_HIERARCHY': '1'}
        try:
            with open(self.console_path, 'wb') as console:
                self.nspawn = subprocess.Popen(
                    ['setpriv', '--pdeathsig', 'TERM', '--', 'unshare', '--mount', '--propagation', 'private', '--',
                     'sh', '-c', BOOT, 'boot', self.directory, self.name, f'/run/netns/{self.ns.name}', *MASKED],
                    stdin=subprocess.DEVNULL, stdout=console, stderr=console, env=environment, start_new_session=True)
            self._wait_booted()
        except BaseException:
            self.stop()
            raise
        return self

    def _wait_booted(self):
        deadline = time.monotonic() + BOOT_SECONDS
        while not self._is_booted():
            if self.nspawn.poll() is not None or time.monotonic() > deadline:
                raise Failed(f'the container does not boot (exit code {self.nspawn.poll()}):\n{self.console()}')
            time.sleep(0.05)

    def _is_booted(self):
        self.leader = self.leader or self._find_leader()
        return bool(self.leader) and \
            self.run('systemctl', 'is-active', 'basic.target', check=False).stdout == 'active\n'

    def _find_leader(self):
        """PID 1 of the container: nspawn's child once it has become systemd."""
        with open(f'/proc/{self.nspawn.pid}/task/{self.nspawn.pid}/children') as f:
            for pid in map(int, f.read().split()):
                with contextlib.suppress(OSError), open(f'/proc/{pid}/comm') as comm:
                    if comm.read() == 'systemd\n':
                        return pid
        return 0

    def stop(self):
        """End every process at once; mounts, process and mount namespaces go with them."""
        if self.nspawn is None:
            return
        # nspawn notices at once when its container dies, and reaps it; the other way round the container would live on
        if self.leader and self.nspawn.poll() is None:
            os.kill(self.leader, signal.SIGKILL)
        else:
            self.nspawn.kill()
        try:
            self.nspawn.wait(10)
        except subprocess.TimeoutExpired:
            self.nspawn.kill()
            self.nspawn.wait()
        _end_cgroups(self.name)
        self.nspawn, self.leader = None, 0
        shutil.rmtree(self.directory, ignore_errors=True)

    def console(self):
        with open(self.console_path, errors='replace') as f:
            return f.read()[-4000:]

    # ---- inside ----
    def path(self, inside):
        """A file of the container, seen from here."""
        return f'/proc/{self.leader}/root{inside}'

    def write(self, inside, text, mode=0o644):
        os.makedirs(os.path.dirname(self.path(inside)), exist_ok=True)
        with open(self.path(inside), 'w') as f:
            f.write(text)
        os.chmod(self.path(inside), mode)

    def install(self, source, inside, mode=0o644):
        """A copy of @source, put in place like a package manager does: beside the old one, then renamed."""
        os.makedirs(os.path.dirname(self.path(inside)), exist_ok=True)
        new = self.path(inside) + '.new'
        shutil.copyfile(source, new)
        os.chmod(new, mode)
        os.rename(new, self.path(inside))

    def argv(self, *argv):
        return ['nsenter', '--target', str(self.leader), '--mount', '--uts', '--ipc', '--net', '--pid', '--cgroup',
                '--root', '--wd=/', '--', 'env', '-i', 'PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'LANG=C.UTF-8',
                'SYSTEMD_PAGER=', *(str(a) for a in argv)]

    def run(self, *argv, check=True, timeout=60, stdin=None):
        """Run a command as root inside; the CompletedProcess, its output as text."""
        r = subprocess.run(self.argv(*argv), capture_output=True, text=True, timeout=timeout, input=stdin,
                           stdin=None if stdin is not None else subprocess.DEVNULL)
        if check and r.returncode:
            raise Failed(f'{" ".join(map(str, argv))}: exit {r.returncode}: {r.stderr.strip() or r.stdout.strip()}')
        return r

    def systemctl(self, *words, check=True, timeout=120):
        return self.run('systemctl', *words, check=check, timeout=timeout)

    def show(self, unit, *properties):
        """{property: value} of a unit; a single one: its value."""
        out = self.systemctl('show', unit, *(f'--property={p}' for p in properties)).stdout
        found = dict(line.split('=', 1) for line in out.splitlines() if '=' in line)
        return found[properties[0]] if len(properties) == 1 else found

    def journal(self, unit, *words):
        """The unit's entries in the journal as dictionaries, oldest first."""
        self.run('journalctl', '--sync')
        out = self.run('journalctl', '--unit', unit, '--output=json', '--all', '--no-pager', '--quiet', *words).stdout
        return [json.loads(line) for line in out.splitlines()]

    def messages(self, unit, *words):
        """The text of the unit's entries."""
        return [e.get('MESSAGE', '') for e in self.journal(unit, *words)]

    def bind_netns(self, ns, name):
        """Another network namespace @ns (a Netns) becomes /run/netns/@name inside."""
        self._check(ns.argv('nsenter', '--target', self.leader, '--mount', '--pid', '--root', '--wd=/', '--', 'sh', '-ec',
                            f'mkdir -p /run/netns; touch /run/netns/{name}; '
                            f'mount --bind /proc/self/ns/net /run/netns/{name}'))

    @staticmethod
    def _check(argv):
        r = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20)
        if r.returncode:
            raise Failed(f'{" ".join(argv)}: exit {r.returncode}: {r.stderr}')

    def pids(self, unit):
        """The processes of a service, by this machine's numbers; the main one first."""
        template, at, _ = unit.partition('@')
        where = f'system-{template}.slice/{unit}' if at else unit
        try:
            with open(self.path(f'/sys/fs/cgroup/system.slice/{where}/cgroup.procs')) as f:
                return sorted(map(int, f.read().split()))
        except OSError:
            return []


def _memlock_is_stuck(leader):
    """systemd cannot raise RLIMIT_MEMLOCK here: it lacks CAP_SYS_RESOURCE, as on some virtual machines."""
    with open(f'/proc/{leader}/status') as f:
        caps = next(int(line.split()[1], 16) for line in f if line.startswith('CapEff:'))
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    return not caps >> CAP_SYS_RESOURCE & 1 and hard != resource.RLIM_INFINITY


class RouterdService(Routerd):
    """routerd as a service of a Container, installed like by a package. Takes the place of Lab.daemon."""

    def __init__(self, container, sections, ns=None, instance=''):
        """@ns: where the ports are, if not in the container's own network namespace."""
        self.container, self.ns, self.process = container, ns or container.ns, None
        self.unit = f'routerd@{instance}.service' if instance else 'routerd.service'
        self.runtime = f'/run/routerd/{instance}'.rstrip('/')
        self.config = f'/etc/routerd/{instance or "routerd"}.ini'
        self.log_path = container.console_path
        self._last_log = ''
        self.sections = {k: dict(v) for k, v in sections.items()}
        if instance:
            self.sections.setdefault('control', {})['socket'] = f'{self.runtime}/control.sock'
        self.sections.setdefault('metrics', {}).setdefault('listen', f'{METRICS[0]}:{METRICS[1]}')
        self._install()

    @property
    def socket(self):
        return self.container.path(f'{self.runtime}/control.sock')

    def _install(self):
        c = self.container
        for unit in glob.glob(f'{ROOT}/systemd/*.service') + glob.glob(f'{ROOT}/systemd/*.socket'):
            c.install(unit, f'/usr/lib/systemd/system/{os.path.basename(unit)}')
        c.install(f'{ROOT}/systemd/routerd.conf', '/usr/lib/sysusers.d/routerd.conf')
        c.run('systemd-sysusers')
        self.install_programs()
        self.configure(self.sections)
        if _memlock_is_stuck(c.leader):
            c.write(f'/etc/systemd/system/{self.unit}.d/lab.conf',
                    '[Service]\nCapabilityBoundingSet=CAP_IPC_LOCK\nAmbientCapabilities=CAP_IPC_LOCK\n')
        # udev makes it so everywhere but here
        os.chmod(c.path('/dev/net/tun'), 0o666)
        c.systemctl('daemon-reload')

    def install_programs(self):
        """What a package's upgrade does to the programs."""
        self.container.install(binary('routerd'), '/usr/sbin/routerd', 0o755)
        self.container.install(binary('routerctl'), '/usr/bin/routerctl', 0o755)

    def configure(self, sections):
        self.container.write(self.config, config_text(sections))

    # ---- what Lab asks of a daemon ----
    def start(self, wait=True):
        r = self.container.systemctl('start', *([] if wait else ['--no-block']), self.unit, check=False)
        assert r.returncode == 0, f'{r.stderr}\n{self.log()}'

    def log(self):
        """The journal of the unit in the form of the daemon's own log."""
        names = {'3': 'error', '4': 'warning', '5': 'notice', '6': 'info', '7': 'debug'}
        if self.container.leader:
            self._last_log = ''.join(
                f'{e.get("SYSLOG_IDENTIFIER")}: {names.get(e.get("PRIORITY"), "emerg")}: {e.get("MESSAGE")}\n'
                for e in self.container.journal(self.unit))
        return self._last_log

    def running(self):
        return bool(self.container.leader and self.container.pids(self.unit))

    def main_pid(self):
        """By this machine's numbers."""
        return self.container.pids(self.unit)[0]

    def show(self, *properties):
        return self.container.show(self.unit, *properties)

    def terminate(self):
        """systemctl stop; the exit code. Then the container ends, too: what is left after that is the daemon's."""
        self.container.systemctl('stop', self.unit)
        shown = self.show('ActiveState', 'Result', 'ExecMainStatus')
        assert shown['ActiveState'] == 'inactive' and shown['Result'] == 'success', f'{shown}\n{self.log()}'
        self.assert_stopped()
        self.log()
        self.container.stop()
        return int(shown['ExecMainStatus'])

    def assert_stopped(self):
        """Nothing of the daemon is left, while systemd lives."""
        assert not self.running(), 'processes of the service are left'
        assert self.show('NFileDescriptorStore') == '0', 'systemd still stores descriptors'
        assert not os.path.exists(self.socket), 'the control socket is left'
        for link in kernel.links(self.ns).values():
            assert 'xdp' not in link, f'XDP is still attached: {link}'
            assert not link['ifname'].startswith('routerd'), f'the TAP is left: {link}'
        assert not kernel.packet_sockets(self.ns), 'packet sockets are left'

    def kill(self):
        self.container.stop()
