# SPDX-License-Identifier: GPL-2.0-or-later
"""What belongs to the kernel or to nobody: the router's own traffic, rp_filter, martians, bad headers, options,
groups, foreign MACs. Each is counted under its own reason."""
import random
import socket
import time

import pytest

from harness.errors import assert_error, the_error
from harness.frames import (ETH_IPV4, ETH_IPV6, NO_NEXT, UDP, frame, internet_checksum, ip, ipv4, ipv6, udp, udp_packet)
from harness.wire import Capture, both, icmp_error, source, to

FAMILIES = pytest.mark.parametrize('family', (4, 6))


def nothing_arrives(lab, frames_, src=None, **expect):
    """Send frames from h1; none is seen at h2, the counters are as expected. ICMP errors that came back."""
    cap, back = lab.h2.capture(), lab.h1.capture()
    with lab.expect(**expect):
        lab.h1.send(frames_)
    seen = cap.take(match=lambda e: e[12:14] in (b'\x08\0', b'\x86\xdd') and not icmp6_noise(e))
    assert not seen, [f.hex() for f in seen]
    errors = back.take(match=icmp_error)
    cap.close()
    back.close()
    return errors


def icmp6_noise(eth):
    return eth[12:14] == b'\x86\xdd' and (eth[20] in (0, 58))


class TestRouterItself:
    @FAMILIES
    def test_ping_each_address(self, lab, family):
        for address in (lab.h1.gw_ip(family), lab.h2.gw_ip(family)):
            with lab.expect(kernel={('lan', 'local'): 3}):
                out = lab.h1.ns.run('ping', '-c', 3, '-i', '0.01', '-W', 2, address)
            assert '3 received' in out and 'ttl=64' in out

    @FAMILIES
    @pytest.mark.sanitizer
    def test_tcp_to_a_service_of_the_router(self, lab, family):
        """ssh-like: a TCP session to a listening socket in the router namespace."""
        kind = socket.AF_INET if family == 4 else socket.AF_INET6
        with lab.router.enter():
            listener = socket.socket(kind, socket.SOCK_STREAM)
        listener.bind((lab.h1.gw_ip(family), 2222))
        listener.listen(1)
        client = lab.h1.socket(kind, socket.SOCK_STREAM)
        client.settimeout(5)
        client.connect((lab.h1.gw_ip(family), 2222))
        server, peer = listener.accept()
        server.settimeout(5)
        assert peer[0] == lab.h1.ip(family)
        client.sendall(b'q' * 100000)
        got = b''
        while len(got) < 100000:
            got += server.recv(1 << 16)
        server.sendall(b'answer')
        assert client.recv(100) == b'answer'
        for s in (client, server, listener):
            s.close()
        assert got == b'q' * 100000

    @FAMILIES
    def test_router_reaches_the_hosts(self, lab, family):
        """What the router sends by itself is none of routerd's business; the answers are the kernel's."""
        with lab.expect(kernel={('wan', 'local'): 2}):
            out = lab.router.run('ping', '-c', 2, '-i', '0.01', '-W', 2, lab.h2.ip(family))
        assert '2 received' in out

    def test_broadcast_address_of_the_net(self, lab):
        """The net's broadcast address as unicast frame: local to the router, never forwarded (F8)."""
        errors = nothing_arrives(lab, lab.h1.frame(udp_packet(lab.h1.ip4, '10.0.2.255')), kernel={('lan', 'local'): 1})
        assert not errors


