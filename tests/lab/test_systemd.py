# SPDX-License-Identifier: GPL-2.0-or-later
"""routerd as a service of a real systemd, with the units of systemd/: what systemctl does under traffic, what the
journal says, with which privileges it runs (issue 3)."""
import glob
import os
import signal
import time

import pytest

from harness import kernel
from harness.container import Container, RouterdService, missing
from harness.frames import udp_packet
from harness.netns import Failed
from harness.routerd import SANITIZED
from harness.traffic import Stream

pytestmark = [pytest.mark.systemd, pytest.mark.routerd,
              pytest.mark.skipif(bool(missing()), reason=missing() or '-'),
              pytest.mark.skipif(SANITIZED, reason='the sandbox forbids what the sanitizers need')]
UNIT = 'routerd.service'
CAPS = {'NET_ADMIN': 12, 'NET_RAW': 13, 'PERFMON': 38, 'BPF': 39}
CAP_IPC_LOCK = 14   # harness/container.py gives it where systemd may not raise a limit
WATCHDOG_SECONDS = 5
EXPOSURE_MAX = 25   # tenths


@pytest.fixture
def make_service(make_lab):
    """A function like make_lab, whose router namespace has a booted systemd with routerd installed in it. With an
    @instance, systemd runs in a namespace of its own and the router's is /run/netns/INSTANCE."""
    containers = []

    def make(instance='', start=True, **kw):
        lab = make_lab(daemon=False, **kw)
        c = Container(lab.extra_netns('s') if instance else lab.router, lab.prefix)
        containers.append(c)
        c.boot()
        if instance:
            c.bind_netns(lab.router, instance)
        lab.daemon = RouterdService(c, lab._sections(), lab.router, instance)
        if start:
            lab.start_daemon()
        return lab

    yield make
    for c in containers:
        c.stop()


@pytest.fixture
def service(make_service):
    return make_service()


def assert_forwards(lab, count=3):
    """The next packets are routerd's, and leave right."""
    f = lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4))
    cap = lab.h2.capture()
    with lab.expect(forwarded=count):
        lab.h1.send([f] * count)
        assert cap.take(count, match=lambda eth: eth[14:] == lab.h2.received(f)[14:]) == [lab.h2.received(f)] * count
    cap.close()


def kernel_forwards(lab):
    return kernel.forwarded_by_kernel(kernel.counters(lab.router))


def status_of(pid):
    with open(f'/proc/{pid}/status') as f:
        return {line.split(':')[0]: line.split(':')[1].split() for line in f if ':' in line}


def rest_of_machine(name):
    """What of a container can be seen on this machine."""
    with open('/proc/self/mounts') as f:
        mounts = [line for line in f if name in line]
    groups = glob.glob(f'/sys/fs/cgroup/{name}') + glob.glob(f'/sys/fs/cgroup/*/{name}')
    return mounts + groups + glob.glob(f'/tmp/{name}*')


# ---- the container itself ----

def test_container_leaves_nothing(make_lab):
    lab = make_lab(daemon=False)
    c = Container(lab.router, lab.prefix).boot()
    assert c.run('cat', '/proc/1/comm').stdout == 'systemd\n'
    leader, name = c.leader, c.name
    assert rest_of_machine(name), 'this test looks in the wrong places'
    c.run('sh', '-c', 'setsid sleep 1000 > /dev/null 2>&1 &')
    assert lab.router.processes()
    c.stop()
    c.stop()
    assert not rest_of_machine(name)
    assert not os.path.exists(f'/proc/{leader}')
    assert not lab.router.processes()


def test_container_that_does_not_boot_leaves_nothing(make_lab, monkeypatch):
    lab = make_lab(daemon=False)
    monkeypatch.setattr('harness.container.BOOT_SECONDS', 0)
    c = Container(lab.router, lab.prefix)
    with pytest.raises(Failed, match='does not boot'):
        c.boot()
    assert not rest_of_machine(c.name)
    assert not lab.router.processes()


# ---- start: readiness, privileges, sandbox, journal ----

def test_started_means_forwarding(service):
    """Type=notify: when systemctl start returns, the very next packet is routerd's."""
    assert_forwards(service, 1)
    shown = service.daemon.show('ActiveState', 'SubState', 'StatusText', 'NRestarts')
    assert (shown['ActiveState'], shown['SubState'], shown['NRestarts']) == ('active', 'running', '0')
    assert 'lan' in shown['StatusText'] and 'wan' in shown['StatusText'], shown


def test_privileges(service):
    """The user routerd with exactly the capabilities of the unit, no way to more, system calls filtered."""
    status = status_of(service.daemon.main_pid())
    passwd = service.daemon.container.run('getent', 'passwd', 'routerd').stdout.split(':')
    assert status['Uid'] == [passwd[2]] * 4 and passwd[2] != '0' and status['Gid'] == [passwd[3]] * 4
    want = sum(1 << bit for bit in CAPS.values())
    for kind in ('CapEff', 'CapPrm', 'CapBnd', 'CapAmb'):
        assert int(status[kind][0], 16) & ~(1 << CAP_IPC_LOCK) == want, (kind, status[kind])
    assert status['NoNewPrivs'] == ['1'] and status['Seccomp'] == ['2']
    assert_forwards(service)


