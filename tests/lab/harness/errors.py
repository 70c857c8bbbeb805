# SPDX-License-Identifier: GPL-2.0-or-later
"""ICMP and ICMPv6 errors: provoking one, taking it apart, and what a right one looks like (semantics E1-E5)."""
import ipaddress
import struct

from .frames import ip_of
from .wire import icmp_error, source


def the_error(frames, family):
    """(source, type, code, rest-of-header word, quote) of the one ICMP error among the frames."""
    assert len(frames) == 1, f'{len(frames)} ICMP errors'
    p = ip_of(frames[0])
    head = 20 if family == 4 else 40
    src = p[12:16] if family == 4 else p[8:24]
    kind, code, _, word = struct.unpack_from('!BBHI', p, head)
    return src, kind, code, word, p[head + 8:]


def assert_error(frames, family, host, kind, code, word, packet, from_ip=None):
    """The one error comes from the router's address on the sender's link and quotes the packet as it was sent."""
    src, k, c, w, quote = the_error(frames, family)
    want = ipaddress.ip_address(from_ip or host.gw_ip(family)).packed
    assert src == want, f'from {src.hex()}, expected {want.hex()}'
    assert (k, c, w) == (kind, code, word)
    want = packet[:576 - 28 if family == 4 else 1280 - 48]
    assert len(quote) == len(want), f'{len(quote)} bytes are quoted, expected {len(want)}'
    different = [i for i in range(len(want)) if quote[i] != want[i]]
    assert not different, f'the quote differs from byte {different[0]} on: {quote[:64].hex()} {want[:64].hex()}'


def provoke(lab, packet, family, host=None, pad=0, **expect):
    """Send one packet from a host (h1) and return the ICMP errors that come back."""
    host = host or lab.h1
    back, beyond = host.capture(), lab.h2.capture()
    with lab.expect(**expect):
        host.send(host.frame(packet, pad=pad))
        errors = back.take(1, icmp_error)
    if host is not lab.h2:
        assert not beyond.take(match=source(host.ip(family))), 'the packet arrived although it was refused'
    return errors