class TestReversePath:
    def test_strict_does_not_drop_what_is_delivered(self, make_lab):
        """rp_filter=1: packets handed to the kernel enter by their true port, so the filter accepts them."""
        lab = make_lab(mtu={'wan': 1400}, sysctl={'net.ipv4.conf.all.rp_filter': 1})
        p = udp_packet(lab.h1.ip4, lab.h2.ip4, size=1500, frag=0x4000)
        back = lab.h1.capture()
        with lab.expect(kernel={('lan', 'too_big'): 1}, kernel_forwarded=1, snmp={'TcpExt.IPReversePathFilter': 0}):
            lab.h1.send(lab.h1.frame(p))
            errors = back.take(1, icmp_error)
        assert_error(errors, 4, lab.h1, 3, 4, 1400, p)
        f = lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4))
        with lab.expect(forwarded=1):
            lab.h1.send(f)

    @pytest.mark.parametrize('where', ('all', 'lan'))
    @pytest.mark.sanitizer
    def test_strict_violation(self, make_lab, where):
        """A source that lives elsewhere: not forwarded, and the kernel counts it as it always did."""
        lab = make_lab(sysctl={f'net.ipv4.conf.{where}.rp_filter': 1})
        f = lab.h1.frame(udp_packet('10.0.2.50', lab.h2.ip4))
        nothing_arrives(lab, [f, f], kernel={('lan', 'rp_filter'): 2}, snmp={'TcpExt.IPReversePathFilter': 2})
        good = lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4))
        with lab.expect(forwarded=1):
            lab.h1.send(good)

    def test_loose(self, make_lab):
        """rp_filter=2: any route back will do; no route at all is refused."""
        lab = make_lab(sysctl={'net.ipv4.conf.all.rp_filter': 2})
        f = lab.h1.frame(udp_packet('10.0.2.50', lab.h2.ip4))
        cap = lab.h2.capture()
        with lab.expect(forwarded=1):
            lab.h1.send(f)
            assert cap.take(1, to(lab.h2.ip4)) == [lab.h2.received(f)]
        f = lab.h1.frame(udp_packet('203.0.113.1', lab.h2.ip4))
        nothing_arrives(lab, f, kernel={('lan', 'rp_filter'): 1}, snmp={'TcpExt.IPReversePathFilter': 1})

    def test_switched_on_at_run_time(self, lab):
        """The sysctl is followed while running (sysctls of a device do notify; `all` may take some seconds)."""
        f = lab.h1.frame(udp_packet('10.0.2.50', lab.h2.ip4))
        with lab.expect(forwarded=1):
            lab.h1.send(f)
        lab.router.sysctl('net.ipv4.conf.lan.rp_filter', 1)
        cap = lab.h2.capture()

        def refused():
            cap.take()
            lab.h1.send(f)
            lab.rest()
            return not cap.take(match=to(lab.h2.ip4))
        lab.wait_for(refused, 'rp_filter to take effect', 10, 0.2)


MARTIANS4 = (  # source, destination; None = the hosts' own
    ('127.0.0.1', None), ('224.0.0.5', None), ('255.255.255.255', None), ('0.0.0.0', None),
    (None, '127.0.0.1'), (None, '0.0.0.0'),
)
MARTIANS6 = (('::1', None), ('ff02::5', None), ('::', None), (None, '::1'))


class TestMartians:
    @pytest.mark.parametrize('src,dst', MARTIANS4)
    def test_ipv4(self, lab, src, dst):
        """F4: never forwarded, never answered."""
        f = lab.h1.frame(udp_packet(src or lab.h1.ip4, dst or lab.h2.ip4))
        assert not nothing_arrives(lab, f, kernel={('lan', 'special_address'): 1})

    @pytest.mark.parametrize('src,dst', MARTIANS6)
    def test_ipv6(self, lab, src, dst):
        """F2, F7."""
        f = lab.h1.frame(udp_packet(src or lab.h1.ip6, dst or lab.h2.ip6))
        assert not nothing_arrives(lab, f, kernel={('lan', 'special_address'): 1})

    def test_ipv6_unspecified_destination(self, lab):
        """The kernel answers :: with no route; its answer, not ours."""
        f = lab.h1.frame(udp_packet(lab.h1.ip6, '::'))
        assert len(nothing_arrives(lab, f, kernel={('lan', 'special_address'): 1})) == 1

    def test_own_address_as_source(self, lab):
        """F4: a packet that claims to come from the router."""
        f = lab.h1.frame(udp_packet(lab.h2.gw_ip4, lab.h2.ip4))
        assert not nothing_arrives(lab, f, kernel={('lan', 'own_source'): 1})

    def test_link_local_never_leaves_its_link(self, lab):
        """F7: beyond scope, destination unreachable code 2 from the kernel."""
        f = lab.h1.frame(udp_packet('fe80::1234', lab.h2.ip6))
        lab.router.ip('neigh add fe80::1234 lladdr 02:00:00:00:01:02 dev lan nud permanent')
        errors = nothing_arrives(lab, f, kernel={('lan', 'link_local'): 1}, snmp={'Ip6.InAddrErrors': 1})
        assert the_error(errors, 6)[1:3] == (1, 2)


