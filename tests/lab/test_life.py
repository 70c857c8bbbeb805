# SPDX-License-Identifier: GPL-2.0-or-later
"""Start, stop, death, neighbours on the same machine: fail-open, and nothing left behind (design promise 1)."""
import os
import signal
import subprocess
import time

import pytest

from harness import kernel
from harness.frames import udp_packet
from harness.routerd import METRICS, SANITIZED, Routerd, binary
from harness.traffic import Stream
from harness.wire import to

pytestmark = pytest.mark.routerd


def kernel_forwards(lab):
    return kernel.forwarded_by_kernel(kernel.counters(lab.router))


@pytest.mark.parametrize('mode', ('native', 'generic'))
@pytest.mark.sanitizer
def test_killed_the_kernel_forwards_at_once(make_lab, mode):
    """kill -9 under traffic: what was in the daemon's hands may be lost, after that the kernel forwards it all."""
    lab = make_lab(mode=mode, workers=2, queues=2 if mode == 'native' else 1)
    stream = Stream(lab, lab.h1, lab.h2.ip4, [lab.h2], pps=4000).start()
    time.sleep(0.5)
    before = kernel_forwards(lab)
    killed_at = stream.sent
    lab.daemon.kill()
    time.sleep(0.5)
    stream.stop()
    lost = stream.lost()
    assert len(lost) <= 400, f'{len(lost)} lost'
    assert all(n < killed_at + 400 for n in lost), 'still losing 0.1 s after the kill'
    assert kernel_forwards(lab) - before >= 1000
    links = kernel.links(lab.router)
    assert not any('xdp' in link for link in links.values()), 'the program is still attached'
    assert sorted(links) == lab._links_before, 'the TAP is still there'
    assert not lab.router.processes()
    # a new one starts over what is left (the socket file) and takes over without loss
    stream = Stream(lab, lab.h1, lab.h2.ip4, [lab.h2], pps=2000).start()
    lab.start_daemon()
    time.sleep(0.3)
    stream.stop()
    lab.kernel_forwards_freely = True
    lost = stream.lost()
    assert len(lost) <= 40, f'{len(lost)} of {stream.sent} lost at the start'
    f = lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4))
    with lab.expect(forwarded=1):
        lab.h1.send(f)


@pytest.mark.sanitizer
def test_hung_the_kernel_forwards_within_a_second(lab):
    """SIGSTOP: the heartbeat goes stale, the steer program passes everything; SIGCONT: routerd takes over again."""
    lab.kernel_forwards_freely = True
    stream = Stream(lab, lab.h1, lab.h2.ip4, [lab.h2], pps=2000).start()
    time.sleep(0.3)
    os.kill(lab.daemon.process.pid, signal.SIGSTOP)
    stopped_at = stream.sent
    time.sleep(2.0)
    os.kill(lab.daemon.process.pid, signal.SIGCONT)
    time.sleep(0.5)
    stream.stop()
    late = [n for n in stream.lost() if n > stopped_at + 2000]
    assert not late, f'{len(late)} lost more than a second after the hang'
    rows = lab.snapshot().reasons()
    assert rows['lan', 'stale'] > 1000
    f = lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4))
    with lab.expect(forwarded=1):
        lab.h1.send(f)


@pytest.mark.parametrize('signum', (signal.SIGTERM, signal.SIGINT))
@pytest.mark.sanitizer
def test_stopped_under_traffic(make_lab, signum):
    """A planned stop: exit 0, nothing left, the kernel goes on with hardly a packet lost."""
    lab = make_lab(workers=2, queues=2)
    stream = Stream(lab, lab.h1, lab.h2.ip4, [lab.h2], pps=4000).start()
    time.sleep(0.4)
    lab.daemon.process.send_signal(signum)
    assert lab.daemon.process.wait(15) == 0
    time.sleep(0.3)
    stream.stop()
    assert len(stream.lost()) <= 40, f'{len(stream.lost())} of {stream.sent} lost by a planned stop'
    lab.assert_nothing_left()
    lab.daemon.assert_log_clean()


def test_started_under_traffic(make_lab):
    lab = make_lab(daemon=False, workers=2, queues=2)
    stream = Stream(lab, lab.h1, lab.h2.ip4, [lab.h2], pps=4000).start()
    time.sleep(0.2)
    lab.start_daemon()
    time.sleep(0.5)
    stream.stop()
    lab.kernel_forwards_freely = True
    assert len(stream.lost()) <= 40, f'{len(stream.lost())} of {stream.sent} lost by the start'
    assert lab.snapshot().port('lan', 'forwarded') > 500


