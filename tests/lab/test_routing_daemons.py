# SPDX-License-Identifier: GPL-2.0-or-later
"""BIRD and FRR through the router's kernel: what they install is what routerd forwards by, at once and completely."""
import contextlib

import pytest

from harness import mirror, routing
from harness.frames import udp_packet
from harness.traffic import Stream
from harness.wire import to

MANY = 100000
MANY6 = 10000
PORTS = ('lan', 'wan', 'wan2')
needs_bird = pytest.mark.skipif(not routing.available('/usr/sbin/bird', '/usr/sbin/birdc'), reason='bird2 is missing')
needs_frr = pytest.mark.skipif(not routing.available('/usr/lib/frr/zebra', '/usr/lib/frr/bgpd'), reason='frr is missing')


@contextlib.contextmanager
def stopping(*daemons):
    """They end, and their routes with them, before the lab's own end."""
    try:
        yield
    finally:
        for d in daemons:
            d.stop()


def count(lab, family, proto=None):
    if lab.daemon_up():
        return lab.daemon.json('status')['mirror'][f'routes{family}']
    return len(lab.router.ip(f'-{family} route show table main').splitlines())


def arrives(lab, count4, count6=0, timeout=40):
    """Wait until kernel and mirror hold at least so many routes."""
    def enough():
        kernel4 = len(lab.router.ip('-4 route show table main').splitlines())
        return kernel4 >= count4 and (not count6 or len(lab.router.ip('-6 route show table main').splitlines()) >= count6)
    lab.wait_for(enough, f'{count4} + {count6} routes in the kernel', timeout, 0.3)
    lab.sync(30)


def equal(lab, families=(4, 6)):
    if lab.daemon_up():
        mirror.assert_equal(lab, families)


def forwarded_exactly(lab, dst, host):
    f = lab.h1.frame(udp_packet(lab.h1.ip(6 if ':' in dst else 4), dst))
    cap = host.capture()
    with lab.expect(forwarded=1, noise=('local', 'ttl')):
        lab.h1.send(f)
        assert cap.take(1, to(dst)) == [host.received(f)]
    cap.close()


