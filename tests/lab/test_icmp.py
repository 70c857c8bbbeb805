# SPDX-License-Identifier: GPL-2.0-or-later
"""What only the kernel may answer: MTU, TTL, unreachable. The error comes from the right address, quotes the right
packet and says the right thing; counters are exact (semantics F12-F18, F21, E1-E5)."""
import errno
import socket
import struct

import pytest

from harness import traffic
from harness.errors import assert_error, provoke
from harness.frames import (DF, ICMP, ICMPV6, MF, NO_NEXT, fragments4, icmp, ip, ip_of, ipv4, udp_packet)
from harness.wire import Capture, icmp_error, to

FAMILIES = pytest.mark.parametrize('family', (4, 6))


class TestMtu:
    """wan has the MTU 1400; lan 1500."""

    @pytest.fixture
    def lab(self, make_lab):
        return make_lab(mtu={'wan': 1400})

    @pytest.mark.parametrize('size', (1401, 1500))
    @pytest.mark.sanitizer
    def test_ipv4_df_gets_fragmentation_needed(self, lab, size):
        p = udp_packet(lab.h1.ip4, lab.h2.ip4, size=size, frag=DF, ident=77)
        errors = provoke(lab, p, 4, kernel={('lan', 'too_big'): 1}, kernel_forwarded=1,
                         snmp={'Ip.FragFails': 1, 'Icmp.OutDestUnreachs': 1, 'Ip.FragOKs': 0})
        assert_error(errors, 4, lab.h1, 3, 4, 1400, p)

    @pytest.mark.parametrize('size', (1399, 1400))
    def test_what_fits_is_forwarded(self, lab, size):
        for family in (4, 6):
            f = lab.h1.frame(udp_packet(lab.h1.ip(family), lab.h2.ip(family), size=size,
                                        **({'frag': DF} if family == 4 else {})))
            cap = lab.h2.capture()
            with lab.expect(forwarded=1):
                lab.h1.send(f)
                assert cap.take(1, to(lab.h2.ip(family))) == [lab.h2.received(f)]

    def test_padding_does_not_count(self, lab):
        """The packet's length is compared, not the frame's."""
        f = lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4, size=1400, frag=DF), pad=60)
        cap = lab.h2.capture()
        with lab.expect(forwarded=1):
            lab.h1.send(f)
            assert cap.take(1, to(lab.h2.ip4)) == [lab.h2.received(f)]

    @pytest.mark.parametrize('size', (1401, 1402, 1408, 1500))
    @pytest.mark.sanitizer
    def test_ipv4_without_df_is_fragmented_exactly(self, lab, size):
        """F18: the kernel cuts; pieces are multiples of 8, id kept, TTL less one; the host's socket gets it whole."""
        payload = bytes(range(256)) * 6
        p = udp_packet(lab.h1.ip4, lab.h2.ip4, payload=payload, size=size, ident=4711)
        f = lab.h1.frame(p)
        cap = lab.h2.capture()
        with lab.expect(kernel={('lan', 'too_big'): 1}, kernel_forwarded=1,
                        snmp={'Ip.FragOKs': 1, 'Ip.FragCreates': 2, 'Ip.FragFails': 0}):
            lab.h1.send(f)
            got = cap.take(2, to(lab.h2.ip4))
        whole = ip_of(lab.h2.received(f))
        assert [ip_of(g) for g in got] == fragments4(whole, 1400)
        assert lab.h2.sinks[0].recv(2000) == p[28:]

    def test_ipv4_fragment_is_fragmented_again(self, lab):
        """Public bug 1: a lone middle fragment that is too big keeps its offset and MF in every piece."""
        a, b = lab.h1.ip4, lab.h2.ip4
        p = ipv4(a, b, 17, bytes(range(256)) * 5 + bytes(200), ident=99, frag=MF | 185)
        f = lab.h1.frame(p)
        cap = lab.h2.capture()
        with lab.expect(kernel={('lan', 'too_big'): 1}, kernel_forwarded=1):
            lab.h1.send(f)
            got = cap.take(2, to(b))
        assert [ip_of(g) for g in got] == fragments4(ip_of(lab.h2.received(f)), 1400)

    @pytest.mark.parametrize('size', (1401, 1500))
    @pytest.mark.sanitizer
    def test_ipv6_gets_packet_too_big(self, lab, size):
        p = udp_packet(lab.h1.ip6, lab.h2.ip6, size=size)
        errors = provoke(lab, p, 6, kernel={('lan', 'too_big'): 1}, kernel_forwarded=1,
                         snmp={'Ip6.InTooBigErrors': 1, 'Ip6.FragFails': 1, 'Icmp6.OutPktTooBigs': 1})
        assert_error(errors, 6, lab.h1, 2, 0, 1400, p, from_ip=None)

    def test_ping_with_df_shows_the_mtu(self, lab):
        """What a user sees: ping -M do over the smaller egress MTU."""
        with lab.expect(kernel={('lan', 'too_big'): 1}, kernel_forwarded=1):
            out = lab.h1.ns.run('ping', '-c', 1, '-W', 2, '-M', 'do', '-s', 1450, lab.h2.ip4, check=False)
        assert f'From {lab.h1.gw_ip4}' in out and 'mtu = 1400' in out, out

    def test_tcp_finds_the_path_mtu(self, lab):
        """Path MTU discovery works through routerd: a transfer over the smaller MTU arrives whole."""
        lab.kernel_forwards_freely = True
        for family in (4, 6):
            sent, got, count = traffic.transfer(lab.h1, lab.h2, family, 2_000_000)
            assert (count, got) == (2_000_000, sent)


