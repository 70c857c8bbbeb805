# SPDX-License-Identifier: GPL-2.0-or-later
"""Plain forwarding: every byte of every packet."""
import random

import pytest

from harness.frames import (ICMP, NO_NEXT, TCP, UDP, DF, icmp, internet_checksum, ip, ipv4, ipv6, tcp, udp,
                            udp_packet)
from harness.wire import to

FAMILIES = pytest.mark.parametrize('family', (4, 6))


def exchange(lab, src, dst, packets, pads=None, **expect):
    """Send packets from one host to the other: all arrive, byte for byte as a router must send them, in order."""
    sent = [src.frame(p, pad=pad) for p, pad in zip(packets, pads or [0] * len(packets))]
    cap = dst.capture()
    with lab.expect(forwarded={src.link: len(sent)}, **expect):
        src.send(sent)
        got = cap.take(len(sent), to(dst.ip(4 if sent[0][12:14] == b'\x08\0' else 6)))
    cap.close()
    want = [dst.received(f) for f in sent]
    assert len(got) == len(want), f'{len(got)} of {len(want)} arrived'
    for i, (a, b) in enumerate(zip(got, want)):
        assert a == b, f'packet {i}:\n got {a.hex()}\nwant {b.hex()}'


@FAMILIES
@pytest.mark.sanitizer
def test_bytes_mac_and_ttl_are_exact(lab, family):
    """MACs of the egress link, TTL less one, checksum right, nothing else changed; both directions."""
    for src, dst in ((lab.h1, lab.h2), (lab.h2, lab.h1)):
        a, b = src.ip(family), dst.ip(family)
        exchange(lab, src, dst, [udp_packet(a, b, 1000 + i, payload=b'x' * i, ttl=ttl)
                                 for i, ttl in enumerate((2, 3, 64, 127, 128, 255))])


@FAMILIES
def test_every_size_up_to_the_mtu(lab, family):
    smallest = 28 if family == 4 else 48
    sizes = list(range(smallest, smallest + 64)) + [255, 256, 257, 511, 512, 1023, 1024, 1279, 1280, 1498, 1499, 1500]
    exchange(lab, lab.h1, lab.h2, [udp_packet(lab.h1.ip(family), lab.h2.ip(family), size=s) for s in sizes])


@FAMILIES
@pytest.mark.sanitizer
def test_link_padding_is_cut(lab, family):
    """F1, F2: bytes behind the IP packet do not travel on."""
    pads = (1, 2, 18, 18, 46, 200)
    packets = [udp_packet(lab.h1.ip(family), lab.h2.ip(family), payload=b'p' * n) for n in (0, 1, 0, 5, 3, 100)]
    exchange(lab, lab.h1, lab.h2, packets, pads)


def test_header_checksum_edges(lab):
    """F14: every header checksum around the places where one's complement carries, at several TTLs, by choice of the
    id; what is sent equals a checksum made from scratch."""
    edges = {0, 1, 2, 0xfe, 0xff, 0x100, 0x101, 0xfeff, 0xff00, 0xff01, 0xfffd, 0xfffe, 0xfffd - 0x100}
    packets = []
    for ttl in (2, 3, 64, 128, 254, 255):
        head = udp_packet(lab.h1.ip4, lab.h2.ip4, ttl=ttl)[:20]
        for ident in range(65536):
            raw = head[:4] + ident.to_bytes(2, 'big') + head[6:10] + b'\0\0' + head[12:]
            if internet_checksum(raw) in edges:
                packets.append(udp_packet(lab.h1.ip4, lab.h2.ip4, ttl=ttl, ident=ident))
    assert {int.from_bytes(p[10:12], 'big') for p in packets} == edges and len(packets) >= 6 * len(edges)
    exchange(lab, lab.h1, lab.h2, packets)


def test_checksum_field_of_all_ones(lab):
    """V2: 0xffff where 0x0000 is due is accepted; the sent checksum verifies."""
    for ident in range(65536):
        p = udp_packet(lab.h1.ip4, lab.h2.ip4, ident=ident)
        if p[10:12] == b'\0\0':
            break
    odd = p[:10] + b'\xff\xff' + p[12:]
    cap = lab.h2.capture()
    with lab.expect(forwarded=2):
        lab.h1.send([lab.h1.frame(p), lab.h1.frame(odd)])
        got = cap.take(2, to(lab.h2.ip4))
    want = lab.h2.received(lab.h1.frame(p))
    assert [g[:24] + g[26:] for g in got] == [want[:24] + want[26:]] * 2
    assert got[0] == want
    assert [internet_checksum(g[14:34]) for g in got] == [0, 0]


@FAMILIES
def test_traffic_class_flags_and_flow_label_are_kept(lab, family):
    a, b = lab.h1.ip(family), lab.h2.ip(family)
    if family == 4:
        packets = [udp_packet(a, b, tos=tos, ident=ident, frag=frag)
                   for tos in (0, 1, 2, 3, 0x2e << 2, 0xff) for ident in (0, 1, 0xffff) for frag in (0, DF)]
    else:
        packets = [udp_packet(a, b, tclass=t, flow=f) for t in (0, 1, 2, 3, 0xb8, 0xff) for f in (0, 1, 0xfffff)]
    exchange(lab, lab.h1, lab.h2, packets)


