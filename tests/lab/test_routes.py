# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's routes as routerd follows them: which path, changed live, and what only the kernel can do."""
import pytest

from harness.frames import udp_packet
from harness.traffic import Stream
from harness.wire import any_of, icmp_error, to

FAMILIES = pytest.mark.parametrize('family', (4, 6))


def net(family, n=0):
    return f'10.9{n}.0.0/16' if family == 4 else f'fd9{n}::/64'


def addr(family, n=0, host=1):
    return f'10.9{n}.0.{host}' if family == 4 else f'fd9{n}::{host:x}'


def goes_to(lab, dst, host, family=None, others=(), **expect):
    """One packet from h1 to @dst leaves exactly to @host, byte for byte, and nowhere else."""
    family = family or (6 if ':' in dst else 4)
    f = lab.h1.frame(udp_packet(lab.h1.ip(family), dst))
    cap, rest = host.capture(), [o.capture() for o in others]
    with lab.expect(**(expect or {'forwarded': 1})):
        lab.h1.send(f)
        got = cap.take(1, to(dst))
    assert got == [host.received(f)], f'{len(got)} frames at {host.link}'
    for c in rest:
        assert not c.take(match=to(dst)), 'the packet also left by another port'
        c.close()
    cap.close()


@pytest.fixture
def three(make_lab):
    return make_lab(ports=('lan', 'wan', 'wan2'))


class TestSelection:
    @FAMILIES
    def test_longest_prefix_wins(self, three, family):
        lab = three
        v4 = family == 4
        lab.ip(f'route add {"10.90.0.0/16" if v4 else "fd90::/32"} via {lab.h2.ip(family)}',
               f'route add {"10.90.1.0/24" if v4 else "fd90:0:1::/48"} via {lab.h3.ip(family)}',
               f'route add {"10.90.1.128/25" if v4 else "fd90:0:1:8000::/49"} via {lab.h2.ip(family)}',
               f'route add {"10.90.1.129/32" if v4 else "fd90:0:1:8000::81/128"} via {lab.h3.ip(family)}')
        for dst, host in ((('10.90.0.1', 'fd90::1'), lab.h2), (('10.90.1.1', 'fd90:0:1::1'), lab.h3),
                          (('10.90.1.128', 'fd90:0:1:8000::80'), lab.h2),
                          (('10.90.1.129', 'fd90:0:1:8000::81'), lab.h3)):
            goes_to(lab, dst[not v4], host, others=[h for h in (lab.h2, lab.h3) if h is not host])

    @FAMILIES
    def test_lower_metric_wins_and_is_replaced_live(self, three, family):
        lab = three
        lab.ip(f'route add {net(family)} via {lab.h2.ip(family)} metric 100')
        goes_to(lab, addr(family), lab.h2, others=[lab.h3])
        lab.ip(f'route add {net(family)} via {lab.h3.ip(family)} metric 50')
        goes_to(lab, addr(family), lab.h3, others=[lab.h2])
        lab.ip(f'route del {net(family)} via {lab.h3.ip(family)} metric 50')
        goes_to(lab, addr(family), lab.h2, others=[lab.h3])
        lab.ip(f'route replace {net(family)} via {lab.h3.ip(family)} metric 100')
        goes_to(lab, addr(family), lab.h3, others=[lab.h2])
        lab.ip(f'route del {net(family)} metric 100')
        back = lab.h1.capture()
        with lab.expect(kernel={('lan', 'no_route'): 1}):
            lab.h1.send(lab.h1.frame(udp_packet(lab.h1.ip(family), addr(family))))
            assert len(back.take(1, icmp_error)) == 1

    @FAMILIES
    def test_default_route(self, three, family):
        lab = three
        lab.ip(f'-{family} route add default via {lab.h2.ip(family)}')
        goes_to(lab, '203.0.113.5' if family == 4 else '2001:db8::5', lab.h2, others=[lab.h3])
        lab.ip(f'-{family} route replace default via {lab.h3.ip(family)}')
        goes_to(lab, '203.0.113.5' if family == 4 else '2001:db8::5', lab.h3, others=[lab.h2])

    def test_tos_route_goes_to_whom_the_kernel_says(self, three):
        """A route for one TOS: either routerd follows it or it leaves the traffic to the kernel; never another way."""
        lab = three
        lab.ip('route add 10.90.0.0/16 via 10.0.2.2', 'route add 10.90.0.0/16 tos 0x10 via 10.0.3.2')
        lab.kernel_forwards_freely = True
        for tos, host in ((0, lab.h2), (0x10, lab.h3)):
            f = lab.h1.frame(udp_packet(lab.h1.ip4, '10.90.0.1', tos=tos))
            cap = host.capture()
            lab.h1.send(f)
            assert cap.take(1, to('10.90.0.1')) == [host.received(f)], f'tos {tos:#x}'
            lab.rest()