@needs_bird
@pytest.mark.seconds(120)
def test_bird_bgp_100000_routes(make_lab):
    """They arrive, the mirror equals the kernel; half is withdrawn, equal again; a link goes down, equal again."""
    lab = make_lab(ports=PORTS, workers=2)
    nets4, nets6 = [routing.net4(i) for i in range(MANY)], [routing.net6(i) for i in range(MANY6)]
    few = nets4[:200]
    birds = [routing.Bird(lab.h2.ns, lab.directory, 'h2', routing.bird_feeder(lab.h2, nets4, nets6)),
             routing.Bird(lab.h3.ns, lab.directory, 'h3', routing.bird_feeder(lab.h3, few)),
             routing.Bird(lab.router, lab.directory, 'r', routing.bird_router([lab.h2, lab.h3]))]
    with stopping(*birds):
        arrives(lab, MANY, MANY6)
        lab.wait_for(lambda: 'nexthop' in lab.router.ip(f'route show {few[7]}'), 'the merged path', 20, 0.1)
        lab.sync()
        equal(lab)
        forwarded_exactly(lab, '12.100.7.9', lab.h2)
        forwarded_exactly(lab, 'fdaa:0:1f0::9', lab.h2)
        birds[0].configure(routing.bird_feeder(lab.h2, nets4[:MANY // 2], nets6[:MANY6 // 2]))
        lab.wait_for(lambda: len(lab.router.ip('route').splitlines()) < MANY // 2 + 1000, 'half to be withdrawn', 30, 0.3)
        lab.wait_for(lambda: len(lab.router.ip('-6 route').splitlines()) < MANY6 // 2 + 100, 'half of IPv6', 30, 0.3)
        lab.sync(30)
        equal(lab)
        with lab.expect(kernel={('lan', 'no_route'): 1}, noise=('local', 'ttl')):
            lab.h1.send(lab.h1.frame(udp_packet(lab.h1.ip4, '12.100.7.9')))
        lab.router.ip('link set wan2 down')
        lab.wait_for(lambda: 'nexthop' not in lab.router.ip(f'route show {few[7]}'), 'one path to be left', 20, 0.1)
        lab.sync()
        equal(lab)
        forwarded_exactly(lab, few[7].replace('.0/24', '.1'), lab.h2)
    lab.kernel_forwards_freely = True


@needs_bird
@pytest.mark.seconds(60)
def test_bird_ospf_ecmp_heals(make_lab):
    """OSPF's multicast passes the ports; two equal paths; a neighbour dies and the other carries all."""
    lab = make_lab(ports=PORTS, sysctl={'net.ipv4.fib_multipath_hash_policy': 1})
    nets = [routing.net4(i, 30) for i in range(50)]
    birds = [routing.Bird(h.ns, lab.directory, h.link, routing.bird_ospf(h.ip4, ['eth0'], nets)) for h in (lab.h2, lab.h3)]
    birds.append(routing.Bird(lab.router, lab.directory, 'r', routing.bird_ospf('10.0.1.1', ['wan', 'wan2'])))
    with stopping(*birds):
        lab.wait_for(lambda: lab.router.ip(f'route show {nets[3]}').count('nexthop') == 2, 'two OSPF paths', 30, 0.1)
        lab.sync()
        equal(lab, (4,))
        dst = nets[3].replace('.0/24', '.1')
        stream = Stream(lab, lab.h1, dst, [lab.h2, lab.h3], pps=1000, flows=64).start()
        lab.wait_for(lambda: stream.sent > 500, 'some traffic')
        birds[1].process.kill()
        birds[1].process.wait()
        lab.wait_for(lambda: 'nexthop' not in lab.router.ip(f'route show {nets[3]}'), 'OSPF to notice', 20, 0.05)
        lab.sync()
        healed = stream.sent
        lab.wait_for(lambda: stream.sent > healed + 500, 'more traffic')
        stream.stop()
        equal(lab, (4,))
        assert not stream.lost(), 'h3 itself is alive: not one packet may be lost'
        assert {h for n in range(0, 400) for h in stream.arrived[n]} == {0, 1}
        assert all(stream.arrived[n] == [0] for n in range(healed, stream.sent))
    lab.kernel_forwards_freely = True


@needs_bird
@needs_frr
@pytest.mark.seconds(150)
def test_frr_bgp_100000_routes_by_nexthop_groups(make_lab):
    """FRR in the router (zebra installs by nexthop objects), fed by two peers with the same 100,000 routes: the
    mirror equals the kernel; half is withdrawn; one link goes down and all move to the other path."""
    lab = make_lab(ports=PORTS, workers=2, sysctl={'net.ipv4.fib_multipath_hash_policy': 1})
    nets = [routing.net4(i) for i in range(MANY)]
    hosts = [lab.h2, lab.h3]
    feeders = [routing.Bird(h.ns, lab.directory, h.link, routing.bird_feeder(h, nets)) for h in hosts]
    frr = routing.Frr(lab.router, lab.directory, 'r', routing.frr_bgp_router(hosts))
    with stopping(frr, *feeders):
        arrives(lab, MANY, timeout=60)
        assert lab.router.ip_json('nexthop'), 'zebra uses nexthop objects'
        lab.wait_for(lambda: lab.router.ip(f'route show {nets[-1]}').count('nexthop') == 2, 'both paths', 30, 0.2)
        lab.sync()
        equal(lab, (4,))
        for f, host in zip(feeders, hosts):
            f.configure(routing.bird_feeder(host, nets[:MANY // 2]))
        lab.wait_for(lambda: len(lab.router.ip('route').splitlines()) < 3 * MANY // 2 + 100 and
                     not lab.router.ip(f'route show {nets[-1]}'), 'half to be withdrawn', 40, 0.3)
        lab.wait_for(lambda: lab.router.ip(f'route show {nets[MANY // 2 + 1]}') == '', 'the rest of the half', 20, 0.3)
        lab.sync(30)
        equal(lab, (4,))
        stream = Stream(lab, lab.h1, '11.0.5.9', hosts, pps=1000, flows=64).start()
        lab.wait_for(lambda: stream.sent > 300, 'some traffic')
        lab.router.ip('link set wan2 down')
        down = stream.sent
        lab.wait_for(lambda: lab.router.ip('route show 11.0.5.0/24').count('wan2') == 0, 'the path to go', 20, 0.05)
        lab.sync(30)
        healed = stream.sent
        lab.wait_for(lambda: stream.sent > healed + 300, 'more traffic')
        stream.stop()
        assert {h for n in range(300) for h in stream.arrived.get(n, [])} == {0, 1}
        assert all(stream.arrived.get(n) == [0] for n in range(healed, stream.sent)), 'not healed'
        assert all(n >= down - 50 for n in stream.lost())
        lab.wait_for(lambda: 'wan2' not in lab.router.ip('route show table main'), 'no route by wan2', 30, 0.5)
        lab.sync(30)
        equal(lab, (4,))
    lab.kernel_forwards_freely = True