def broken(lab):
    """(name, frame, reason that drops it)"""
    a, b = lab.h1.ip4, lab.h2.ip4
    good = udp_packet(a, b, payload=b'x' * 32)
    six = udp_packet(lab.h1.ip6, lab.h2.ip6, payload=b'x' * 32)
    u = good[20:]
    flipped = good[:10] + bytes([good[10] ^ 1]) + good[11:]
    cases = (
        ('checksum', flipped, ETH_IPV4, 'bad_checksum'),
        ('total length beyond the frame', ipv4(a, b, UDP, u, length=20 + len(u) + 1), ETH_IPV4, 'bad_length'),
        ('total length below the header', ipv4(a, b, UDP, u, length=19), ETH_IPV4, 'bad_length'),
        ('total length 0', ipv4(a, b, UDP, u, length=0), ETH_IPV4, 'bad_length'),
        ('version 5', ipv4(a, b, UDP, u, version=5), ETH_IPV4, 'bad_version'),
        ('IPv6 in an IPv4 frame', six, ETH_IPV4, 'bad_version'),
        ('IPv4 in an IPv6 frame', good + bytes(20), ETH_IPV6, 'bad_version'),
        ('payload length beyond the frame', ipv6(lab.h1.ip6, lab.h2.ip6, UDP, u, length=len(u) + 1), ETH_IPV6,
         'bad_length'),
        ('version 7', ipv6(lab.h1.ip6, lab.h2.ip6, UDP, u, version=7), ETH_IPV6, 'bad_version'),
    )
    return [(name, frame(lab.h1.gw_mac, lab.h1.mac, p, kind), reason) for name, p, kind, reason in cases]


class TestBadPackets:
    @pytest.mark.sanitizer
    def test_each_is_dropped_under_its_reason(self, lab):
        """F1, F2: silently dropped, counted exactly; a good packet afterwards passes."""
        for name, f, reason in broken(lab):
            errors = nothing_arrives(lab, [f, f, f], dropped={('lan', reason): 3})
            assert not errors, name
        good = lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4))
        with lab.expect(forwarded=1):
            lab.h1.send(good)

    @pytest.mark.sanitizer
    def test_short_frames(self, lab):
        """A frame that ends inside the IP header goes to the kernel by the steer program, which drops it."""
        whole = lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4))
        six = lab.h1.frame(udp_packet(lab.h1.ip6, lab.h2.ip6))
        cut = [whole[:n] for n in (14, 15, 20, 33)] + [six[:n] for n in (14, 20, 53)]
        assert not nothing_arrives(lab, cut, kernel={('lan', 'short'): len(cut)})

    def test_ihl_below_five(self, lab):
        """The header length is not 20: the kernel's case, which drops it."""
        u = udp(lab.h1.ip4, lab.h2.ip4, 1, 9, b'')
        f = lab.h1.frame(ipv4(lab.h1.ip4, lab.h2.ip4, UDP, u, ihl=4))
        assert not nothing_arrives(lab, f, kernel={('lan', 'options'): 1}, snmp={'Ip.InHdrErrors': 1})

    @pytest.mark.sanitizer
    def test_a_storm_of_garbage(self, lab):
        """Ten thousand frames of random bytes behind our MAC: no crash, all accounted for, good traffic goes on."""
        rng = random.Random(11)
        head = lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4))[:12]
        garbage = [head + rng.choice((b'\x08\0', b'\x86\xdd', b'\x81\0', b'\x08\x06')) + rng.randbytes(rng.randrange(120))
                   for _ in range(10000)]
        lab.kernel_forwards_freely = True
        lab.h1.send(garbage, pps=20000)
        lab.rest()
        f = lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4, 4321))
        cap = lab.h2.capture()
        lab.h1.send(f)
        assert cap.take(1, both(to(lab.h2.ip4), source(lab.h1.ip4))) == [lab.h2.received(f)]