class TestNextHops:
    @pytest.mark.sanitizer
    def test_ipv4_via_an_ipv6_next_hop(self, three):
        """RFC 5549: the IPv4 packet is sent to the MAC of the IPv6 neighbour."""
        lab = three
        lab.ip('route add 10.90.0.0/16 via inet6 fd00:3::2 dev wan2')
        goes_to(lab, '10.90.0.1', lab.h3, others=[lab.h2])
        if lab.daemon_up():
            answer = lab.daemon.json('route', 'get', '10.90.0.1')
            assert (answer['verdict'], answer['gateway'], answer['dev']) == ('forwarded', 'fd00:3::2', 'wan2')
            assert answer['lladdr'] == lab.h3.mac

    @FAMILIES
    def test_onlink(self, three, family):
        """A gateway that no connected route covers."""
        lab = three
        gw = '198.51.100.7' if family == 4 else '2001:db8:77::7'
        lab.ip(f'neigh add {gw} lladdr {lab.h3.mac} dev wan2 nud permanent',
               f'route add {net(family)} via {gw} dev wan2 onlink')
        goes_to(lab, addr(family), lab.h3, others=[lab.h2])

    @FAMILIES
    def test_device_route_uses_the_destination_as_neighbour(self, three, family):
        lab = three
        lab.ip(f'route add {net(family)} dev wan2',
               f'neigh add {addr(family)} lladdr {lab.h3.mac} dev wan2 nud permanent')
        goes_to(lab, addr(family), lab.h3, others=[lab.h2])

    def test_link_local_gateway(self, three):
        """What OSPFv3 and RA install: an IPv6 route by a link-local gateway."""
        lab = three
        ll = 'fe80::5:5'
        lab.ip(f'neigh add {ll} lladdr {lab.h3.mac} dev wan2 nud permanent',
               f'route add {net(6)} via {ll} dev wan2')
        goes_to(lab, addr(6), lab.h3, others=[lab.h2])

    @FAMILIES
    def test_nexthop_object(self, three, family):
        lab = three
        lab.ip(f'nexthop add id 5 via {lab.h2.ip(family)} dev wan', f'route add {net(family)} nhid 5')
        goes_to(lab, addr(family), lab.h2, others=[lab.h3])
        lab.ip(f'nexthop replace id 5 via {lab.h3.ip(family)} dev wan2')
        goes_to(lab, addr(family), lab.h3, others=[lab.h2])

    @FAMILIES
    def test_nexthop_object_of_type_blackhole(self, three, family):
        lab = three
        lab.ip(f'-{family} nexthop add id 6 blackhole', f'route add {net(family)} nhid 6')
        with lab.expect(dropped={('lan', 'blackhole'): 1}):
            lab.h1.send(lab.h1.frame(udp_packet(lab.h1.ip(family), addr(family))))

    def test_many_routes_share_a_nexthop_object(self, three):
        """One replace moves a thousand routes."""
        lab = three
        lab.router.ip('nexthop add id 7 via 10.0.2.2 dev wan')
        lab.router.batch([f'route add 10.90.{i // 250}.{i % 250 + 1}/32 nhid 7' for i in range(1000)])
        lab.sync()
        goes_to(lab, '10.90.3.250', lab.h2, others=[lab.h3])
        lab.ip('nexthop replace id 7 via 10.0.3.2 dev wan2')
        for dst in ('10.90.0.1', '10.90.1.77', '10.90.3.250'):
            goes_to(lab, dst, lab.h3, others=[lab.h2])

    @FAMILIES
    @pytest.mark.sanitizer
    def test_nexthop_group_is_replaced_under_live_traffic(self, three, family):
        """No packet is lost or doubled while members of a group come, go and change; all arrive at a valid hop."""
        lab = three
        lab.ip(f'nexthop add id 1 via {lab.h2.ip(family)} dev wan', f'nexthop add id 2 via {lab.h3.ip(family)} dev wan2',
               'nexthop add id 10 group 1/2', f'route add {net(family)} nhid 10')
        stream = Stream(lab, lab.h1, addr(family), [lab.h2, lab.h3], pps=3000, flows=64).start()
        rounds = 0
        while rounds < 8 or stream.sent <= 300:  # on a busy machine the sender may be slow to start
            rounds += 1
            for change in ('nexthop replace id 10 group 1', 'nexthop replace id 10 group 1,3/2,2',
                           f'nexthop replace id 2 via {lab.h2.ip(family)} dev wan',
                           'nexthop replace id 10 group 2', f'nexthop replace id 2 via {lab.h3.ip(family)} dev wan2',
                           'nexthop replace id 10 group 1/2'):
                lab.router.ip(change)
        lab.sync()
        stream.stop()
        assert not stream.lost() and not stream.doubled()
        hosts = {h for hs in stream.arrived.values() for h in hs}
        assert hosts == {0, 1}, 'both next hops have carried traffic'

    @FAMILIES
    @pytest.mark.sanitizer
    def test_route_is_replaced_under_live_traffic(self, three, family):
        lab = three
        lab.ip(f'route add {net(family)} via {lab.h2.ip(family)}')
        stream = Stream(lab, lab.h1, addr(family), [lab.h2, lab.h3], pps=3000).start()
        for i in range(100):
            lab.router.ip(f'route replace {net(family)} via {(lab.h3, lab.h2)[i % 2].ip(family)}')
        lab.sync()
        stream.stop()
        assert not stream.lost() and not stream.doubled()
        assert {h for hs in stream.arrived.values() for h in hs} == {0, 1}


