# SPDX-License-Identifier: GPL-2.0-or-later
"""Neighbours: the kernel resolves, routerd uses; one in use is neither lost nor goes stale unseen (F21)."""
import time

import pytest

from harness.errors import assert_error
from harness.frames import udp_packet
from harness.traffic import Stream
from harness.wire import icmp_error, to

FAMILIES = pytest.mark.parametrize('family', (4, 6))


def is_solicitation(eth):
    """An ARP request or an IPv6 neighbour solicitation."""
    return eth[12:14] == b'\x08\x06' and eth[21] == 1 or \
        eth[12:14] == b'\x86\xdd' and eth[20] == 58 and eth[54] == 135


def state(lab, dst, dev):
    rows = [r for r in lab.router.ip_json(f'neigh show {dst} dev {dev}')]
    return rows[0]['state'][0] if rows else None


def known(lab, family, host):
    """Wait until routerd knows the neighbour's link-layer address."""
    if not lab.daemon_up():
        return
    lab.wait_for(lambda: any(r['dst'] == host.ip(family) and r.get('lladdr') == host.mac
                             for r in lab.daemon.json('neighbour')), 'the neighbour in the mirror')


@FAMILIES
@pytest.mark.sanitizer
def test_first_packet_is_delivered_and_the_rest_forwarded(make_lab, family):
    """Unresolved: the packet goes to the kernel, which resolves and sends it. Resolved: routerd forwards."""
    lab = make_lab(dynamic=('wan',))
    cap = lab.h2.capture()
    first = lab.h1.frame(udp_packet(lab.h1.ip(family), lab.h2.ip(family), payload=b'first'))
    with lab.expect(kernel={('lan', 'neighbour'): 1}, kernel_forwarded=1, noise=('local',)):
        lab.h1.send(first)
        assert cap.take(1, to(lab.h2.ip(family))) == [lab.h2.received(first)]
    assert state(lab, lab.h2.ip(family), 'wan') == 'REACHABLE'
    known(lab, family, lab.h2)
    rest = [lab.h1.frame(udp_packet(lab.h1.ip(family), lab.h2.ip(family), payload=b'%d' % i)) for i in range(20)]
    with lab.expect(forwarded=20, noise=('local',)):
        lab.h1.send(rest)
        assert cap.take(20, to(lab.h2.ip(family))) == [lab.h2.received(f) for f in rest]


@FAMILIES
def test_gateway_of_a_route_is_resolved(make_lab, family):
    lab = make_lab(dynamic=('wan',))
    net, dst = ('10.90.0.0/16', '10.90.0.1') if family == 4 else ('fd90::/64', 'fd90::1')
    lab.ip(f'route add {net} via {lab.h2.ip(family)}')
    cap = lab.h2.capture()
    f = lab.h1.frame(udp_packet(lab.h1.ip(family), dst))
    lab.kernel_forwards_freely = True
    for _ in range(2):
        lab.h1.send(f)
        assert cap.take(1, to(dst)) == [lab.h2.received(f)]
        known(lab, family, lab.h2)
    with lab.expect(forwarded=1, noise=('local',)):
        lab.h1.send(f)
        assert cap.take(1, to(dst)) == [lab.h2.received(f)]


@FAMILIES
@pytest.mark.seconds(30)
def test_neighbour_that_does_not_answer(make_lab, family):
    """Host unreachable (3/1, 1/3) from the kernel after its probes; routerd has forwarded nothing."""
    lab = make_lab(dynamic=('wan',), sysctl={f'net.ipv{family}.neigh.wan.retrans_time_ms': 100,
                                             f'net.ipv{family}.neigh.wan.mcast_solicit': 1})
    nobody = '10.0.2.99' if family == 4 else 'fd00:2::99'
    p = udp_packet(lab.h1.ip(family), nobody)
    back = lab.h1.capture()
    with lab.expect(kernel={('lan', 'neighbour'): 1}, kernel_forwarded=1):
        lab.h1.send(lab.h1.frame(p))
        errors = back.take(1, icmp_error, timeout=8)
    quoted = p if family == 4 else p[:7] + bytes([p[7] - 1]) + p[8:]
    if family == 4:  # the kernel's forwarding had already taken one from the TTL
        quoted = p[:8] + bytes([p[8] - 1]) + p[9:]
        errors = [errors[0][:14 + 28 + 10] + p[10:12] + errors[0][14 + 28 + 12:]]
        quoted = quoted[:10] + p[10:12] + quoted[12:]
    assert_error(errors, family, lab.h1, *((3, 1) if family == 4 else (1, 3)), 0, quoted)