class TestOptions:
    @pytest.mark.sanitizer
    def test_ipv4_options_are_the_kernels(self, lab):
        """F9: the kernel forwards and fills the record route option with its own outgoing address."""
        rr = bytes([7, 7, 4, 0, 0, 0, 0, 0])
        f = lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4, options=rr))
        cap = lab.h2.capture()
        with lab.expect(kernel={('lan', 'options'): 1}, kernel_forwarded=1):
            lab.h1.send(f)
            got = cap.take(1, to(lab.h2.ip4))
        assert len(got) == 1
        assert got[0][34:42] == bytes([7, 7, 8, 10, 0, 2, 1, 0])
        assert internet_checksum(got[0][14:42]) == 0

    def test_no_operation_options(self, lab):
        f = lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4, options=b'\1\1\1\0'))
        cap = lab.h2.capture()
        with lab.expect(kernel={('lan', 'options'): 1}, kernel_forwarded=1):
            lab.h1.send(f)
            assert cap.take(1, to(lab.h2.ip4)) == [lab.h2.received(f)]

    def test_malformed_option(self, lab):
        """Parameter problem 12/0 whose pointer is the option's offset."""
        f = lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4, options=bytes([7, 2, 0, 0])))
        errors = nothing_arrives(lab, f, kernel={('lan', 'options'): 1})
        _, kind, code, word, _ = the_error(errors, 4)
        assert (kind, code) == (12, 0) and 20 <= word >> 24 <= 23

    @pytest.mark.sanitizer
    def test_hop_by_hop(self, lab):
        """F10: the kernel looks at the options and forwards."""
        hbh = bytes([UDP, 0, 1, 4, 0, 0, 0, 0])
        f = lab.h1.frame(ipv6(lab.h1.ip6, lab.h2.ip6, 0, hbh + udp(lab.h1.ip6, lab.h2.ip6, 1, 9, b'hbh')))
        cap = lab.h2.capture()
        with lab.expect(kernel={('lan', 'hop_by_hop'): 1}, kernel_forwarded=1):
            lab.h1.send(f)
            assert cap.take(1, to(lab.h2.ip6)) == [lab.h2.received(f)]

    def test_unknown_hop_by_hop_option(self, lab):
        """Top bits 10: discarded with parameter problem 4/2 that points at it."""
        hbh = bytes([UDP, 0, 0x9e, 4, 0, 0, 0, 0])
        p = ipv6(lab.h1.ip6, lab.h2.ip6, 0, hbh + udp(lab.h1.ip6, lab.h2.ip6, 1, 9, b'hbh'))
        errors = nothing_arrives(lab, lab.h1.frame(p), kernel={('lan', 'hop_by_hop'): 1})
        assert the_error(errors, 6)[1:4] == (4, 2, 42)