class TestOtherDevices:
    @FAMILIES
    @pytest.mark.sanitizer
    def test_route_by_a_device_that_is_no_port(self, make_lab, family):
        """The kernel forwards it, as it would have without routerd; counted."""
        lab = make_lab(links=('oth',))
        goes_to(lab, lab.other.ip(family), lab.other, others=[lab.h2],
                kernel={('lan', 'other_device'): 1}, kernel_forwarded=1)
        lab.ip(f'route add {net(family)} via {lab.other.ip(family)}')
        goes_to(lab, addr(family), lab.other, others=[lab.h2],
                kernel={('lan', 'other_device'): 1}, kernel_forwarded=1)
        if lab.daemon_up():
            assert lab.daemon.json('route', 'get', addr(family))['verdict'] == 'other_device'

    @FAMILIES
    def test_from_a_device_that_is_no_port(self, make_lab, family):
        """routerd never sees it: the kernel forwards from other devices to its ports."""
        lab = make_lab(links=('oth',))
        f = lab.other.frame(udp_packet(lab.other.ip(family), lab.h2.ip(family)))
        cap = lab.h2.capture()
        with lab.expect(kernel_forwarded=1):
            lab.other.send(f)
            assert cap.take(1, to(lab.h2.ip(family))) == [lab.h2.received(f)]

    def test_multipath_with_a_foreign_device(self, make_lab):
        """A multipath route with one hop by a device that is no port: every packet arrives somewhere, once."""
        lab = make_lab(links=('oth',))
        lab.ip('route add 10.90.0.0/16 nexthop via 10.0.2.2 nexthop via 10.0.5.2')
        lab.kernel_forwards_freely = True
        caps = [lab.h2.capture(), lab.other.capture()]
        sent = [lab.h1.frame(udp_packet(lab.h1.ip4, f'10.90.0.{i}', 1000 + i)) for i in range(1, 201)]
        lab.h1.send(sent)
        lab.rest()
        got = [c.take(match=lambda e: e[30:32] == b'\x0a\x5a') for c in caps]
        assert len(got[0]) + len(got[1]) == len(sent)
        want = [lab.h2.received(f) for f in sent]
        assert all(f in want for f in got[0])

    def test_encapsulating_route_goes_to_the_kernel(self, make_lab):
        """A lightweight tunnel route is beyond routerd: the kernel does it (here: fails to, as without routerd)."""
        lab = make_lab()
        lab.router.ip('route', 'add', 'fd90::/64', 'encap', 'seg6', 'mode', 'encap', 'segs', 'fd00:2::2', 'dev', 'wan',
                      check=False)
        if not [r for r in lab.router.ip_json('-6 route') if r['dst'] == 'fd90::/64']:
            pytest.skip('this kernel has no seg6 lightweight tunnel')
        lab.sync()
        lab.kernel_forwards_freely = True
        before = lab.snapshot()
        lab.h1.send(lab.h1.frame(udp_packet(lab.h1.ip6, 'fd90::1')))
        after = lab.snapshot()
        if lab.daemon_up():
            assert after.reasons()['lan', 'encap'] - before.reasons()['lan', 'encap'] == 1


