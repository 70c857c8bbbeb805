# SPDX-License-Identifier: GPL-2.0-or-later
"""Real hosts' traffic: iperf3 and transfers, modes, workers and queues, idle."""
import time

import pytest

from harness import traffic
from harness.frames import udp_packet
from harness.wire import to

FAMILIES = pytest.mark.parametrize('family', (4, 6))
DIRECTIONS = pytest.mark.parametrize('reverse', (False, True), ids=('h1-h2', 'h2-h1'))


def forwarded_by(lab, before, after, port):
    """Packets forwarded that came in by @port, by whoever forwards in this run."""
    if lab.daemon_up():
        return after.port(port, 'forwarded') - before.port(port, 'forwarded')
    return sum(after.kernel[k] - before.kernel[k] for k in ('Ip.ForwDatagrams', 'Ip6.OutForwDatagrams'))


@FAMILIES
@DIRECTIONS
def test_iperf_tcp(lab, family, reverse):
    before = lab.snapshot()
    out = traffic.iperf(lab.h1, lab.h2, family, reverse=reverse)
    after = lab.snapshot()
    received = out['end']['sum_received']['bytes']
    assert received > 5_000_000
    n = forwarded_by(lab, before, after, 'wan' if reverse else 'lan')
    assert n >= received / 1448, f'{received} bytes arrived, only {n} packets were forwarded'


@FAMILIES
@DIRECTIONS
def test_iperf_udp(lab, family, reverse):
    """A rate that any of the modes carries: nothing is lost, and routerd forwarded it all."""
    before = lab.snapshot()
    out = traffic.iperf(lab.h1, lab.h2, family, udp_mbit=40, length=1200, reverse=reverse)
    after = lab.snapshot()
    total = out['end']['sum']
    assert total['packets'] > 6000
    assert total['lost_packets'] <= total['packets'] * 0.01, total
    n = forwarded_by(lab, before, after, 'wan' if reverse else 'lan')
    assert n >= total['packets'] - total['lost_packets']


@pytest.mark.parametrize('family,back', ((4, False), (6, True)), ids=('ipv4-there', 'ipv6-back'))
def test_100_megabytes_arrive_unchanged(make_lab, family, back):
    lab = make_lab(workers=2, queues=2)
    src, dst = (lab.h2, lab.h1) if back else (lab.h1, lab.h2)
    size = 100 * 1000 * 1000
    before = lab.snapshot()
    sent, got, count = traffic.transfer(src, dst, family, size)
    after = lab.snapshot()
    assert count == size and got == sent
    assert forwarded_by(lab, before, after, src.link) >= size // 1460


def flows_both_ways(lab, count=400):
    """Many flows in both directions and families; every packet arrives once and is exact."""
    for src, dst in ((lab.h1, lab.h2), (lab.h2, lab.h1)):
        cap = dst.capture()
        sent = [src.frame(udp_packet(src.ip(f), dst.ip(f), 1000 + i, payload=b'%06d' % i))
                for i in range(count) for f in (4, 6)]
        with lab.expect(forwarded={src.link: len(sent)}):
            src.send(sent, pps=10000)
            got = cap.take(len(sent), lambda e: to(dst.ip4)(e) or to(dst.ip6)(e))
        cap.close()
        assert sorted(got) == sorted(dst.received(f) for f in sent)


@pytest.mark.parametrize('queues', (1, 2, 4))
@pytest.mark.parametrize('workers', (1, 2, pytest.param(4, marks=pytest.mark.sanitizer)))
def test_workers_and_queues(make_lab, workers, queues):
    """Any number of workers serves any number of queues, more or fewer than itself."""
    lab = make_lab(workers=workers, queues=queues)
    flows_both_ways(lab)
    if not lab.daemon_up():
        return
    rows = lab.daemon.json('queue')
    receiving = [r for r in rows if r['direction'] == 'rx']
    assert {(r['port'], r['queue']) for r in receiving} == {(p, q) for p in ('lan', 'wan') for q in range(queues)}
    assert {r['worker'] for r in receiving} == set(range(min(workers, 2 * queues))) or workers > queues
    assert all(r['packets'] > 0 for r in receiving), f'a queue without packets: {receiving}'
    assert sum(r['packets'] for r in receiving if r['port'] == 'lan') >= 800


@pytest.mark.routerd
@pytest.mark.parametrize('mode', ('native', 'generic'))
@pytest.mark.sanitizer
def test_modes(make_lab, mode):
    """The mode asked for is the mode in use, said by routerctl and by the kernel."""
    lab = make_lab(mode=mode, queues=1)
    rows = lab.daemon.json('port')
    assert sorted(r['name'] for r in rows) == ['lan', 'wan']
    for row in rows:
        assert row['mode_requested'] == mode
        assert row['xdp_attach'] == mode, row
        assert not row['zero_copy']
        link = lab.router.ip_json(f'-d link show dev {row["name"]}')[0]
        assert link['xdp']['mode'] == {'native': 1, 'generic': 2}[mode], link['xdp']
        assert (row['ifindex'], row['mtu'], row['mac']) == (link['ifindex'], 1500, link['address'])
    flows_both_ways(lab, 200)


@pytest.mark.routerd
def test_auto_explains_what_was_refused(lab):
    """auto asks for zero-copy first: veth refuses, and the row says so."""
    for row in lab.daemon.json('port'):
        assert row['mode_requested'] == 'auto'
        assert row['xdp_attach'] == 'native' and not row['zero_copy']
        text = str(row['attempts'])
        assert 'zero' in text.lower(), text


def test_generic_and_native_ports_exchange_packets(make_lab):
    lab = make_lab(config={'port lan': {'mode': 'generic'}, 'port wan': {'mode': 'native'}})
    flows_both_ways(lab, 200)


@pytest.mark.routerd
def test_idle_costs_almost_no_cpu(make_lab):
    """Blocking idle: below 5 % of one core without traffic, also after there was some."""
    lab = make_lab(workers=2, queues=2)
    flows_both_ways(lab, 50)
    time.sleep(0.3)
    before = lab.daemon.cpu_seconds()
    time.sleep(3)
    used = lab.daemon.cpu_seconds() - before
    assert used < 0.15, f'{used:.2f} s of CPU in 3 s without traffic'