@FAMILIES
def test_any_upper_protocol(lab, family):
    """The router looks at no upper layer: unknown protocols, bad and zero UDP checksums pass unchanged."""
    a, b = lab.h1.ip(family), lab.h2.ip(family)
    bad = bytearray(udp(a, b, 5, 9, b'bad checksum'))
    bad[6] ^= 0x55
    zero = udp(a, b, 5, 9, b'zero')[:6] + b'\0\0' + b'zero'
    packets = [ip(a, b, p, b'payload of an unknown protocol') for p in (NO_NEXT, 103, 115, 132, 253, 254)]
    packets += [ip(a, b, UDP, bytes(bad)), ip(a, b, UDP, zero), ip(a, b, TCP, tcp(a, b, 5, 7, b'data', flags=4))]
    cap = lab.h2.capture()
    sent = [lab.h1.frame(p) for p in packets]
    # the host itself may answer (protocol unreachable, parameter problem): those come back by 'wan'
    before = lab.snapshot()
    lab.h1.send(sent)
    got = cap.take(len(sent), to(b))
    after = lab.snapshot()
    assert got == [lab.h2.received(f) for f in sent]
    if lab.daemon_up():
        assert after.port('lan', 'forwarded') - before.port('lan', 'forwarded') == len(sent)


@pytest.mark.sanitizer
def test_extension_headers_are_not_looked_at(lab):
    """F11: destination options and routing headers pass unchanged when the destination is not the router."""
    a, b = lab.h1.ip6, lab.h2.ip6
    u = udp(a, b, 5, 9, b'behind headers')
    options = bytes([UDP, 0, 1, 4, 0, 0, 0, 0])
    routing = bytes([UDP, 2, 0, 0]) + bytes(4) + bytes(16)
    exchange(lab, lab.h1, lab.h2, [ipv6(a, b, 60, options + u), ipv6(a, b, 43, routing + u)])


@pytest.mark.parametrize('src,dst', (('240.0.0.1', None), (None, '240.0.0.9'), ('0.1.2.3', None),
                                     ('169.254.1.1', None), ('10.0.2.2', None)))
def test_odd_addresses_are_forwarded_as_the_kernel_does(lab, src, dst):
    """F5, V1: class E, 0/8, link-local IPv4 and src == dst are forwarded."""
    lab.ip('route add 240.0.0.0/4 via 10.0.2.2')
    cap = lab.h2.capture()
    f = lab.h1.frame(udp_packet(src or lab.h1.ip4, dst or lab.h2.ip4))
    with lab.expect(forwarded=1):
        lab.h1.send(f)
        got = cap.take(1, to(dst or lab.h2.ip4))
    assert got == [lab.h2.received(f)]


@pytest.mark.parametrize('src,dst', (('::ffff:1.2.3.4', None), ('fec0::1', None), ('::1.2.3.4', None)))
def test_odd_ipv6_addresses_are_forwarded(lab, src, dst):
    """V5."""
    cap = lab.h2.capture()
    f = lab.h1.frame(udp_packet(src, lab.h2.ip6))
    with lab.expect(forwarded=1):
        lab.h1.send(f)
        got = cap.take(1, to(lab.h2.ip6))
    assert got == [lab.h2.received(f)]


@pytest.mark.sanitizer
def test_both_families_interleaved_keep_their_order(lab):
    """Batches that mix families, sizes and flows arrive complete and each family in order."""
    rng = random.Random(7)
    packets = [udp_packet(lab.h1.ip(f), lab.h2.ip(f), 1000 + i % 97, size=rng.randrange(60, 1500))
               for i, f in enumerate(rng.choices((4, 6), k=1000))]
    cap = lab.h2.capture()
    sent = [lab.h1.frame(p) for p in packets]
    with lab.expect(forwarded=len(sent)):
        lab.h1.send(sent, pps=20000)
        got = cap.take(len(sent), lambda f: to(lab.h2.ip4)(f) or to(lab.h2.ip6)(f))
    assert got == [lab.h2.received(f) for f in sent]


@FAMILIES
@pytest.mark.sanitizer
def test_ping(lab, family):
    """Echo both ways; the kernel of the router forwards none of it."""
    with lab.expect(forwarded={'lan': 5, 'wan': 5}):
        out = lab.h1.ns.run('ping', '-c', 5, '-i', '0.01', '-W', 2, lab.h2.ip(family))
    assert '5 packets transmitted, 5 received, 0% packet loss' in out
    assert f'ttl={63}' in out


def test_echo_request_bytes(lab):
    """An ICMP packet is forwarded like any other: the answer shows that it arrived whole."""
    rest = b'\x12\x34\0\1' + b'echo payload'
    f = lab.h1.frame(ipv4(lab.h1.ip4, lab.h2.ip4, ICMP, icmp(8, 0, rest)))
    cap, back = lab.h2.capture(), lab.h1.capture()
    with lab.expect(forwarded={'lan': 1, 'wan': 1}):
        lab.h1.send(f)
        assert cap.take(1, to(lab.h2.ip4)) == [lab.h2.received(f)]
        answer = back.take(1, to(lab.h1.ip4))
    assert len(answer) == 1
    assert answer[0][34] == 0 and answer[0][38:] == rest
    assert answer[0][22] == 63