# Reachable for 1.1 to 3.3 s (the kernel draws it), longer than the delay before the first probe: a shorter time keeps an
# entry alive for ever without any use.
FAST_AGEING = {'neigh.wan.base_reachable_time_ms': 2200, 'neigh.wan.delay_first_probe_time': 1,
               'neigh.wan.retrans_time_ms': 100, 'neigh.wan.gc_stale_time': 1}


@FAMILIES
@pytest.mark.seconds(40)
def test_neighbour_in_use_is_not_lost(make_lab, family):
    """One-way traffic that the kernel does not see, with ageing lowered to seconds: the neighbour
    stays usable, not one packet is lost, and the host keeps being asked (so a dead one would be noticed)."""
    lab = make_lab(dynamic=('wan',), sysctl={f'net.ipv{family}.{k}': v for k, v in FAST_AGEING.items()})
    lab.kernel_forwards_freely = True
    lab.router.run('ping', '-c', 1, '-W', 2, lab.h2.ip(family))
    known(lab, family, lab.h2)
    before = lab.snapshot()
    asked = lab.h2.capture()
    stream = Stream(lab, lab.h1, lab.h2.ip(family), [lab.h2], pps=500).start()
    bad = []
    end = time.monotonic() + 9
    while time.monotonic() < end:
        s = state(lab, lab.h2.ip(family), 'wan')
        if s not in ('REACHABLE', 'STALE', 'DELAY', 'PROBE', 'PERMANENT'):
            bad.append(s)
        time.sleep(0.05)
    stream.stop()
    after = lab.snapshot()
    assert not stream.lost() and not stream.doubled()
    assert not bad, f'the neighbour was {bad}'
    probes = asked.take(match=is_solicitation)
    assert 2 <= len(probes) < 60, f'{len(probes)} ARP or neighbour solicitations in 9 s'
    if lab.daemon_up():
        fast = after.port('lan', 'forwarded') - before.port('lan', 'forwarded')
        assert fast >= stream.sent * 0.9, f'routerd forwarded {fast} of {stream.sent}'


@FAMILIES
@pytest.mark.seconds(40)
def test_host_that_changed_its_mac_is_found(make_lab, family):
    """A host comes back with another MAC and says nothing: the kernel's probes find it although routerd bypasses the
    kernel (a neighbour in use is confirmed, not believed for ever)."""
    lab = make_lab(dynamic=('wan',), sysctl={f'net.ipv{family}.{k}': v for k, v in FAST_AGEING.items()})
    lab.kernel_forwards_freely = True
    lab.router.run('ping', '-c', 1, '-W', 2, lab.h2.ip(family))
    known(lab, family, lab.h2)
    stream = Stream(lab, lab.h1, lab.h2.ip(family), [lab.h2], pps=200).start()
    time.sleep(0.5)
    lab.h2.ns.sysctl('net.ipv4.conf.eth0.arp_notify', 0)
    lab.h2.ns.ip(f'link set {lab.h2.dev} address 02:00:00:00:02:77')
    lab.h2.mac = '02:00:00:00:02:77'
    lab.wait_for(lambda: any(r.get('lladdr') == lab.h2.mac for r in lab.router.ip_json(
        f'neigh show {lab.h2.ip(family)} dev wan')), 'the kernel to learn the new MAC', 15)
    known(lab, family, lab.h2)
    time.sleep(0.2)
    cap = lab.h2.capture()
    f = lab.h1.frame(udp_packet(lab.h1.ip(family), lab.h2.ip(family), 7777))
    lab.h1.send(f)
    got = cap.take(1, lambda e: to(lab.h2.ip(family))(e) and e[-8:-6] == b'\x1e\x61')
    stream.stop()
    assert got == [lab.h2.received(f)]