class TestRules:
    @FAMILIES
    @pytest.mark.sanitizer
    def test_rule_sends_its_traffic_to_the_kernel(self, three, family):
        """Traffic that a rule touches goes to the kernel, which obeys it; other traffic does not; status says so."""
        lab = three
        special = '10.0.1.77' if family == 4 else 'fd00:1::77'
        lab.ip(f'route add {net(family)} via {lab.h2.ip(family)}',
               f'route add {net(family)} via {lab.h3.ip(family)} table 100',
               f'-{family} rule add from {special} lookup 100')
        caps = lab.h2.capture(), lab.h3.capture()
        normal = lab.h1.frame(udp_packet(lab.h1.ip(family), addr(family)))
        ruled = lab.h1.frame(udp_packet(special, addr(family)))
        with lab.expect(forwarded=1, kernel={('lan', 'rule'): 1}, kernel_forwarded=1):
            lab.h1.send([normal, ruled])
            assert caps[0].take(1, to(addr(family))) == [lab.h2.received(normal)]
            assert caps[1].take(1, to(addr(family))) == [lab.h3.received(ruled)]
        if lab.daemon_up():
            said = lab.daemon.json('status')['rules_to_kernel']
            assert any(special in text for text in said), said
            assert special in lab.daemon.ctl('status')
        lab.ip(f'-{family} rule del from {special} lookup 100')
        with lab.expect(forwarded=1):
            lab.h1.send(ruled)
            assert caps[0].take(1, to(addr(family))) == [lab.h2.received(ruled)]
        if lab.daemon_up():
            assert lab.daemon.json('status')['rules_to_kernel'] == []

    @pytest.mark.parametrize('selector,hit,miss', (
        ('to 10.90.0.1', {}, {'dst': '10.90.0.2'}),
        ('iif lan', {}, None),
        ('ipproto udp dport 9', {}, {'dport': 10}),
        ('sport 1000-1005', {}, {'sport': 1006}),
        ('tos 0x10', {'tos': 0x10}, {'tos': 0}),
        ('not to 10.90.0.2', {}, {'dst': '10.90.0.2'}),
        ('fwmark 5', None, None),
    ))
    def test_selectors(self, three, selector, hit, miss):
        """Each selector is judged exactly or wider, never narrower: what the rule touches is never forwarded by
        main's routes, and what it certainly does not touch is."""
        lab = three
        lab.ip('route add 10.90.0.0/16 via 10.0.2.2', 'route add 10.90.0.0/16 via 10.0.3.2 table 100',
               f'rule add {selector} lookup 100')
        caps = [lab.h2.capture(), lab.h3.capture()]
        for case, host in ((hit, lab.h3), (miss, lab.h2)):
            if case is None:
                continue
            lab.kernel_forwards_freely = True
            kw = dict(case)
            dst = kw.pop('dst', '10.90.0.1')
            f = lab.h1.frame(udp_packet(lab.h1.ip4, dst, **{'dport': 9, **kw}))
            before = lab.snapshot()
            lab.h1.send(f)
            after = lab.snapshot()
            got = [c.take(match=to(dst)) for c in caps]
            want = [[h.received(f)] if h is host else [] for h in (lab.h2, lab.h3)]
            assert got == want, f'{selector} {case}: {[len(g) for g in got]}'
            if lab.daemon_up():
                fast = after.port('lan', 'forwarded') - before.port('lan', 'forwarded')
                assert fast == (0 if host is lab.h3 else 1), f'{selector} {case}: routerd forwarded {fast}'
        if hit is None:
            # a mark that the forwarded traffic does not carry: the kernel goes by main
            f = lab.h1.frame(udp_packet(lab.h1.ip4, '10.90.0.1'))
            lab.kernel_forwards_freely = True
            lab.h1.send(f)
            assert caps[0].take(1, to('10.90.0.1')) == [lab.h2.received(f)]
            lab.rest()

    def test_suppressing_and_changed_default_rules(self, three):
        """The default rules themselves are changed: main looked up by another table first."""
        lab = three
        lab.ip('route add 10.90.0.0/16 via 10.0.2.2', 'route add 10.90.0.0/24 via 10.0.3.2 table 200',
               'rule add pref 100 lookup 200')
        f = lab.h1.frame(udp_packet(lab.h1.ip4, '10.90.0.1'))
        cap = lab.h3.capture()
        with lab.expect(kernel={('lan', 'rule'): 1}, kernel_forwarded=1):
            lab.h1.send(f)
            assert cap.take(1, to('10.90.0.1')) == [lab.h3.received(f)]


