# SPDX-License-Identifier: GPL-2.0-or-later
"""Frames onto and off an interface of any namespace, by AF_PACKET sockets made inside it."""
import select
import socket
import time

from .frames import address_bytes, ip_of, without_zero_padding

ETH_P_ALL = 3
SO_RCVBUFFORCE = 33
SO_SNDBUFFORCE = 32
PACKET_OUTGOING = 4
PACKET_STATISTICS = 6
SOL_PACKET = 263


class Injector:
    """Sends raw frames out of an interface."""

    def __init__(self, ns, dev):
        with ns.enter():
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self.socket.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 24)
            self.socket.bind((dev, 0))

    def send(self, frames, pps=None):
        """Send one frame or many; paced in steps of about a millisecond when @pps is given."""
        if isinstance(frames, (bytes, bytearray)):
            frames = [frames]
        step = max(1, int(pps / 1000)) if pps else 32
        start = time.monotonic()
        for i, f in enumerate(frames):
            self.socket.send(f)
            if (i + 1) % step == 0:
                # unpaced: a short breath, because a veth's ring holds 256 frames
                ahead = start + (i + 1) / pps - time.monotonic() if pps else 0.0005
                if ahead > 0:
                    time.sleep(ahead)

    def close(self):
        self.socket.close()


class Capture:
    """Sees the frames of an interface from its making on; take() hands over what has come so far."""

    def __init__(self, ns, dev, outgoing=False, buffer=1 << 27):
        with ns.enter():
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, buffer)
            self.socket.bind((dev, ETH_P_ALL))
        self.socket.setblocking(False)
        self.outgoing = outgoing
        self.seen = []

    def _drain(self):
        while True:
            try:
                data, where = self.socket.recvfrom(1 << 17)
            except BlockingIOError:
                return
            if self.outgoing or where[2] != PACKET_OUTGOING:
                self.seen.append(without_zero_padding(data))

    def _lost(self):
        raw = self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
        return int.from_bytes(raw[4:8], 'little')

    def take(self, count=None, match=None, timeout=3.0, quiet=0.03):
        """The matching frames: waits for @count of them (or the time-out), then for a moment's quiet, so that a
        surplus one shows too. Without @count: what is there."""
        deadline = time.monotonic() + timeout
        while True:
            self._drain()
            found = [f for f in self.seen if match is None or match(f)]
            if count is None or len(found) >= count or time.monotonic() >= deadline:
                break
            select.select([self.socket], [], [], 0.05)
        if count is not None and select.select([self.socket], [], [], quiet)[0]:
            time.sleep(quiet)
            self._drain()
            found = [f for f in self.seen if match is None or match(f)]
        assert not self._lost(), 'the capture lost frames: its buffer is too small for this test'
        self.seen = []
        return found

    def close(self):
        self.socket.close()


def protocol(number):
    """Matches IP packets of this protocol (IPv6: as the first header)."""
    def match(eth):
        p = ip_of(eth)
        return len(p) >= 20 and (p[9] if p[0] >> 4 == 4 else p[6]) == number
    return match


def to(address):
    """Matches IP packets to this destination."""
    want = address_bytes(address)

    def match(eth):
        p = ip_of(eth)
        return len(p) >= 20 and (p[16:20] if len(want) == 4 else p[24:40]) == want \
            and p[0] >> 4 == (4 if len(want) == 4 else 6)
    return match


def source(address):
    """Matches IP packets from this source."""
    want = address_bytes(address)

    def match(eth):
        p = ip_of(eth)
        return len(p) >= 20 and p[0] >> 4 == (4 if len(want) == 4 else 6) \
            and (p[12:16] if len(want) == 4 else p[8:24]) == want
    return match


def icmp_error(eth):
    """Matches ICMP and ICMPv6 errors (not echo, not neighbour discovery)."""
    p = ip_of(eth)
    if len(p) < 28:
        return False
    if p[0] >> 4 == 4:
        return p[9] == 1 and p[(p[0] & 15) * 4] in (3, 5, 11, 12)
    return p[6] == 58 and p[40] < 128


def any_of(*matches):
    return lambda eth: any(m(eth) for m in matches)


def both(*matches):
    return lambda eth: all(m(eth) for m in matches)