@FAMILIES
@pytest.mark.parametrize('lock', ('', 'lock'), ids=('mtu', 'mtu-lock'))
def test_route_mtu_metric(lab, family, lock):
    """F15: the route's mtu metric rules where it is smaller than the device's. (For an unlocked IPv6 metric the
    kernel finds out in its output path and quotes the packet with the hop limit already less one.)"""
    net = '10.9.0.0/16' if family == 4 else 'fd09::/64'
    dst = '10.9.0.1' if family == 4 else 'fd09::1'
    lab.ip(f'route add {net} via {lab.h2.ip(family)} mtu {lock} 1300')
    kw = {'frag': DF} if family == 4 else {}
    p = udp_packet(lab.h1.ip(family), dst, size=1301, **kw)
    errors = provoke(lab, p, family, kernel={('lan', 'too_big'): 1}, kernel_forwarded=1)
    quoted = p if family == 4 or lock else p[:7] + bytes([p[7] - 1]) + p[8:]
    assert_error(errors, family, lab.h1, *((3, 4, 1300) if family == 4 else (2, 0, 1300)), quoted)
    f = lab.h1.frame(udp_packet(lab.h1.ip(family), dst, size=1300, **kw))
    cap = lab.h2.capture()
    with lab.expect(forwarded=1):
        lab.h1.send(f)
        assert cap.take(1, to(dst)) == [lab.h2.received(f)]


@FAMILIES
def test_mtu_change_at_run_time(lab, family):
    kw = {'frag': DF} if family == 4 else {}
    p = udp_packet(lab.h1.ip(family), lab.h2.ip(family), size=1450, **kw)
    with lab.expect(forwarded=1):
        lab.h1.send(lab.h1.frame(p))
    lab.ip('link set wan mtu 1420')
    errors = provoke(lab, p, family, kernel={('lan', 'too_big'): 1}, kernel_forwarded=1)
    assert_error(errors, family, lab.h1, *((3, 4, 1420) if family == 4 else (2, 0, 1420)), p)
    lab.ip('link set wan mtu 1500')
    if lab.daemon_up():  # IPv6 has an MTU of its own behind a sysctl, which does not notify
        lab.wait_for(lambda: lab.daemon.json('route', 'get', lab.h2.ip(family))['mtu'] == 1500, 'the new MTU', 5)
    with lab.expect(forwarded=1):
        lab.h1.send(lab.h1.frame(p))