@pytest.mark.parametrize('missing_one', sorted(CAPS))
def test_no_capability_is_idle(make_service, missing_one):
    """Without any one of them routerd does not start, and says at what it failed."""
    lab = make_service(start=False)
    c = lab.daemon.container
    c.write(f'/etc/systemd/system/{UNIT}.d/less.conf',
            f'[Service]\nRestart=no\nCapabilityBoundingSet=~CAP_{missing_one}\nAmbientCapabilities=~CAP_{missing_one}\n')
    c.systemctl('daemon-reload')
    r = c.systemctl('start', UNIT, check=False)
    assert r.returncode != 0
    assert not lab.daemon.running()
    assert 'routerd: error: ' in lab.daemon.log()
    assert not any('xdp' in link for link in kernel.links(lab.router).values())


def test_sandbox(service):
    """What the daemon sees of the machine: nothing to write but its own directory, no devices but the TAP's."""
    c, pid = service.daemon.container, service.daemon.main_pid()
    with open(f'/proc/{pid}/mounts') as f:
        options = {line.split()[1]: line.split()[3].split(',') for line in f}   # the last mount at a place counts
    assert 'ro' in options['/'] and 'ro' in options['/sys'], options
    assert 'rw' in options['/run/routerd']
    r = c.systemctl('show', '--value', '--property=DevicePolicy,DeviceAllow', UNIT).stdout
    assert 'closed' in r and '/dev/net/tun rw' in r
    r = c.run('systemd-analyze', 'security', '--no-pager', f'--threshold={EXPOSURE_MAX}', UNIT, check=False)
    assert r.returncode == 0, r.stdout


def test_units_are_verified_where_they_are_installed(service):
    units = [f'/usr/lib/systemd/system/{u}' for u in (UNIT, 'routerd@.service', 'routerd.socket', 'routerd-metrics.socket')]
    r = service.daemon.container.run('systemd-analyze', 'verify', '--man=no', *units, check=False)
    assert not [line for line in (r.stdout + r.stderr).splitlines() if 'routerd' in line]


def test_journal(service):
    """Entries carry the fields by which an administrator filters."""
    entries = service.daemon.container.journal(UNIT)
    mine = [e for e in entries if e.get('SYSLOG_IDENTIFIER') == 'routerd' and e['_TRANSPORT'] == 'journal']
    assert [e for e in mine if 'ready' in e['MESSAGE'].split(':')[0] and e['PRIORITY'] == '6']
    for port in ('lan', 'wan'):
        about = service.daemon.container.journal(UNIT, f'PORT={port}')
        assert about, f'no entry with PORT={port}'
        assert all(e['SYSLOG_IDENTIFIER'] == 'routerd' and e['_SYSTEMD_UNIT'] == UNIT for e in about)


def test_second_instance_is_refused(service):
    """The first one goes on; the second says why not."""
    c = service.daemon.container
    r = c.run('/usr/sbin/routerd', '-c', service.daemon.config, check=False, timeout=20)
    assert r.returncode != 0
    assert 'another routerd is running' in r.stderr, r.stderr
    assert_forwards(service)


def test_wrong_configuration_fails_the_start(make_service):
    lab = make_service(start=False)
    c = lab.daemon.container
    c.write(lab.daemon.config, '[router]\nworkers = many\n\n[port lan]\n')
    r = c.systemctl('start', UNIT, check=False)
    assert r.returncode != 0
    assert f'{lab.daemon.config}:2: ' in lab.daemon.log()
    c.systemctl('stop', UNIT)
    assert not lab.daemon.running()


# ---- stop, restart, death, hang: under traffic ----

def test_stopped_under_traffic(make_service):
    lab = make_service(workers=2, queues=2)
    stream = Stream(lab, lab.h1, lab.h2.ip4, [lab.h2], pps=4000).start()
    time.sleep(0.4)
    lab.daemon.container.systemctl('stop', UNIT)
    time.sleep(0.3)
    lab.daemon.assert_stopped()
    stream.stop()
    assert len(stream.lost()) <= 40, f'{len(stream.lost())} of {stream.sent} lost by a planned stop'
    assert lab.daemon.show('Result') == 'success'
    lab.daemon.assert_log_clean()


def test_restarted_under_traffic(make_service):
    """systemctl restart, twice: a new process each time, which forwards when systemctl returns."""
    lab = make_service(workers=2, queues=2)
    lab.kernel_forwards_freely = True
    stream = Stream(lab, lab.h1, lab.h2.ip4, [lab.h2], pps=4000).start()
    pids = [lab.daemon.main_pid()]
    for _ in range(2):
        time.sleep(0.3)
        lab.daemon.container.systemctl('restart', UNIT)
        pids.append(lab.daemon.main_pid())
    time.sleep(0.3)
    stream.stop()
    assert len(set(pids)) == 3
    assert lab.daemon.show('NRestarts') == '0', 'a restart by systemctl is not one of Restart='
    assert len(stream.lost()) <= 80, f'{len(stream.lost())} of {stream.sent} lost by two restarts'
    assert not stream.doubled()
    assert_forwards(lab)