@pytest.mark.sanitizer
def test_started_and_stopped_again_and_again(make_lab):
    """No start finds anything of the one before."""
    lab = make_lab(daemon=False)
    for i in range(3 if SANITIZED else 10):
        open(lab.daemon.log_path, 'w').close()
        lab.start_daemon()
        f = lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4, payload=b'%d' % i))
        cap = lab.h2.capture()
        with lab.expect(forwarded=1):
            lab.h1.send(f)
            assert cap.take(1, to(lab.h2.ip4)) == [lab.h2.received(f)]
        lab.stop_daemon()


@pytest.mark.sanitizer
def test_two_routers_side_by_side(make_lab):
    """Two daemons in two namespaces, each with its own files: they do not know of each other, nor of each other's
    end."""
    labs = [make_lab(), make_lab(queues=2, workers=2)]
    for lab in labs:
        for family in (4, 6):
            f = lab.h1.frame(udp_packet(lab.h1.ip(family), lab.h2.ip(family)))
            cap = lab.h2.capture()
            with lab.expect(forwarded=1):
                lab.h1.send(f)
                assert cap.take(1, to(lab.h2.ip(family))) == [lab.h2.received(f)]
    labs[0].finish()
    lab = labs[1]
    with lab.expect(forwarded=1):
        lab.h1.send(lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4)))


def second(lab, sections, name='second'):
    """One more routerd in the same namespace."""
    directory = f'{lab.directory}/{name}'
    os.makedirs(directory, exist_ok=True)
    sections.setdefault('metrics', {'listen': 'off'})
    return Routerd(lab.router, directory, sections)


def fails(daemon, *words):
    """The daemon refuses to start, with a message that holds all the words."""
    daemon.start(wait=False)
    try:
        assert daemon.process.wait(20) not in (0, 99)
    except subprocess.TimeoutExpired:
        daemon.kill()
        raise AssertionError(f'routerd does not give up:\n{daemon.log()}') from None
    text = daemon.log()
    for word in words:
        assert word.lower() in text.lower(), f'no "{word}" in:\n{text}'
    assert 'Sanitizer' not in text


class TestRefusedStarts:
    def test_socket_in_use(self, lab):
        fails(second(lab, {'control': {'socket': lab.daemon.socket}, 'port lan': {}, 'port wan': {}}),
              lab.daemon.socket)
        self.still_forwards(lab)

    @pytest.mark.sanitizer
    def test_metrics_address_in_use(self, lab):
        fails(second(lab, {'metrics': {'listen': f'{METRICS[0]}:{METRICS[1]}'}, 'port lan': {}, 'port wan': {}}),
              f'{METRICS[0]}:{METRICS[1]}')
        self.still_forwards(lab)

    @pytest.mark.sanitizer
    def test_ports_in_use(self, lab):
        """The port already has an XDP program: named, with what to do; the first daemon is not disturbed."""
        other = second(lab, {'port lan': {}, 'port wan': {}})
        other.start(wait=False)
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and other.running() and 'lan' not in other.log():
            time.sleep(0.05)
        text = other.log()
        other.kill()
        assert 'lan' in text and 'xdp' in text.lower(), text
        self.still_forwards(lab)

    def test_zero_copy_asked_for_by_name(self, make_lab):
        """veth has none: a mode asked for by name is used or refused, with the reason."""
        lab = make_lab(daemon=False)
        daemon = second(lab, {'port lan': {'mode': 'zero-copy'}, 'port wan': {'mode': 'zero-copy'}})
        daemon.start(wait=False)
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and daemon.running() and 'zero-copy' not in daemon.log():
            time.sleep(0.05)
        text = daemon.log()
        daemon.kill()
        assert 'lan' in text and 'zero-copy' in text, text

    def test_mtu_too_large_for_native(self, make_lab):
        """afxdp-drivers 5.1: a peer MTU beyond 3506 refuses native XDP; the message names the MTU or the mode."""
        lab = make_lab(daemon=False, mtu={'lan': 9000, 'wan': 9000})
        daemon = second(lab, {'port lan': {'mode': 'native'}, 'port wan': {'mode': 'native'}})
        daemon.start(wait=False)
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and daemon.running() and 'mtu' not in daemon.log().lower():
            time.sleep(0.05)
        text = daemon.log()
        daemon.kill()
        assert 'lan' in text and 'mtu' in text.lower(), text

    @staticmethod
    def still_forwards(lab):
        with lab.expect(forwarded=1):
            lab.h1.send(lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4)))


@pytest.mark.sanitizer
def test_port_disappears_while_running(make_lab):
    """A port is deleted under the daemon: it goes on with the others, and its frames come home."""
    lab = make_lab(ports=('lan', 'wan', 'wan2'))
    lab.router.ip('link del wan2')
    lab._links_before.remove('wan2')
    lab.setup.ports = ('lan', 'wan')
    lab.wait_for(lambda: 'wan2' not in [p['name'] for p in lab.daemon.json('port') if p.get('carrier')], 'wan2 to go')
    lab.sync()
    with lab.expect(forwarded=1):
        lab.h1.send(lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4)))
    with lab.expect(kernel={('lan', 'no_route'): 1}):
        lab.h1.send(lab.h1.frame(udp_packet(lab.h1.ip4, lab.h3.ip4)))


