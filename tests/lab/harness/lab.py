# SPDX-License-Identifier: GPL-2.0-or-later
"""class Lab: a router namespace, hosts around it, routerd in it, and the assertions every test ends with.

    h1 (10.0.1.2, fd00:1::2) --- lan [router] wan  --- h2 (10.0.2.2, fd00:2::2)
                                            wan2 --- h3 (10.0.3.2, fd00:3::2)   only with ports=(..., 'wan2')
                                            wan3 --- h4
                                            oth  --- h5   a link that is never a port of routerd

With ROUTERD_LAB_KERNEL=1 no daemon is started: the kernel forwards, and the same tests show what it does. Every
expectation that is not about routerd's own counters must hold there too, because the kernel is the reference.
"""
import collections
import contextlib
import dataclasses
import itertools
import os
import shutil
import socket
import time

from . import frames, kernel
from .netns import Netns, SCRATCH_DIR
from .routerd import Routerd
from .wire import Capture, Injector

KERNEL_ONLY = bool(os.environ.get('ROUTERD_LAB_KERNEL'))
LINK_NUMBER = {'lan': 1, 'wan': 2, 'wan2': 3, 'wan3': 4, 'oth': 5}
# What hosts and kernel say on their own: ARP, neighbour discovery, MLD. Any other reason is only as expected.
NOISE = {'not_ip', 'l2_multicast', 'link_local', 'icmpv6_nd', 'multicast', 'hop_by_hop'}
_serial = itertools.count(1)


def reference_only():
    """True when no routerd runs and the kernel shows what is right."""
    return KERNEL_ONLY


@dataclasses.dataclass
class Setup:
    """What a test may ask for."""
    ports: tuple = ('lan', 'wan')       # links that routerd serves
    links: tuple = ()                   # further links (not ports)
    workers: int = 1
    queues: int = 1                     # per veth end
    mode: str = ''                      # of every port; '' = default
    mtu: dict = dataclasses.field(default_factory=dict)       # link -> MTU of both ends
    sysctl: dict = dataclasses.field(default_factory=dict)    # router's
    dynamic: tuple = ()                 # links whose neighbours are not static
    config: dict = dataclasses.field(default_factory=dict)    # more sections or keys for routerd.ini
    daemon: bool = True                 # start it at once


ROUTER_SYSCTL = {
    'net.ipv4.ip_forward': 1,
    'net.ipv6.conf.all.forwarding': 1,
    'net.ipv4.conf.all.rp_filter': 0,
    'net.ipv4.conf.default.rp_filter': 0,
    'net.ipv6.conf.default.accept_dad': 0,
    'net.ipv6.conf.default.router_solicitations': 0,
    'net.ipv6.conf.default.accept_ra': 0,
    # group reports come together, within a second, and are not spread over the test
    'net.ipv6.conf.default.mldv2_unsolicited_report_interval': 1,
    # ICMP errors are counted exactly, so their rate limits are out of the way (semantics E6)
    'net.ipv4.icmp_ratelimit': 0,
    'net.ipv4.icmp_msgs_per_sec': 1000000,
    'net.ipv4.icmp_msgs_burst': 1000000,
    'net.ipv6.icmp.ratelimit': 0,
}
HOST_SYSCTL = {
    'net.ipv4.ip_forward': 0,
    'net.ipv4.conf.all.rp_filter': 0,
    'net.ipv4.conf.default.rp_filter': 0,
    'net.ipv6.conf.default.accept_dad': 0,
    'net.ipv6.conf.default.router_solicitations': 0,
    'net.ipv6.conf.default.accept_ra': 0,
    'net.ipv6.conf.default.mldv2_unsolicited_report_interval': 1,
}