class TestTtl:
    @FAMILIES
    @pytest.mark.parametrize('ttl', (0, 1))
    def test_time_exceeded(self, lab, family, ttl):
        p = udp_packet(lab.h1.ip(family), lab.h2.ip(family), ttl=ttl, payload=b'last hop')
        key = 'Icmp.OutTimeExcds' if family == 4 else 'Icmp6.OutTimeExcds'
        errors = provoke(lab, p, family, kernel={('lan', 'ttl'): 1}, snmp={key: 1})
        assert_error(errors, family, lab.h1, 11 if family == 4 else 3, 0, 0, p)

    @FAMILIES
    @pytest.mark.sanitizer
    def test_from_the_other_side(self, lab, family):
        """The address is that of the port the packet came by."""
        p = udp_packet(lab.h2.ip(family), lab.h1.ip(family), ttl=1)
        errors = provoke(lab, p, family, host=lab.h2, kernel={('wan', 'ttl'): 1})
        assert_error(errors, family, lab.h2, 11 if family == 4 else 3, 0, 0, p)

    @FAMILIES
    def test_ttl_wins_over_mtu(self, make_lab, family):
        """T13, F12."""
        lab = make_lab(mtu={'wan': 1400})
        kw = {'frag': DF} if family == 4 else {}
        p = udp_packet(lab.h1.ip(family), lab.h2.ip(family), ttl=1, size=1500, **kw)
        errors = provoke(lab, p, family, kernel={('lan', 'ttl'): 1})
        assert_error(errors, family, lab.h1, 11 if family == 4 else 3, 0, 0, p)

    @FAMILIES
    def test_ttl_two_arrives_with_one(self, lab, family):
        f = lab.h1.frame(udp_packet(lab.h1.ip(family), lab.h2.ip(family), ttl=2))
        cap = lab.h2.capture()
        with lab.expect(forwarded=1):
            lab.h1.send(f)
            got = cap.take(1, to(lab.h2.ip(family)))
        assert got == [lab.h2.received(f)]
        assert got[0][14 + (8 if family == 4 else 7)] == 1

    @FAMILIES
    def test_traceroute(self, lab, family):
        before = lab.snapshot()
        out = lab.h1.ns.run('traceroute', '-n', '-q', 1, '-w', 2, f'-{family}', lab.h2.ip(family))
        hops = [line.split()[1] for line in out.splitlines()[1:]]
        assert hops == [lab.h1.gw_ip(family), lab.h2.ip(family)]
        after = lab.snapshot()
        if lab.daemon_up():
            assert after.port('lan', 'forwarded') > before.port('lan', 'forwarded')


REJECTS = (  # type, reason, (ICMPv4 type, code), (ICMPv6 type, code)
    ('unreachable', 'unreachable', (3, 1), (1, 0)),
    ('prohibit', 'prohibit', (3, 13), (1, 1)),
)


