# SPDX-License-Identifier: GPL-2.0-or-later
"""Load: streams of numbered packets, TCP transfers with a digest, iperf3."""
import hashlib
import json
import random
import socket
import struct
import threading
import time

from .frames import UDP, is_ipv6, udp_packet
from .wire import Capture, Injector, both, protocol, to

NUMBER = struct.Struct('!Q')


class Stream:
    """Numbered UDP packets from one host to an address, sent by a thread at a steady pace until stop(); arrivals
    are seen at one or several hosts. Nothing is lost unnoticed: every number is looked for."""

    def __init__(self, lab, src, dst_ip, sinks, pps=2000, flows=16, size=100, sport=2000):
        self.lab, self.src, self.pps = lab, src, pps
        self.captures = [Capture(s.ns, s.dev) for s in sinks]
        self.hosts = sinks
        self.offset = 14 + (40 if is_ipv6(dst_ip) else 20) + 8
        self.match = both(to(dst_ip), protocol(UDP), lambda eth: len(eth) >= self.offset + NUMBER.size and
                          sport <= int.from_bytes(eth[self.offset - 8:self.offset - 6], 'big') < sport + flows)
        family = 6 if is_ipv6(dst_ip) else 4
        self.frames = [src.frame(udp_packet(src.ip(family), dst_ip, sport + i, size=size)) for i in range(flows)]
        self.injector = Injector(src.ns, src.dev)
        self.sent = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def numbered(self, i):
        """Frame number i: the number is the start of the UDP payload, the UDP checksum is set to 'none' (0)."""
        f, o = self.frames[i % len(self.frames)], self.offset
        return f[:o - 2] + b'\0\0' + NUMBER.pack(i) + f[o + 8:]

    def _run(self):
        step = max(1, self.pps // 500)
        start = time.monotonic()
        while not self._stop.is_set():
            for _ in range(step):
                self.injector.socket.send(self.numbered(self.sent))
                self.sent += 1
            ahead = start + self.sent / self.pps - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)

    def start(self):
        self._thread.start()
        return self

    def stop(self):
        """Stop sending and collect what arrived: {number: [index of the host, ...]}."""
        self._stop.set()
        self._thread.join()
        self.lab.rest()
        arrived = {}
        for h, cap in enumerate(self.captures):
            for eth in cap.take(match=self.match):
                n = NUMBER.unpack_from(eth, self.offset)[0]
                arrived.setdefault(n, []).append(h)
            cap.close()
        self.injector.close()
        self.arrived = arrived
        return arrived

    def lost(self):
        """Numbers that never arrived."""
        return [n for n in range(self.sent) if n not in self.arrived]

    def doubled(self):
        return [n for n, hosts in self.arrived.items() if len(hosts) > 1]


def sink_socket(host, family=4, port=0):
    """A listening TCP socket of the host."""
    s = host.socket(socket.AF_INET if family == 4 else socket.AF_INET6, socket.SOCK_STREAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((host.ip(family), port))
    s.listen(4)
    return s


def transfer(src, dst, family, size, seed=1):
    """Send @size pseudo-random bytes over TCP. (digest sent, digest received, bytes received)."""
    listener = sink_socket(dst, family)
    port = listener.getsockname()[1]
    client = src.socket(socket.AF_INET if family == 4 else socket.AF_INET6, socket.SOCK_STREAM)
    client.settimeout(30)
    listener.settimeout(30)
    result = {}

    def receive():
        digest, count = hashlib.sha256(), 0
        conn, _ = listener.accept()
        with conn:
            conn.settimeout(30)
            while data := conn.recv(1 << 20):
                digest.update(data)
                count += len(data)
        result['got'] = digest.hexdigest(), count

    t = threading.Thread(target=receive, daemon=True)
    t.start()
    rng, digest, left = random.Random(seed), hashlib.sha256(), size
    with client, listener:
        client.connect((dst.ip(family), port))
        while left:
            block = rng.randbytes(min(left, 1 << 20))
            client.sendall(block)
            digest.update(block)
            left -= len(block)
        client.shutdown(socket.SHUT_WR)
        t.join(60)
    assert 'got' in result, 'the transfer did not end'
    return digest.hexdigest(), *result['got']


def iperf(src, dst, family, seconds=2, udp_mbit=None, length=None, reverse=False):
    """One iperf3 run; iperf's own JSON result."""
    server = dst.ns.popen('iperf3', '-s', '-1', '-B', dst.ip(family), '-J', stdout=-3, stderr=-3)
    try:
        _wait_listening(dst, family)
        words = ['iperf3', '-c', dst.ip(family), '-t', seconds, '-J', f'-{family}']
        if udp_mbit is not None:
            words += ['-u', '-b', f'{udp_mbit}M']
        if length:
            words += ['-l', length]
        if reverse:
            words += ['-R']
        out = json.loads(src.ns.run(*words, check=False, timeout=seconds + 20))
        assert 'error' not in out, out['error']
        server.wait(10)
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
    return out


def _wait_listening(host, family, port=5201, timeout=5):
    table = '/proc/thread-self/net/' + ('tcp' if family == 4 else 'tcp6')
    want = f':{port:04X} '
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        with host.ns.enter(), open(table) as f:
            if any(want in line.split(':', 1)[1] and ' 0A ' in line for line in f.readlines()[1:]):
                return
        time.sleep(0.01)
    raise AssertionError('iperf3 -s does not listen')