def assert_forwards(lab):
    f = lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4))
    cap = lab.h2.capture()
    with lab.expect(forwarded=1):
        lab.h1.send(f)
        assert cap.take(1, to(lab.h2.ip4)) == [lab.h2.received(f)]


def bring_up(lab, host):
    """What a device loses when it leaves a namespace or is down."""
    lab.router.batch([f'address replace {host.gw_ip4}/24 dev {host.link}', f'link set {host.link} up',
                      f'neigh replace {host.ip4} lladdr {host.mac} dev {host.link} nud permanent'])


def test_port_leaves_and_returns(make_lab):
    """The same device with the same number, before the daemon looks: its sockets are dead, so it is opened anew."""
    lab = make_lab()
    index = kernel.links(lab.router)['lan']['ifindex']
    away = lab.extra_netns('x')
    os.kill(lab.daemon.process.pid, signal.SIGSTOP)  # both events come in one go
    lab.router.ip(f'link set lan netns {away.name}')
    away.ip(f'link set lan netns {lab.router.name}')
    bring_up(lab, lab.h1)
    os.kill(lab.daemon.process.pid, signal.SIGCONT)
    assert kernel.links(lab.router)['lan']['ifindex'] == index, 'the kernel gave another number: nothing is tested'
    lab.wait_for(lambda: 'lan: the interface is gone: closing' in lab.daemon.log(), 'the port to be closed')
    lab.wait_for(lambda: any(p['name'] == 'lan' and p['state'] == 'up' for p in lab.daemon.json('port')),
                 'the port to be opened again')
    lab.sync()
    lab._device_base = None
    assert_forwards(lab)


@pytest.mark.parametrize('missing', (True, False), ids=('missing', 'down'))
def test_waits_for_its_devices(make_lab, missing):
    """No device there or up at the start: it says what it waits for, stays, and takes them when they come."""
    lab = make_lab(daemon=False)
    for link in ('lan', 'wan'):
        lab.router.ip(f'link set {link} down')
        if missing:
            lab.router.ip(f'link set {link} name {link}-0')
    lab.daemon.start(wait=False)
    lab.wait_for(lambda: 'waiting for' in lab.daemon.log(), 'the daemon to say that it waits')
    status = lab.daemon.json('status')
    assert status['ready'] is False and status['ports'] == 0
    assert [w for w in status['warnings'] if 'lan' in w] and [w for w in status['warnings'] if 'wan' in w]
    assert 'not forwarding yet' in lab.daemon.ctl('status')
    for link in ('lan', 'wan'):
        if missing:
            lab.router.ip(f'link set {link}-0 name {link}')
        bring_up(lab, lab.host(link))
    lab.wait_for(lambda: lab.daemon.json('status')['ports'] == 2, 'both ports')
    assert lab.daemon.json('status')['ready'] is True
    lab.sync()
    lab._device_base = None
    assert_forwards(lab)


def test_does_not_wait_when_a_port_is_really_refused(make_lab):
    """One device missing, the other one not usable: exit with the cause that waiting does not mend."""
    lab = make_lab(daemon=False)
    fails(second(lab, {'port nowhere': {}, 'port lan': {'mode': 'zero-copy'}}), 'no port can be opened', 'zero-copy')


def test_smallest_configuration(make_lab):
    """A file that holds only two empty port sections is complete (paths are set because another may run here)."""
    lab = make_lab(daemon=False)
    daemon = second(lab, {'port lan': {}, 'port wan': {}}, 'small')
    daemon.start()
    cap = lab.h2.capture()
    f = lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4))
    before = kernel_forwards(lab)
    lab.h1.send(f)
    assert cap.take(1, to(lab.h2.ip4)) == [lab.h2.received(f)]
    assert kernel_forwards(lab) == before
    assert daemon.terminate() == 0


def test_ports_by_pattern(make_lab):
    """[port wan*] takes what matches."""
    lab = make_lab(daemon=False, ports=('lan', 'wan', 'wan2'))
    daemon = second(lab, {'port lan': {}, 'port wan*': {}}, 'glob')
    daemon.start()
    assert sorted(p['name'] for p in daemon.json('port')) == ['lan', 'wan', 'wan2']
    assert daemon.terminate() == 0


def test_version_and_help():
    for program in ('routerd', 'routerctl'):
        v = subprocess.run([binary(program), '--version'], capture_output=True, text=True)
        assert v.returncode == 0 and v.stdout.startswith(program + ' ')
        h = subprocess.run([binary(program), '--help'], capture_output=True, text=True)
        assert h.returncode == 0 and 'Usage' in h.stdout
