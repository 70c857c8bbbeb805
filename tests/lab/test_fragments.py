# SPDX-License-Identifier: GPL-2.0-or-later
"""Fragments in transit leave as they came, in any order, without any state (R34, R36, R38; public bugs 3, 6, 7)."""
import random
import struct

import pytest

from harness.frames import (DF, FRAGMENT, MF, NO_NEXT, TCP, UDP, fragments4, fragments6, ipv4, ipv6, tcp, udp,
                            udp_packet)
from harness.wire import to

FAMILIES = pytest.mark.parametrize('family', (4, 6))


def pass_through(lab, packets, family, pps=None, answers=0):
    """All packets arrive, byte for byte, in order of sending. @answers: parameter problems that h2 itself sends."""
    sent = [lab.h1.frame(p) for p in packets]
    cap = lab.h2.capture()
    with lab.expect(forwarded={'lan': len(sent), 'wan': answers}, snmp={'Ip.ReasmReqds': 0, 'Ip6.ReasmReqds': 0}):
        lab.h1.send(sent, pps)
        got = cap.take(len(sent), to(lab.h2.ip(family)))
    want = [lab.h2.received(f) for f in sent]
    assert len(got) == len(want)
    assert got == want


def cut(lab, family, size, pieces, ident=1):
    whole = udp_packet(lab.h1.ip(family), lab.h2.ip(family), size=size, **({'ident': ident} if family == 4 else {}))
    return fragments4(whole, pieces) if family == 4 else fragments6(whole, pieces, ident)


@FAMILIES
@pytest.mark.parametrize('order', ('in order', 'reversed', 'last first', 'odd then even', 'random'))
def test_any_order(lab, family, order):
    pieces = cut(lab, family, 9000, 1300)
    assert len(pieces) >= 7
    if order == 'reversed':
        pieces.reverse()
    elif order == 'last first':
        pieces = pieces[-1:] + pieces[:-1]
    elif order == 'odd then even':
        pieces = pieces[1::2] + pieces[::2]
    elif order == 'random':
        random.Random(3).shuffle(pieces)
    pass_through(lab, pieces, family)
    assert len(lab.h2.sinks[family == 6].recv(10000)) == 9000 - (28 if family == 4 else 48)


@FAMILIES
@pytest.mark.sanitizer
def test_later_fragments_first_and_many_datagrams(lab, family):
    """Public bug 3: 2, 3, 1 of a thousand datagrams at once: no state, so nothing to overflow."""
    packets = []
    for i in range(1000):
        a, b, c = cut(lab, family, 700 if family == 4 else 720, 300 if family == 4 else 312, i + 1)[:3]
        packets += [b, c, a]
    pass_through(lab, packets, family, pps=15000)


@FAMILIES
def test_lone_fragments(lab, family):
    """A first, a middle and a last fragment whose siblings never come."""
    pieces = cut(lab, family, 5000, 1300)
    pass_through(lab, [pieces[0], pieces[2], pieces[-1]], family)


def test_tiny_fragments(lab):
    """R18: 8 bytes each, and TCP cut inside its header: a plain forwarder passes them."""
    u = udp_packet(lab.h1.ip4, lab.h2.ip4, size=400, ident=9)
    t = ipv4(lab.h1.ip4, lab.h2.ip4, TCP, tcp(lab.h1.ip4, lab.h2.ip4, 5, 7, b'x' * 30, flags=4), ident=10)
    pass_through(lab, fragments4(u, 28) + fragments4(t, 28), 4)


def test_duplicates_and_overlaps(lab):
    """R38: passed on unchanged; the end host decides."""
    pieces = cut(lab, 4, 4000, 1300)
    overlap = ipv4(lab.h1.ip4, lab.h2.ip4, UDP, b'o' * 64, ident=1, frag=MF | 100)
    pass_through(lab, [pieces[0], pieces[1], pieces[1], overlap, overlap, pieces[2], pieces[0]], 4)


@pytest.mark.sanitizer
def test_end_beyond_65535(lab):
    """Public bug 7: offsets near the top with payloads that go beyond; nothing is computed in 16 bits."""
    a, b = lab.h1.ip4, lab.h2.ip4
    packets = [ipv4(a, b, UDP, bytes(116), ident=1, frag=0x1ffe)]
    packets += [ipv4(a, b, UDP, bytes(n), ident=2, frag=0x1fff) for n in (7, 8, 1480)]
    packets += [ipv4(a, b, UDP, bytes(n), ident=3, frag=MF | 0x1fff) for n in (8, 1480)]
    packets += cut(lab, 4, 3000, 1300, 4)
    pass_through(lab, packets, 4)
    ext = struct.pack('!BBHI', UDP, 0, 0xfff8, 7)
    pass_through(lab, [ipv6(lab.h1.ip6, lab.h2.ip6, FRAGMENT, ext + bytes(n)) for n in (7, 8, 1400)], 6, answers=2)


@pytest.mark.sanitizer
def test_flags_and_reserved_bits(lab):
    """R33, R36: DF on fragments, the reserved bits, odd lengths with MF: unchanged."""
    a, b = lab.h1.ip4, lab.h2.ip4
    packets = [ipv4(a, b, UDP, bytes(40), ident=i, frag=f) for i, f in enumerate((
        DF | MF, DF | 5, 0x8000, 0x8000 | MF, 0x8000 | DF | MF | 7))]
    packets += [ipv4(a, b, UDP, bytes(n), ident=50, frag=MF | 3) for n in (0, 1, 7, 9)]
    pass_through(lab, packets, 4)
    exts = (struct.pack('!BBHI', UDP, 0xff, 0x0007 | 8, 1), struct.pack('!BBHI', UDP, 0, 0x0006, 0))
    pass_through(lab, [ipv6(a6, lab.h2.ip6, FRAGMENT, e + bytes(24)) for e in exts for a6 in (lab.h1.ip6,)], 6)


@pytest.mark.sanitizer
def test_atomic_fragments_and_odd_headers(lab):
    """R28, R29: an atomic fragment, a first fragment without its upper header, no next header, a second one."""
    a, b = lab.h1.ip6, lab.h2.ip6
    whole = udp(a, b, 1, 9, b'atomic')
    packets = [ipv6(a, b, FRAGMENT, struct.pack('!BBHI', UDP, 0, 0, 5) + whole),
               ipv6(a, b, FRAGMENT, struct.pack('!BBHI', UDP, 0, 1, 6) + whole[:0]),
               ipv6(a, b, FRAGMENT, struct.pack('!BBHI', NO_NEXT, 0, 1, 7) + bytes(8)),
               ipv6(a, b, FRAGMENT, struct.pack('!BBHI', FRAGMENT, 0, 1, 8) + struct.pack('!BBHI', UDP, 0, 1, 8) + bytes(8))]
    pass_through(lab, packets, 6, answers=1)


@FAMILIES
def test_mixed_with_the_flow_keeps_order(lab, family):
    """Public bug 6: fragments between unfragmented packets of the same flow keep their place."""
    packets = []
    for i in range(50):
        packets.append(udp_packet(lab.h1.ip(family), lab.h2.ip(family), payload=b'%d' % i))
        packets += cut(lab, family, 2600, 1280, i + 1)
    pass_through(lab, packets, family, pps=10000)


@FAMILIES
def test_big_datagrams_of_a_real_host(lab, family):
    """ping with 20000 bytes: the hosts cut and put together, the router only passes."""
    out = lab.h1.ns.run('ping', '-c', 3, '-i', '0.05', '-W', 2, '-s', 20000, lab.h2.ip(family))
    assert '3 received' in out
