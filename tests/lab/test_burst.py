# SPDX-License-Identifier: GPL-2.0-or-later
"""Bursts of route changes: applied completely, while traffic flows without loss; netlink overrun heals."""
import os
import random
import signal
import time

import pytest

from harness import mirror
from harness.traffic import Stream

CHANGES = 100000


def burst(lab, count=CHANGES, base=11):
    """@count changes in one ip process: count/2 routes added, then deleted again but for every hundredth; between
    them the route that the traffic uses is moved to and fro."""
    half = count // 2
    nets = [f'{base + (i >> 16)}.{i >> 8 & 255}.{i & 255}.0/24' for i in range(half)]
    lines = []
    for i, net in enumerate(nets):
        lines.append(f'route add {net} via {("10.0.2.2", "10.0.3.2")[i & 1]}')
        if i % 1000 == 0:
            lines.append(f'route replace 10.90.0.0/16 via {("10.0.2.2", "10.0.3.2")[i // 1000 & 1]}')
    lines += [f'route del {net}' for i, net in enumerate(nets) if i % 100]
    lab.router.batch(lines)
    return half - half * 99 // 100


@pytest.mark.seconds(90)
@pytest.mark.sanitizer
def test_100000_changes_while_traffic_flows(make_lab):
    """Every packet is numbered; each arrives exactly once, at one of the two valid next hops."""
    lab = make_lab(ports=('lan', 'wan', 'wan2'), workers=2, queues=2)
    lab.ip('route add 10.90.0.0/16 via 10.0.2.2')
    before = lab.snapshot()
    stream = Stream(lab, lab.h1, '10.90.0.1', [lab.h2, lab.h3], pps=5000, flows=32).start()
    start = time.monotonic()
    burst(lab)
    lab.sync(30)
    took = time.monotonic() - start
    stream.stop()
    after = lab.snapshot()
    print(f'{CHANGES} changes in {took:.1f} s, {stream.sent} packets meanwhile')
    lost, doubled = stream.lost(), stream.doubled()
    assert not lost, f'{len(lost)} of {stream.sent} lost, first {lost[:5]}'
    assert not doubled
    assert stream.sent >= 300, "the sender slept"
    if not lab.daemon_up():
        return
    assert after.port('lan', 'forwarded') - before.port('lan', 'forwarded') == stream.sent
    mirror.assert_equal(lab)
    assert len([r for r in mirror.mirrored_routes(lab.daemon, 4) if r[0].endswith('/24')]) >= 500


def resident_kib(pid):
    with open(f'/proc/{pid}/status') as f:
        return int(next(line for line in f if line.startswith('VmRSS')).split()[1])


@pytest.mark.routerd
@pytest.mark.seconds(90)
def test_memory_stays_bounded_over_bursts(make_lab):
    """The same burst again and again does not make the daemon grow."""
    lab = make_lab(ports=('lan', 'wan', 'wan2'))
    sizes = []
    for _ in range(4):
        burst(lab, 40000)
        lab.sync(30)
        lab.router.batch('route flush root 11.0.0.0/8\n')
        lab.sync(30)
        time.sleep(0.3)
        sizes.append(resident_kib(lab.daemon.process.pid))
    assert sizes[-1] < sizes[0] * 1.2 + 4096, f'resident memory in KiB after each burst: {sizes}'
    mirror.assert_equal(lab)


@pytest.mark.routerd
@pytest.mark.seconds(120)
@pytest.mark.sanitizer
def test_netlink_overrun_is_healed_by_a_resync(make_lab):
    """The daemon is stopped (SIGSTOP) while more changes come than its socket holds. Meanwhile the kernel forwards
    (stale heartbeat); when it goes on it finds the overrun, takes everything anew, and forwarding has no gap."""
    lab = make_lab(ports=('lan', 'wan', 'wan2'))
    lab.ip('route add 10.90.0.0/16 via 10.0.2.2')
    lab.kernel_forwards_freely = True
    before = lab.daemon.json('status')['mirror']['resyncs']
    os.kill(lab.daemon.process.pid, signal.SIGSTOP)
    try:
        for base in (20, 30, 40, 50):
            nets = [f'{base + (i >> 16)}.{i >> 8 & 255}.{i & 255}.0/24' for i in range(50000)]
            lab.router.batch([f'route add {n} via 10.0.3.2' for n in nets])
            lab.router.batch([f'route del {n}' for i, n in enumerate(nets) if i % 50])
    finally:
        os.kill(lab.daemon.process.pid, signal.SIGCONT)
    stream = Stream(lab, lab.h1, '10.90.0.1', [lab.h2, lab.h3], pps=3000).start()
    lab.wait_for(lambda: lab.daemon.json('status')['mirror']['synced'], 'the mirror to be in step', 30, 0.2)
    mirror.assert_equal(lab, timeout=30)
    stream.stop()
    assert not stream.lost(), f'{len(stream.lost())} of {stream.sent} lost during the resync'
    status = lab.daemon.json('status')['mirror']
    if status['resyncs'] == before:
        pytest.skip("the daemon's netlink buffer took 400,000 messages: no overrun to be seen")


@pytest.mark.seconds(90)
@pytest.mark.sanitizer
def test_flapping_links_and_routes_with_traffic(make_lab):
    """The order of messages never matters: links, addresses, routes, neighbours and nexthops change at random while
    traffic flows; in the end mirror and kernel agree and traffic is forwarded again."""
    lab = make_lab(ports=('lan', 'wan', 'wan2'), workers=2)
    lab.kernel_forwards_freely = True
    lab.ip('route add 10.90.0.0/16 via 10.0.2.2')
    stream = Stream(lab, lab.h1, '10.90.0.1', [lab.h2, lab.h3], pps=1000).start()
    rng, n = random.Random(5), 0
    choices = ('link set wan2 down', 'link set wan2 up', 'address add 10.0.33.1/24 dev wan2',
               'address del 10.0.33.1/24 dev wan2', 'route replace 10.91.0.0/16 via 10.0.3.2',
               'route del 10.91.0.0/16', 'route replace 10.92.0.0/16 nexthop via 10.0.2.2 nexthop via 10.0.3.2',
               'nexthop replace id 3 via 10.0.3.2 dev wan2', 'nexthop del id 3', 'route replace 10.93.0.0/16 nhid 3',
               'neigh replace 10.0.3.9 lladdr 02:00:00:00:09:09 dev wan2', 'neigh del 10.0.3.9 dev wan2',
               'link set wan2 mtu 1400', 'link set wan2 mtu 1500', '-6 route replace fd91::/64 via fd00:3::2',
               '-6 route del fd91::/64')
    for _ in range(30):
        lab.router.batch(''.join(rng.choice(choices) + '\n' for _ in range(20)), force=True)
        n += 20
    lab.router.ip('link set wan2 up')
    lab.sync(20)
    stream.stop()
    assert not stream.lost(), f'{len(stream.lost())} of {stream.sent} lost although the path never changed'
    if lab.daemon_up():
        mirror.assert_equal(lab)