def test_upgraded_under_traffic(make_service):
    """Like a package: new programs renamed over the old, then a restart."""
    lab = make_service()
    lab.kernel_forwards_freely = True
    stream = Stream(lab, lab.h1, lab.h2.ip4, [lab.h2], pps=4000).start()
    exe = f'/proc/{lab.daemon.main_pid()}/exe'
    time.sleep(0.2)
    lab.daemon.install_programs()
    assert os.readlink(exe).endswith(' (deleted)')
    lab.daemon.container.systemctl('restart', UNIT)
    assert not os.readlink(f'/proc/{lab.daemon.main_pid()}/exe').endswith(' (deleted)')
    time.sleep(0.2)
    stream.stop()
    assert len(stream.lost()) <= 40, f'{len(stream.lost())} of {stream.sent} lost by the upgrade'
    assert_forwards(lab)


def test_killed_is_started_again(make_service):
    """kill -9 under traffic: the kernel forwards at once, systemd starts routerd again, which takes over."""
    lab = make_service(workers=2, queues=2)
    lab.kernel_forwards_freely = True
    stream = Stream(lab, lab.h1, lab.h2.ip4, [lab.h2], pps=4000).start()
    time.sleep(0.4)
    before, killed_at, pid = kernel_forwards(lab), stream.sent, lab.daemon.main_pid()
    os.kill(pid, signal.SIGKILL)
    time.sleep(0.5)
    assert kernel_forwards(lab) - before >= 1000
    lab.wait_for(lambda: lab.daemon.show('SubState') == 'running', 'the restart')
    time.sleep(0.3)
    stream.stop()
    lost = stream.lost()
    late = [n for n in lost if n >= killed_at + 400]
    assert len(lost) - len(late) <= 400, f'{len(lost)} lost by the kill'
    assert len(late) <= 40, f'{len(late)} lost later than 0.1 s after the kill'
    assert lab.daemon.show('NRestarts') == '1' and lab.daemon.main_pid() != pid
    assert_forwards(lab)


@pytest.mark.seconds(90)
def test_hung_is_replaced(make_service):
    """SIGSTOP: the kernel forwards within a second; the watchdog ends the process, a new one takes over."""
    lab = make_service()
    lab.kernel_forwards_freely = True
    stream = Stream(lab, lab.h1, lab.h2.ip4, [lab.h2], pps=2000).start()
    time.sleep(0.3)
    pid, stopped_at, start = lab.daemon.main_pid(), stream.sent, time.monotonic()
    os.kill(pid, signal.SIGSTOP)
    lab.wait_for(lambda: lab.daemon.show('NRestarts') == '1', 'the watchdog', WATCHDOG_SECONDS + 5)
    took = time.monotonic() - start
    lab.wait_for(lambda: lab.daemon.show('SubState') == 'running', 'the new process')
    time.sleep(0.3)
    stream.stop()
    late = [n for n in stream.lost() if n > stopped_at + 2000]
    # The watchdog's SIGABRT wakes the process for a moment: it may take packets along, as with kill -9, all at once.
    assert len(late) <= 200 and (not late or late[-1] - late[0] <= 400), \
        f'{len(late)} lost more than a second after the hang: {late[:3]}...{late[-3:]}'
    assert not [n for n in late if n < stopped_at + 2000 * (WATCHDOG_SECONDS - 2)], 'lost before the watchdog acted'
    assert took >= WATCHDOG_SECONDS - 2, f'ended after {took} s: not by the watchdog'
    assert [m for m in lab.daemon.container.messages(UNIT) if 'Watchdog timeout' in m]
    assert lab.daemon.main_pid() != pid
    assert_forwards(lab)


# ---- reload ----

def test_wrong_configuration_fails_the_reload(service):
    """systemctl reload says so, the journal where; the daemon does not hear of it and forwards on."""
    c, pid = service.daemon.container, service.daemon.main_pid()
    c.write(service.daemon.config, '[port lan]\nmode = warp\n')
    r = c.systemctl('reload', UNIT, check=False)
    assert r.returncode != 0
    assert [m for m in c.messages(UNIT) if f'{service.daemon.config}:2: ' in m]
    assert service.daemon.main_pid() == pid and service.daemon.show('ActiveState') == 'active'
    assert not [m for m in c.messages(UNIT) if 'SIGHUP' in m]
    assert_forwards(service)


# ---- one for each network namespace ----

def test_instance_in_a_network_namespace(make_service):
    """routerd@blue in /run/netns/blue, with files of its own. A namespace that is not there fails the start."""
    lab = make_service(instance='blue', start=False)
    c = lab.daemon.container
    lab.start_daemon()
    pid = lab.daemon.main_pid()
    assert os.stat(f'/proc/{pid}/ns/net').st_ino == lab.router.inode != lab.daemon.container.ns.inode
    assert os.path.exists(c.path('/run/routerd/blue/control.sock'))
    assert_forwards(lab)
    r = c.systemctl('start', 'routerd@green.service', check=False)
    assert r.returncode != 0 and not c.pids('routerd@green.service')
