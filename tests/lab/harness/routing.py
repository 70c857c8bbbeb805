# SPDX-License-Identifier: GPL-2.0-or-later
"""Routing daemons in the lab's namespaces: BIRD, and FRR's zebra, bgpd, ospfd."""
import os
import shutil
import subprocess
import time

FRR = '/usr/lib/frr'
ROUTER_AS = 65000


def available(*programs):
    return all(shutil.which(p) or os.access(p, os.X_OK) for p in programs)


def net4(i, base=11):
    return f'{base + (i >> 16)}.{i >> 8 & 255}.{i & 255}.0/24'


def net6(i):
    return f'fdaa:{i >> 16:x}:{i & 0xffff:x}::/48'


class Bird:
    """One bird process with its own files."""

    def __init__(self, ns, directory, name, text):
        self.ns, self.base = ns, f'{directory}/bird-{name}'
        self.config, self.socket = self.base + '.conf', self.base + '.ctl'
        self.write(text)
        self.log = open(self.base + '.log', 'wb')
        self.process = ns.popen('/usr/sbin/bird', '-f', '-c', self.config, '-s', self.socket, '-P', self.base + '.pid',
                                stdout=self.log, stderr=self.log)

    def write(self, text):
        with open(self.config, 'w') as f:
            f.write(text)

    def command(self, *words):
        return subprocess.run(['/usr/sbin/birdc', '-s', self.socket, *words], capture_output=True, text=True,
                              timeout=30).stdout

    def configure(self, text):
        self.write(text)
        out = self.command('configure')
        assert 'Reconfigured' in out or 'Reconfiguration in progress' in out, out

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()


def bird_feeder(host, routes4, routes6=()):
    """Configuration of a neighbour that announces these networks by BGP over IPv4 and IPv6."""
    return f'''
router id {host.ip4};
protocol device {{ scan time 1; }}
protocol static s4 {{ ipv4; {"".join(f"route {r} blackhole; " for r in routes4)} }}
protocol static s6 {{ ipv6; {"".join(f"route {r} blackhole; " for r in routes6)} }}
template bgp feed {{
	local as {ROUTER_AS + host.number};
	connect delay time 1; connect retry time 1; error wait time 1, 1;
}}
protocol bgp r4 from feed {{
	neighbor {host.gw_ip4} as {ROUTER_AS};
	ipv4 {{ import none; export where proto = "s4"; next hop self; }};
}}
protocol bgp r6 from feed {{
	neighbor {host.gw_ip6} as {ROUTER_AS};
	ipv6 {{ import none; export where proto = "s6"; next hop self; }};
}}
'''


def bird_router(hosts):
    """Configuration of the router: takes what its neighbours announce into the kernel, equal paths merged."""
    sessions = ''.join(f'''
protocol bgp {h.link}4 from peer {{ neighbor {h.ip4} as {ROUTER_AS + h.number};
	ipv4 {{ import all; export none; }}; }}
protocol bgp {h.link}6 from peer {{ neighbor {h.ip6} as {ROUTER_AS + h.number};
	ipv6 {{ import all; export none; }}; }}
''' for h in hosts)
    return f'''
router id 10.0.1.1;
protocol device {{ scan time 1; }}
protocol kernel k4 {{ merge paths yes limit 8; ipv4 {{ import none; export all; }}; }}
protocol kernel k6 {{ merge paths yes limit 8; ipv6 {{ import none; export all; }}; }}
template bgp peer {{
	local as {ROUTER_AS};
	passive; connect retry time 1; error wait time 1, 1;
}}
{sessions}
'''


def bird_ospf(router_id, interfaces, networks=()):
    """Configuration of an OSPF speaker; @networks are announced as external routes."""
    return f'''
router id {router_id};
protocol device {{ scan time 1; }}
protocol static {{ ipv4; {"".join(f"route {n} blackhole; " for n in networks)} }}
protocol kernel {{ merge paths yes limit 8; ipv4 {{ import none; export where source ~ [ RTS_OSPF, RTS_OSPF_EXT1,
	RTS_OSPF_EXT2, RTS_OSPF_IA ]; }}; }}
protocol ospf v2 {{
	ecmp yes; merge external yes;
	ipv4 {{ import all; export where source = RTS_STATIC; }};
	area 0 {{ {"".join(f'interface "{i}" {{ type ptp; hello 1; dead 4; cost 10; }}; ' for i in interfaces)} }};
}}
'''


class Frr:
    """FRR daemons in one namespace, with their own sockets and files (as their own user: they insist on it)."""

    def __init__(self, ns, directory, name, configs):
        """@configs: {daemon: text}; zebra first."""
        self.ns, self.base = ns, f'{directory}/frr-{name}'
        os.makedirs(self.base)
        shutil.chown(self.base, 'frr', 'frr')
        self.processes = {}
        self.log = open(self.base + '/log', 'wb')
        for daemon, text in configs.items():
            path = f'{self.base}/{daemon}.conf'
            with open(path, 'w') as f:
                f.write(text)
            words = [f'{FRR}/{daemon}', '-f', path, '-z', self.base + '/zserv.api', '-i', f'{self.base}/{daemon}.pid',
                     '--vty_socket', self.base, '-A', '127.0.0.1', '-P', '0',
                     '--log', 'stdout']
            self.processes[daemon] = ns.popen(*words, stdout=self.log, stderr=self.log)
            if daemon == 'zebra':
                self._wait_for(self.base + '/zserv.api')

    @staticmethod
    def _wait_for(path, seconds=10):
        deadline = time.monotonic() + seconds
        while not os.path.exists(path):
            assert time.monotonic() < deadline, f'{path} does not appear'
            time.sleep(0.02)

    def stop(self):
        for p in reversed(list(self.processes.values())):
            if p.poll() is None:
                p.terminate()
                try:
                    p.wait(20)
                except subprocess.TimeoutExpired:
                    p.kill()
                    p.wait()
        self.log.close()


def frr_bgp_router(hosts):
    """zebra's and bgpd's configuration of the router: equal paths of the neighbours are used together."""
    neighbours = ''.join(f' neighbor {h.ip4} remote-as {ROUTER_AS + h.number}\n neighbor {h.ip4} timers connect 1\n'
                         f' neighbor {h.ip4} timers 3 9\n neighbor {h.ip4} advertisement-interval 0\n' for h in hosts)
    return {
        'zebra': 'hostname r\n',
        'bgpd': f'''hostname r
router bgp {ROUTER_AS}
 bgp router-id 10.0.1.1
 no bgp ebgp-requires-policy
 no bgp network import-check
 bgp bestpath as-path multipath-relax
{neighbours} address-family ipv4 unicast
  maximum-paths 8
 exit-address-family
'''}