class TestGroupsAndStrangers:
    @pytest.mark.parametrize('mac', ('ff:ff:ff:ff:ff:ff', '01:00:5e:00:00:01', '33:33:00:00:00:01'))
    @FAMILIES
    def test_group_frame_with_a_unicast_packet(self, lab, family, mac):
        """F3: never forwarded."""
        time.sleep(1.1)  # the hosts' own group reports come within a second after their links are up
        f = frame(mac, lab.h1.mac, udp_packet(lab.h1.ip(family), lab.h2.ip(family)))
        assert not nothing_arrives(lab, f, kernel={('lan', 'l2_multicast'): 1})

    @FAMILIES
    def test_frame_for_another_station(self, lab, family):
        f = frame('02:00:00:00:01:77', lab.h1.mac, udp_packet(lab.h1.ip(family), lab.h2.ip(family)))
        assert not nothing_arrives(lab, f, kernel={('lan', 'not_our_mac'): 1})

    def test_multicast_and_broadcast_destinations(self, lab):
        """F8: not forwarded without multicast routing, also when the frame is to our MAC."""
        frames_ = [lab.h1.frame(udp_packet(lab.h1.ip4, d)) for d in ('224.0.0.1', '239.1.2.3')]
        assert not nothing_arrives(lab, frames_, kernel={('lan', 'multicast'): 2})
        assert not nothing_arrives(lab, lab.h1.frame(udp_packet(lab.h1.ip4, '255.255.255.255')),
                                   kernel={('lan', 'special_address'): 1})
        assert not nothing_arrives(lab, lab.h1.frame(udp_packet(lab.h1.ip6, 'ff05::1:3')),
                                   kernel={('lan', 'multicast'): 1})

    def test_other_protocols_pass_to_the_kernel(self, lab):
        """LLDP and an unknown EtherType: the kernel's, seen unchanged by its sniffers on the port."""
        cap = Capture(lab.router, 'lan')
        frames_ = [frame(lab.h1.gw_mac, lab.h1.mac, b'lldp' + bytes(40), 0x88cc),
                   frame(lab.h1.gw_mac, lab.h1.mac, b'what' + bytes(40), 0x88b5)]
        before = lab.snapshot()
        lab.h1.send(frames_)
        got = cap.take(2, lambda e: e[12:14] in (b'\x88\xcc', b'\x88\xb5'))
        after = lab.snapshot()
        assert got == frames_
        if lab.daemon_up():
            assert after.reasons()['lan', 'not_ip'] - before.reasons()['lan', 'not_ip'] == 2

    def test_odd_source_mac_is_forwarded(self, lab):
        """V4: a group address as source MAC is not looked at."""
        f = frame(lab.h1.gw_mac, '03:00:00:00:00:01', udp_packet(lab.h1.ip4, lab.h2.ip4))
        cap = lab.h2.capture()
        with lab.expect(forwarded=1):
            lab.h1.send(f)
            assert cap.take(1, to(lab.h2.ip4)) == [lab.h2.received(f)]

    def test_ipv6_neighbour_discovery_works_through_the_port(self, make_lab):
        """Hosts and router resolve each other with routerd on the ports."""
        lab = make_lab(dynamic=('lan', 'wan'))
        lab.kernel_forwards_freely = True
        for family in (6, 4):
            out = lab.h1.ns.run('ping', '-c', 3, '-i', '0.05', '-W', 2, lab.h2.ip(family))
            assert '3 received' in out, out