class TestLinks:
    @FAMILIES
    @pytest.mark.sanitizer
    def test_link_down_and_up(self, three, family):
        """Down: the routes go away in the kernel, so they do here. Up again: static routes must be set again for
        IPv4 by the user, the connected network comes by itself."""
        lab = three
        goes_to(lab, lab.h2.ip(family), lab.h2)
        lab.ip('link set wan down')
        back, cap = lab.h1.capture(), lab.h2.capture()
        with lab.expect(kernel={('lan', 'no_route'): 1}):
            lab.h1.send(lab.h1.frame(udp_packet(lab.h1.ip(family), lab.h2.ip(family))))
            assert len(back.take(1, icmp_error)) == 1
        assert not cap.take(match=to(lab.h2.ip(family)))
        lab.router.ip('link set wan up')
        if family == 6:
            lab.router.ip(f'-6 address replace {lab.h2.gw_ip6}/64 dev wan nodad')
        lab.router.ip(f'neigh replace {lab.h2.ip(family)} lladdr {lab.h2.mac} dev wan nud permanent')
        lab.sync()
        if lab.daemon_up():
            lab.wait_for(lambda: all(p['carrier'] for p in lab.daemon.json('port')), 'carrier')
        goes_to(lab, lab.h2.ip(family), lab.h2)

    def test_carrier_lost_and_back(self, three):
        """The other end goes down: routes stay (linkdown), traffic is not sent into the void as 'forwarded'."""
        lab = three
        lab.h2.ns.ip(f'link set {lab.h2.dev} down')
        if lab.daemon_up():
            lab.wait_for(lambda: not next(p for p in lab.daemon.json('port') if p['name'] == 'wan')['carrier'],
                         'the loss of carrier')
        lab.sync()
        before = lab.snapshot()
        lab.h1.send([lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4)) for _ in range(3)])
        after = lab.snapshot()
        if lab.daemon_up():
            assert after.port('lan', 'forwarded') == before.port('lan', 'forwarded')
        lab.kernel_forwards_freely = True
        lab.h2.ns.ip(f'link set {lab.h2.dev} up')
        lab.h2.ns.batch([f'neigh replace {lab.h2.gw_ip4} lladdr {lab.h2.gw_mac} dev {lab.h2.dev} nud permanent'])
        if lab.daemon_up():
            lab.wait_for(lambda: all(p['carrier'] for p in lab.daemon.json('port')), 'carrier')
        lab.router.ip(f'neigh replace {lab.h2.ip4} lladdr {lab.h2.mac} dev wan nud permanent')
        lab.sync()
        goes_to(lab, lab.h2.ip4, lab.h2)

    @FAMILIES
    @pytest.mark.sanitizer
    def test_address_added_and_removed(self, lab, family):
        """A new address of the router is local at once; a removed one is not any more."""
        new, plen = ('10.77.0.1', 24) if family == 4 else ('fd77::1', 64)
        neighbour = new[:-1] + '2'
        p = udp_packet(lab.h1.ip(family), new, dport=33444)
        f = lab.h1.frame(p)
        back, cap = lab.h1.capture(), lab.h2.capture()
        lab.ip(f'address add {new}/{plen} dev wan' + (' nodad' if family == 6 else ''),
               f'neigh replace {neighbour} lladdr {lab.h2.mac} dev wan nud permanent')
        with lab.expect(kernel={('lan', 'local'): 1}):
            lab.h1.send(f)
            assert len(back.take(1, icmp_error)) == 1   # port unreachable from the new address
        goes_to(lab, neighbour, lab.h2)
        lab.ip(f'address del {new}/{plen} dev wan', f'route add {new} via {lab.h2.ip(family)}')
        with lab.expect(forwarded=1):
            lab.h1.send(f)
            assert cap.take(1, to(new)) == [lab.h2.received(f)]

    def test_mac_change_of_the_port(self, lab):
        """A new MAC address of a port: frames to it are forwarded, frames to the old one are not, and the new one is
        the source of what leaves by it."""
        new = '02:00:00:00:01:99'
        lab.ip(f'link set lan address {new}')
        f = lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4))
        with lab.expect(kernel={('lan', 'not_our_mac'): 1}):
            lab.h1.send(f)
        lab.h1.gw_mac = new
        # the kernel forgets a device's neighbours, also the permanent ones, when its address changes
        lab.ip(f'neigh replace {lab.h1.ip4} lladdr {lab.h1.mac} dev lan nud permanent')
        goes_to(lab, lab.h2.ip4, lab.h2)
        back = lab.h1.capture()
        f = lab.h2.frame(udp_packet(lab.h2.ip4, lab.h1.ip4))
        with lab.expect(forwarded={'wan': 1}):
            lab.h2.send(f)
            got = back.take(1, any_of(to(lab.h1.ip4)))
        assert got == [lab.h1.received(f)]