class Host:
    """A host at the other end of one of the router's links. `mac`, `ip4`, `ip6` are its own; `gw_*` the router's."""

    def __init__(self, lab, link):
        n = LINK_NUMBER[link]
        self.link, self.number, self.dev = link, n, 'eth0'
        self.mac, self.gw_mac = f'02:00:00:00:0{n}:02', f'02:00:00:00:0{n}:01'
        self.ip4, self.gw_ip4 = f'10.0.{n}.2', f'10.0.{n}.1'
        self.ip6, self.gw_ip6 = f'fd00:{n}::2', f'fd00:{n}::1'
        self.ns = Netns(f'{lab.prefix}h{n}')
        self.ns.sysctls(HOST_SYSCTL)
        self._injector = None
        self.sinks = []

    def ip(self, family):
        return self.ip4 if family == 4 else self.ip6

    def gw_ip(self, family):
        return self.gw_ip4 if family == 4 else self.gw_ip6

    def open_sinks(self):
        """A silent UDP port, so that test packets provoke no answers."""
        for family, address in ((socket.AF_INET, '0.0.0.0'), (socket.AF_INET6, '::')):
            s = self.socket(family, socket.SOCK_DGRAM)
            if family == socket.AF_INET6:
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            s.bind((address, frames.DISCARD))
            self.sinks.append(s)

    def socket(self, family, kind, proto=0):
        with self.ns.enter():
            return socket.socket(family, kind, proto)

    def frame(self, packet, pad=0):
        """A frame of ours to the router."""
        return frames.frame(self.gw_mac, self.mac, packet, pad=pad)

    def send(self, data, pps=None):
        """Raw frames out of the host's interface."""
        if self._injector is None:
            self._injector = Injector(self.ns, self.dev)
        self._injector.send(data, pps)

    def capture(self, **kw):
        return Capture(self.ns, self.dev, **kw)

    def received(self, eth):
        """How a frame injected elsewhere must arrive here when the router forwarded it."""
        return frames.forwarded(eth, self.gw_mac, self.mac)


class Delta(collections.Counter):
    """Differences of named counters; absent means 0."""


class Snapshot:
    """All counters at one moment of rest."""

    def __init__(self, lab):
        self.kernel, self.stats, self.drops = kernel.counters(lab.router), None, []
        if lab.daemon_up():
            self.stats, self.drops = lab.daemon.json('stats'), lab.daemon.json('drops')

    def port(self, name, key):
        for p in self.stats['ports'] if self.stats else []:
            if p['name'] == name:
                return p[key]['packets']
        return 0

    def reasons(self):
        """{(port, reason): packets}, the steer program's and the workers' together."""
        out = Delta()
        for d in self.drops:
            out[d['port'], d['reason']] += d['packets']
        return out