@FAMILIES
@pytest.mark.sanitizer
def test_static_mac_changed_live(lab, family):
    """ip neigh replace: the very next packets carry the new MAC; nothing is lost on the way."""
    cap = lab.h2.capture()
    for last in (0x51, 0x52, 0x02):
        mac = f'02:00:00:00:02:{last:02x}'
        lab.ip(f'neigh replace {lab.h2.ip(family)} lladdr {mac} dev wan nud permanent')
        if lab.daemon_up():
            lab.wait_for(lambda: any(r['dst'] == lab.h2.ip(family) and r['lladdr'] == mac
                                     for r in lab.daemon.json('neighbour')), 'the new MAC')
        lab.h2.mac = mac
        f = lab.h1.frame(udp_packet(lab.h1.ip(family), lab.h2.ip(family), payload=mac.encode()))
        with lab.expect(forwarded=1):
            lab.h1.send(f)
            assert cap.take(1, to(lab.h2.ip(family))) == [lab.h2.received(f)]


@FAMILIES
@pytest.mark.sanitizer
def test_deleted_neighbour_is_resolved_again(make_lab, family):
    """ip neigh del: the address that was known is forgotten at once. The host has another one meanwhile, so a frame
    to the old one would show."""
    lab = make_lab(dynamic=('wan',))
    lab.kernel_forwards_freely = True
    cap = lab.h2.capture()
    f = lab.h1.frame(udp_packet(lab.h1.ip(family), lab.h2.ip(family)))
    lab.router.run('ping', '-c', 1, '-W', 2, lab.h2.ip(family))
    known(lab, family, lab.h2)
    with lab.expect(forwarded=1, noise=('local',)):
        lab.h1.send(f)
    lab.h2.mac = '02:00:00:00:02:88'
    lab.h2.ns.ip(f'link set {lab.h2.dev} address {lab.h2.mac}')
    lab.ip(f'neigh del {lab.h2.ip(family)} dev wan')
    cap.take()
    lab.h1.send(f)
    assert cap.take(1, to(lab.h2.ip(family))) == [lab.h2.received(f)]


@FAMILIES
@pytest.mark.sanitizer
def test_burst_to_an_unresolved_neighbour(make_lab, family):
    """Many packets before the answer: each is forwarded, or the kernel queued it; what its queue could not hold is
    the kernel's own, counted drop. None is lost inside routerd."""
    lab = make_lab(dynamic=('wan',))
    lab.kernel_forwards_freely = True
    cap = lab.h2.capture()
    sent = [lab.h1.frame(udp_packet(lab.h1.ip(family), lab.h2.ip(family), payload=b'%03d' % i)) for i in range(60)]
    before = lab.snapshot()
    lab.h1.send(sent)
    lab.rest()
    after = lab.snapshot()
    got = cap.take(match=to(lab.h2.ip(family)))
    want = [lab.h2.received(f) for f in sent]
    assert all(g in want for g in got) and len(set(got)) == len(got)
    assert len(got) >= 3, 'the kernel keeps at least its unres_qlen of packets'
    if lab.daemon_up():
        moved = after.port('lan', 'forwarded') - before.port('lan', 'forwarded')
        handed = after.reasons()['lan', 'neighbour'] - before.reasons()['lan', 'neighbour']
        assert moved + handed == 60
    assert len(got) == 60 or got[-1] == want[-1], 'the newest packets are kept'