class TestForwardingSwitch:
    def test_ipv4_forwarding_off_on_the_port(self, make_lab):
        """The kernel would not forward what comes by this port: neither does routerd. The other family goes on."""
        lab = make_lab(sysctl={'net.ipv4.conf.lan.forwarding': 0})
        f = lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4))
        nothing_arrives(lab, f, kernel={('lan', 'forwarding_off'): 1})
        f = lab.h1.frame(udp_packet(lab.h1.ip6, lab.h2.ip6))
        with lab.expect(forwarded=1):
            lab.h1.send(f)

    def test_member_of_a_bridge(self, make_lab):
        """What a bridge takes from its member is the bridge's; when the port is free again, routerd takes over."""
        lab = make_lab()
        lab.router.run('ip', 'link', 'add', 'br9', 'type', 'bridge')
        lab.router.run('ip', 'link', 'set', 'lan', 'master', 'br9')
        time.sleep(0.3)
        f = lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4))
        nothing_arrives(lab, f, kernel={('lan', 'forwarding_off'): 1})
        lab.router.run('ip', 'link', 'set', 'lan', 'nomaster')
        lab.router.run('ip', 'link', 'del', 'br9')
        time.sleep(0.3)
        with lab.expect(forwarded=1):
            lab.h1.send(f)

    @pytest.mark.routerd
    def test_delivery_device_set_down(self, make_lab):
        """Without its TAP routerd could give nothing to the kernel: it is set up again within a second or two."""
        lab = make_lab()
        lab.router.run('ip', 'link', 'set', 'routerd0', 'down')
        time.sleep(2.5)
        assert ',UP' in lab.router.run('ip', '-o', 'link', 'show', 'routerd0')
        f = lab.h1.frame(udp_packet(lab.h1.ip4, '203.0.113.9'))
        nothing_arrives(lab, f, kernel={('lan', 'no_route'): 1})

    def test_ipv6_forwarding_off_on_the_port(self, make_lab):
        """IPv6's switch of a device only changes its host behaviour: the kernel goes on forwarding (it looks at
        `all`). Whoever does it here, the packet arrives."""
        lab = make_lab(sysctl={'net.ipv6.conf.lan.forwarding': 0})
        lab.kernel_forwards_freely = True
        f = lab.h1.frame(udp_packet(lab.h1.ip6, lab.h2.ip6))
        cap = lab.h2.capture()
        lab.h1.send(f)
        assert cap.take(1, to(lab.h2.ip6)) == [lab.h2.received(f)]

    def test_ipv6_forwarding_off_everywhere(self, make_lab):
        lab = make_lab(sysctl={'net.ipv6.conf.all.forwarding': 0})
        f = lab.h1.frame(udp_packet(lab.h1.ip6, lab.h2.ip6))
        nothing_arrives(lab, f, kernel={('lan', 'forwarding_off'): 1})
        f = lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4))
        with lab.expect(forwarded=1):
            lab.h1.send(f)

    def test_switched_off_at_run_time(self, lab):
        f = lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4))
        with lab.expect(forwarded=1):
            lab.h1.send(f)
        lab.router.sysctl('net.ipv4.ip_forward', 0)
        cap = lab.h2.capture()

        def refused():
            cap.take()
            lab.h1.send(f)
            lab.rest()
            return not cap.take(match=to(lab.h2.ip4))
        lab.wait_for(refused, 'ip_forward=0 to take effect', 10, 0.2)
        if lab.daemon_up():
            assert lab.daemon.json('status')['kernel_forwarding']['ipv4'] is False


@pytest.mark.routerd
def test_tcpdump_on_the_port_shows_delivered_packets(lab):
    """The user's own tool sees what routerd hands over, on the true port; forwarded packets bypass it."""
    dump = lab.router.popen('tcpdump', '-n', '-i', 'lan', '-l', '-c', 1, 'udp and dst host 10.66.0.1', stdout=-1,
                            stderr=-1, text=True)
    while 'listening on' not in (dump.stderr.readline() or 'listening on'):
        time.sleep(0.01)
    with lab.expect(forwarded=1, kernel={('lan', 'no_route'): 1}):
        lab.h1.send([lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4)),
                     lab.h1.frame(udp_packet(lab.h1.ip4, '10.66.0.1', 1234))])
        out, _ = dump.communicate(timeout=10)
    assert '10.0.1.2.1234 > 10.66.0.1.9: UDP' in out


@FAMILIES
def test_redirect(lab, family):
    """In and out by the same port: the kernel may send a redirect and forwards the packet itself."""
    gw = '10.0.1.3' if family == 4 else 'fe80::3'
    net, dst = ('10.90.0.0/16', '10.90.0.1') if family == 4 else ('fd90::/64', 'fd90::1')
    lab.ip(f'neigh add {gw} lladdr 02:00:00:00:01:03 dev lan nud permanent', f'route add {net} via {gw} dev lan')
    cap = lab.h1.capture()
    f = lab.h1.frame(ip(lab.h1.ip(family), dst, NO_NEXT if family == 6 else UDP, b'\0' * 8))
    with lab.expect(kernel={('lan', 'redirect'): 1}, kernel_forwarded=1):
        lab.h1.send(f)
        # frames to another MAC on the same wire: our capture sees them all the same
        got = cap.take(1, to(dst))
    assert [g[:6].hex(':') for g in got] == ['02:00:00:00:01:03']


@pytest.mark.routerd
def test_counters_of_reasons_have_help(lab):
    rows = lab.daemon.json('drops')
    assert all(r['help'] and r['class'] in ('kernel', 'drop') and r['where'] in ('steer', 'worker', 'xsk') for r in rows)