class Lab:
    """See the module. Use through the make_lab fixture, which finishes and closes it."""

    def __init__(self, setup=None, **kw):
        self.setup = setup or Setup(**kw)
        self.prefix = f'rl{os.getpid()}-{next(_serial)}'
        self.directory = f'{SCRATCH_DIR}/{self.prefix}'
        self.hosts, self.daemon, self.extra_ns = {}, None, []
        self.kernel_forwards_freely = False   # a test whose point is not who forwards may set it
        self._expected_kernel_forwards = 0
        self._forw_at_start = 0
        self._finished = False
        self._marker = itertools.count(1)
        self._device_base = None

    # ---- life ----
    def start(self):
        os.makedirs(self.directory, exist_ok=True)
        self.router = Netns(f'{self.prefix}r')
        self.router.sysctls(ROUTER_SYSCTL)
        for link in self.setup.ports + self.setup.links:
            self._make_link(link)
        self.router.sysctls(self.setup.sysctl)
        for host in self.hosts.values():
            host.open_sinks()
        self._links_before = sorted(kernel.links(self.router))
        self._forw_at_start = kernel.forwarded_by_kernel(kernel.counters(self.router))
        if not KERNEL_ONLY:
            self.daemon = Routerd(self.router, self.directory, self._sections())
            if self.setup.daemon:
                self.start_daemon()
        return self

    def _make_link(self, link):
        host = Host(self, link)
        self.hosts[link] = host
        queues = f'numrxqueues {self.setup.queues} numtxqueues {self.setup.queues}'
        mtu = self.setup.mtu.get(link, 1500)
        # Different indices at the two ends, as a user's links have; else the kernel defers link events by up to 1 s.
        self.router.ip(f'link add name {link} address {host.gw_mac} mtu {mtu} {queues} type veth peer name {host.dev} '
                       f'index {100 + host.number} address {host.mac} mtu {mtu} {queues} netns {host.ns.name}')
        host.ns.run('ethtool', '-K', host.dev, 'tx', 'off', 'tso', 'off', 'gso', 'off', 'gro', 'off', 'txvlan', 'off')
        router, static = [], link not in self.setup.dynamic
        router += [f'address add {host.gw_ip4}/24 dev {link}', f'address add {host.gw_ip6}/64 dev {link} nodad',
                   f'link set {link} up']
        there = [f'address add {host.ip4}/24 dev {host.dev}', f'address add {host.ip6}/64 dev {host.dev} nodad',
                 f'link set {host.dev} up', f'route add default via {host.gw_ip4}',
                 f'route add default via {host.gw_ip6}']
        if static:
            for a, b in ((host.ip4, host.gw_ip4), (host.ip6, host.gw_ip6)):
                router.append(f'neigh replace {a} lladdr {host.mac} dev {link} nud permanent')
                there.append(f'neigh replace {b} lladdr {host.gw_mac} dev {host.dev} nud permanent')
        self.router.batch(router)
        host.ns.batch(there)

    def _sections(self):
        sections = {'router': {'workers': self.setup.workers}}
        for link in self.setup.ports:
            sections[f'port {link}'] = {'mode': self.setup.mode} if self.setup.mode else {}
        for name, keys in self.setup.config.items():
            sections.setdefault(name, {}).update(keys)
        return sections

    def start_daemon(self):
        self.daemon.start()
        self._device_base = None
        self._forw_at_start = kernel.forwarded_by_kernel(kernel.counters(self.router))

    def daemon_up(self):
        return self.daemon is not None and self.daemon.running()

    def host(self, link):
        return self.hosts[link]

    h1 = property(lambda self: self.hosts['lan'])
    h2 = property(lambda self: self.hosts['wan'])
    h3 = property(lambda self: self.hosts['wan2'])
    h4 = property(lambda self: self.hosts['wan3'])
    other = property(lambda self: self.hosts['oth'])

    def extra_netns(self, name):
        """One more namespace of this lab."""
        ns = Netns(f'{self.prefix}{name}')
        self.extra_ns.append(ns)
        return ns

    # ---- changing the router ----
    def ip(self, *commands):
        """ip(8) commands in the router namespace, and wait until routerd has seen them."""
        for command in commands:
            self.router.ip(command)
        self.sync()

    def sync(self, timeout=10.0):
        """Wait until routerd knows what the kernel knows now: a marker route passes through the same socket."""
        if not self.daemon_up():
            return
        mark = f'192.0.2.{next(self._marker) % 250 + 1}/32'
        self.router.ip(f'route replace blackhole {mark}')
        self.wait_for(lambda: self.daemon.json('route', mark), 'the marker route', timeout)
        self.router.ip(f'route del blackhole {mark}')
        self.wait_for(lambda: not self.daemon.json('route', mark), 'the marker route to go', timeout)

    @staticmethod
    def wait_for(condition, what, timeout=10.0, step=0.01):
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, f'waited {timeout} s in vain for {what}'
            time.sleep(step)

    # ---- rest and expectations ----
    def _pulse(self):
        if not self.daemon_up():
            c = kernel.counters(self.router)
            return tuple(c[k] for k in ('Ip.InReceives', 'Ip6.InReceives', 'Ip.ForwDatagrams', 'Ip6.OutForwDatagrams'))
        stats, places = self.daemon.json('stats'), self.daemon.json('frames')['places']
        busy = places['worker']['counted'] + sum(p['held'] for p in stats['ports'])
        return busy, tuple((p['received']['packets'], p['sent']['packets']) for p in stats['ports'])

    def rest(self, timeout=10.0):
        """Wait until nothing moves any more."""
        deadline = time.monotonic() + timeout
        last, still = self._pulse(), 0
        while still < 2:
            assert time.monotonic() < deadline, f'traffic does not come to rest: {last}'
            time.sleep(0.03)
            now = self._pulse()
            still = still + 1 if now == last and (not self.daemon_up() or now[0] == 0) else 0
            last = now

    def snapshot(self):
        self.rest()
        if self._device_base is None and self.daemon_up():
            self._device_base = self._device_counts()
        return self._steady(lambda: Snapshot(self))

    def _steady(self, read):
        """What @read returns, once nothing has come in while it was read."""
        for _ in range(100):
            before, value, after = self._pulse(), read(), self._pulse()
            if before == after:
                return value
        raise AssertionError(f'traffic never rests: {before} {after}')

    def _device_counts(self):
        """{port: (packets that the device says it received, packets that routerd says it received)}"""
        def read():
            links = kernel.links(self.router)
            return {p['name']: (links[p['name']]['stats64']['rx']['packets'], p['received']['packets'])
                    for p in self.daemon.json('stats')['ports'] if p['name'] in links}
        return self._steady(read)

    @contextlib.contextmanager
    def expect(self, forwarded=None, kernel=None, dropped=None, kernel_forwarded=0, snmp=None, snmp_reference=None,
               noise=()):
        """What the block must do to the counters, exactly.

        forwarded         {ingress port: packets} that routerd forwards (an int: by 'lan')
        kernel, dropped   {(port, reason): packets} handed to the kernel, thrown away; others than listed must be 0
        kernel_forwarded  packets that the kernel itself forwards although routerd runs
        snmp              {counter: difference} of the router namespace, whoever forwards
        snmp_reference    the same, when the kernel does everything
        noise             further reasons that may count anything
        """
        forwarded = {'lan': forwarded} if isinstance(forwarded, int) else dict(forwarded or {})
        reasons = {**(kernel or {}), **(dropped or {})}
        before = self.snapshot()
        result = Expectation()
        yield result
        after = self.snapshot()
        result.snmp = Delta({k: n - before.kernel[k] for k, n in after.kernel.items()})
        forw = result.snmp['Ip.ForwDatagrams'] + result.snmp['Ip6.OutForwDatagrams']
        for key, want in (snmp or {}).items():
            assert result.snmp[key] == want, f'{key}: {result.snmp[key]}, expected {want}'
        if not self.daemon_up():
            for key, want in (snmp_reference or {}).items():
                assert result.snmp[key] == want, f'{key}: {result.snmp[key]}, expected {want}'
            want = sum(forwarded.values()) + kernel_forwarded
            assert forw == want, f'the kernel forwarded {forw}, expected {want}'
            return
        self._expected_kernel_forwards += kernel_forwarded
        self._compare(before, after, forwarded, reasons, set(noise) | NOISE)
        assert forw == kernel_forwarded, f'the kernel forwarded {forw} packets, expected {kernel_forwarded}'

    def _compare(self, before, after, forwarded, reasons, noise):
        have = after.reasons()
        have.subtract(before.reasons())
        wrong = []
        for port in [p['name'] for p in after.stats['ports']]:
            n = after.port(port, 'forwarded') - before.port(port, 'forwarded')
            if n != forwarded.get(port, 0):
                wrong.append(f'{port}: forwarded {n}, expected {forwarded.get(port, 0)}')
        for key in sorted(set(have) | set(reasons)):
            n, want = have[key], reasons.get(key, 0)
            if n != want and not (key not in reasons and key[1] in noise):
                wrong.append(f'{key[0]}: {key[1]} {n}, expected {want}')
        assert not wrong, '; '.join(wrong) + f'\n(all that changed: {({k: v for k, v in have.items() if v})})'

    # ---- the end of every test ----
    def finish(self):
        """The promises that every test ends with; then the daemon's stop, which must leave nothing."""
        if self._finished:
            return
        self._finished = True
        self.rest()
        if self.daemon_up():
            self.assert_balance()
            self.assert_device_counts()
            self.assert_frames()
            self.assert_kernel_forwards()
            self.stop_daemon()
        elif self.daemon is not None and self.daemon.process is not None:
            self.assert_nothing_left()

    def assert_balance(self):
        """Nothing is lost silently (design promise 2): recomputed here from the raw numbers, not only the flag."""
        stats, drops = self._steady(lambda: (self.daemon.json('stats'), self.daemon.json('drops')))
        for p in stats['ports'] + [dict(stats['total'], name='total')]:
            sides = p['received']['packets'], (p['forwarded']['packets'] + p['kernel']['packets'] +
                                               p['dropped']['packets'] + p['held'])
            assert sides[0] == sides[1], f'{p["name"]}: received {sides[0]} != the sum {sides[1]}: {p}'
            assert p['balanced'] is True, p
            assert p['held'] == 0, p
        for key in ('received', 'forwarded', 'kernel', 'dropped', 'sent'):
            total = sum(p[key]['packets'] for p in stats['ports'])
            assert total == stats['total'][key]['packets'], f'total {key} is not the sum of the ports: {stats}'
        assert stats['total']['sent']['packets'] == stats['total']['forwarded']['packets'], stats['total']
        for p in stats['ports']:
            for side, column in (('kernel', 'kernel'), ('drop', 'dropped')):
                n = sum(d['packets'] for d in drops if d['port'] == p['name'] and d['class'] == side)
                assert n == p[column]['packets'], f'{p["name"]}: {column} {p[column]["packets"]} != reasons {n}: {drops}'

    def assert_device_counts(self):
        """`received` is not only consistent in itself: since the first moment of rest each port has received exactly
        what its device counted. (Generic XDP runs behind the device's own counting of other kinds: native only.)"""
        if self._device_base is None:
            return
        native = {p['name'] for p in self.daemon.json('port') if p['xdp_attach'] == 'native'}
        now = self._device_counts()
        for name in native & set(now) & set(self._device_base):
            device, ours = (b - a for a, b in zip(self._device_base[name], now[name]))
            assert device == ours, f'{name}: the device received {device} packets, routerd says {ours}'

    def assert_frames(self):
        """No frame leaks (design promise 3)."""
        ledger = self.daemon.json('frames')
        for place, n in ledger['places'].items():
            assert n['recorded'] == n['counted'], f'{place}: {n}'
        assert sum(n['recorded'] for n in ledger['places'].values()) == ledger['total'], ledger
        assert ledger['balanced'] is True, ledger
        for place in ('worker', 'held', 'quarantine'):
            assert ledger['places'][place]['counted'] == 0, f'{place} at rest: {ledger}'

    def assert_kernel_forwards(self):
        """What routerd claims to have forwarded, the kernel has not."""
        if self.kernel_forwards_freely:
            return
        forw = kernel.forwarded_by_kernel(kernel.counters(self.router)) - self._forw_at_start
        assert forw == self._expected_kernel_forwards, \
            f'the kernel forwarded {forw} packets, the test knows of {self._expected_kernel_forwards}'

    def stop_daemon(self):
        code = self.daemon.terminate()
        assert code == 0, f'routerd ended with {code} after SIGTERM:\n{self.daemon.log()[-4000:]}'
        self.assert_nothing_left()
        self.daemon.assert_log_clean()

    def assert_nothing_left(self, socket_gone=True):
        """No XDP program, tc filter, TAP, socket or process of the daemon."""
        for link in kernel.links(self.router).values():
            assert 'xdp' not in link, f'XDP is still attached: {link}'
        assert sorted(kernel.links(self.router)) == self._links_before, 'other links than before the start'
        for dev in self.setup.ports:
            for what in ('qdisc', 'filter'):
                out = self.router.run('tc', what, 'show', 'dev', dev, *(['ingress'] if what == 'filter' else []),
                                      check=False)
                assert 'ingress' not in out and 'clsact' not in out and 'bpf' not in out, f'{dev}: {out}'
        if socket_gone:
            assert not os.path.exists(self.daemon.socket), 'the control socket is still there'
        assert not self.router.processes(), 'processes are left in the router namespace'
        assert not kernel.packet_sockets(self.router), 'packet sockets are left in the router namespace'

    def close(self):
        """Take everything down, whatever happened. Never raises for what is already gone."""
        if self.daemon:
            with contextlib.suppress(Exception):
                self.daemon.kill()
        for host in self.hosts.values():
            for s in host.sinks:
                s.close()
            if host._injector:
                host._injector.close()
            host.ns.delete()
        for ns in self.extra_ns:
            ns.delete()
        if hasattr(self, 'router'):
            self.router.delete()
        shutil.rmtree(self.directory, ignore_errors=True)


class Expectation:
    """Filled when the block of Lab.expect is over."""
    snmp = None