@pytest.mark.routerd
class TestShown:
    def test_route_table_of_routerctl(self, three):
        lab = three
        lab.ip('route add 10.90.0.0/16 via 10.0.2.2 metric 7', 'route add blackhole 10.91.0.0/16',
               'route add 10.92.0.0/16 nexthop via 10.0.2.2 weight 1 nexthop via 10.0.3.2 weight 3')
        rows = {r['dst']: r for r in lab.daemon.json('route')}
        one = rows['10.90.0.0/16']
        assert one['metric'] == 7 and one['verdict'] == 'forwarded'
        assert [(p['gateway'], p['dev']) for p in one['paths']] == [('10.0.2.2', 'wan')]
        assert rows['10.91.0.0/16']['type'] == rows['10.91.0.0/16']['verdict'] == 'blackhole'
        many = rows['10.92.0.0/16']
        assert sorted((p['gateway'], p['weight']) for p in many['paths']) == [('10.0.2.2', 1), ('10.0.3.2', 3)]
        text = lab.daemon.ctl('route')
        assert '10.90.0.0/16' in text and 'via 10.0.2.2' in text and 'blackhole' in text

    @pytest.mark.sanitizer
    def test_route_get(self, three):
        lab = three
        answer = lab.daemon.json('route', 'get', lab.h2.ip4)
        assert (answer['matched'], answer['verdict'], answer['dev']) == ('10.0.2.0/24', 'forwarded', 'wan')
        assert (answer['lladdr'], answer['mtu']) == (lab.h2.mac, 1500)
        assert lab.daemon.json('route', 'get', lab.h1.gw_ip4)['verdict'] == 'local'
        assert lab.daemon.json('route', 'get', '10.99.0.1')['verdict'] == 'no_route'
        answer = lab.daemon.json('route', 'get', lab.h2.ip6, 'from', lab.h1.ip6, 'iif', 'lan')
        assert (answer['verdict'], answer['dev']) == ('forwarded', 'wan')

    def test_neighbour_table(self, three):
        lab = three
        rows = {r['dst']: r for r in lab.daemon.json('neighbour')}
        assert rows[lab.h2.ip4]['lladdr'] == lab.h2.mac and rows[lab.h2.ip4]['dev'] == 'wan'
        assert rows[lab.h2.ip6]['state'].upper() == 'PERMANENT'