class TestRouteTypes:
    @staticmethod
    def target(family):
        return ('10.66.0.0/16', '10.66.0.1') if family == 4 else ('fd66::/64', 'fd66::1')

    @FAMILIES
    @pytest.mark.parametrize('kind,reason,v4,v6', REJECTS, ids=[r[0] for r in REJECTS])
    def test_reject_routes_are_answered_by_the_kernel(self, lab, family, kind, reason, v4, v6):
        net, dst = self.target(family)
        lab.ip(f'route add {kind} {net}')
        p = udp_packet(lab.h1.ip(family), dst, payload=b'to a refused net')
        errors = provoke(lab, p, family, kernel={('lan', reason): 1})
        assert_error(errors, family, lab.h1, *(v4 if family == 4 else v6), 0, p)
        if lab.daemon_up():
            assert lab.daemon.json('route', 'get', dst)['verdict'] == reason

    @FAMILIES
    @pytest.mark.sanitizer
    def test_blackhole_is_silent(self, lab, family):
        net, dst = self.target(family)
        lab.ip(f'route add blackhole {net}')
        p = udp_packet(lab.h1.ip(family), dst)
        back = lab.h1.capture()
        with lab.expect(dropped={('lan', 'blackhole'): 1}):
            lab.h1.send(lab.h1.frame(p))
        assert not back.take(match=icmp_error)

    @FAMILIES
    @pytest.mark.sanitizer
    def test_no_route(self, lab, family):
        """F21: network unreachable (3/0), no route to destination (1/0)."""
        _, dst = self.target(family)
        p = udp_packet(lab.h1.ip(family), dst)
        key = 'Ip6.InNoRoutes' if family == 6 else 'IpExt.InNoRoutes'
        errors = provoke(lab, p, family, kernel={('lan', 'no_route'): 1}, snmp={key: 1})
        assert_error(errors, family, lab.h1, *((3, 0) if family == 4 else (1, 0)), 0, p)

    def test_throw_is_no_route(self, lab):
        """A throw route in main ends the table's look-up: nothing follows main, so there is no route."""
        net, dst = self.target(4)
        lab.ip(f'route add {net} via {lab.h2.ip4}', 'route add throw 10.66.0.0/24')
        p = udp_packet(lab.h1.ip4, dst)
        before = lab.snapshot()
        back = lab.h1.capture()
        lab.h1.send(lab.h1.frame(p))
        errors = back.take(1, icmp_error)
        after = lab.snapshot()
        assert_error(errors, 4, lab.h1, 3, 0, 0, p)
        assert after.port('lan', 'forwarded') == before.port('lan', 'forwarded')
        f = lab.h1.frame(udp_packet(lab.h1.ip4, '10.66.9.9'))
        cap = lab.h2.capture()
        with lab.expect(forwarded=1):
            lab.h1.send(f)
            assert cap.take(1, to('10.66.9.9')) == [lab.h2.received(f)]

    @FAMILIES
    def test_refused_route_becomes_a_route(self, lab, family):
        """The type of a route is replaced while it is used."""
        net, dst = self.target(family)
        f = lab.h1.frame(udp_packet(lab.h1.ip(family), dst))
        cap = lab.h2.capture()
        lab.ip(f'route add blackhole {net}')
        with lab.expect(dropped={('lan', 'blackhole'): 1}):
            lab.h1.send(f)
        if family == 4:
            lab.ip(f'route replace {net} via {lab.h2.ip4}')
        else:
            lab.ip(f'route del blackhole {net}', f'route add {net} via {lab.h2.ip6}')
        with lab.expect(forwarded=1):
            lab.h1.send(f)
            assert cap.take(1, to(dst)) == [lab.h2.received(f)]

    def test_errors_are_never_answered(self, lab):
        """E1: an ICMP error for which there is no route provokes nothing; an echo request does."""
        inner = udp_packet('10.66.0.1', lab.h1.ip4)
        p = ipv4(lab.h1.ip4, '10.66.0.1', ICMP, icmp(3, 1, bytes(4) + inner[:28]))
        back = lab.h1.capture()
        with lab.expect(kernel={('lan', 'no_route'): 1}):
            lab.h1.send(lab.h1.frame(p))
        assert not back.take(match=icmp_error)
        inner = udp_packet('fd66::1', lab.h1.ip6)
        p = ip(lab.h1.ip6, 'fd66::1', ICMPV6, icmp(1, 0, bytes(4) + inner, lab.h1.ip6, 'fd66::1'))
        with lab.expect(kernel={('lan', 'no_route'): 1}):
            lab.h1.send(lab.h1.frame(p))
        assert not back.take(match=icmp_error)

    def test_error_passes_through(self, lab):
        """F17: a transit ICMP error (here frag needed for a flow of h1's) is forwarded like any packet."""
        inner = udp_packet(lab.h1.ip4, lab.h2.ip4, size=200, frag=DF)
        f = lab.h2.frame(ipv4(lab.h2.ip4, lab.h1.ip4, ICMP, icmp(3, 4, b'\0\0' + struct.pack('!H', 1000) + inner)))
        cap = lab.h1.capture()
        with lab.expect(forwarded={'wan': 1}):
            lab.h2.send(f)
            assert cap.take(1, icmp_error) == [lab.h1.received(f)]


@FAMILIES
def test_refused_packets_keep_their_bytes_on_the_port(lab, family):
    """tcpdump on the ingress port sees a delivered packet as it came: same bytes, its true port."""
    dst = '10.66.0.1' if family == 4 else 'fd66::1'
    lab.ip(f'route add prohibit {dst}/{32 if family == 4 else 128}')
    cap = Capture(lab.router, 'lan')
    f = lab.h1.frame(ip(lab.h1.ip(family), dst, NO_NEXT, b'as it came'))
    with lab.expect(kernel={('lan', 'prohibit'): 1}):
        lab.h1.send(f)
        got = cap.take(1, to(dst))
    assert got == [f]


def test_udp_is_quoted_with_its_ports(lab):
    """A socket of the sender gets the error: connection refused/unreachable reaches the application."""
    lab.ip('route add prohibit 10.66.0.0/16')
    s = lab.h1.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(('10.66.0.1', 9))
    s.settimeout(2)
    with lab.expect(kernel={('lan', 'prohibit'): 1}):
        s.send(b'x')
        with pytest.raises(OSError) as e:
            s.recv(100)
    assert e.value.errno in (errno.EHOSTUNREACH, errno.EACCES)
