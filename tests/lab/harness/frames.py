# SPDX-License-Identifier: GPL-2.0-or-later
"""Building packets byte by byte, and the naive model of what forwarding does to one.

Plain struct code: thousands of frames per test, and an oracle that shares nothing with the code under test.
Tests decode what they do not build (ICMP errors and the like) with scapy.
"""
import ipaddress
import struct

ETH_IPV4 = 0x0800
ETH_IPV6 = 0x86dd
ICMP, TCP, UDP, ICMPV6, FRAGMENT, NO_NEXT = 1, 6, 17, 58, 44, 59
DISCARD = 9  # the UDP port on which every lab host has a silent sink

DF = 0x4000
MF = 0x2000


def mac_bytes(mac):
    return bytes.fromhex(mac.replace(':', ''))


def address_bytes(address):
    return ipaddress.ip_address(address).packed


def is_ipv6(address):
    return ':' in address


def internet_checksum(data):
    if len(data) % 2:
        data += b'\0'
    total = sum(struct.unpack(f'!{len(data) // 2}H', data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def _pseudo(src, dst, proto, length):
    a, b = address_bytes(src), address_bytes(dst)
    if is_ipv6(src):
        return a + b + struct.pack('!IxxxB', length, proto)
    return a + b + struct.pack('!BBH', 0, proto, length)


def l4_checksum(src, dst, proto, segment):
    return internet_checksum(_pseudo(src, dst, proto, len(segment)) + segment)


def udp(src, dst, sport, dport, payload):
    length = 8 + len(payload)
    head = struct.pack('!HHHH', sport, dport, length, 0)
    checksum = l4_checksum(src, dst, UDP, head + payload) or 0xffff
    return struct.pack('!HHHH', sport, dport, length, checksum) + payload


def tcp(src, dst, sport, dport, payload=b'', flags=0x10, seq=1, ack=1):
    head = struct.pack('!HHIIBBHHH', sport, dport, seq, ack, 5 << 4, flags, 65535, 0, 0)
    checksum = l4_checksum(src, dst, TCP, head + payload)
    return head[:16] + struct.pack('!HH', checksum, 0) + payload


def icmp(kind, code, rest, src=None, dst=None):
    """ICMP, or ICMPv6 when the addresses are IPv6. @rest: everything after the checksum."""
    head = struct.pack('!BBH', kind, code, 0)
    if src and is_ipv6(src):
        checksum = l4_checksum(src, dst, ICMPV6, head + rest)
    else:
        checksum = internet_checksum(head + rest)
    return struct.pack('!BBH', kind, code, checksum) + rest


def ipv4(src, dst, proto, payload, ttl=64, tos=0, ident=0, frag=0, options=b'', length=None, checksum=None,
         version=4, ihl=None):
    """An IPv4 packet. @frag: flags and offset field as on the wire (DF, MF, offset/8)."""
    options += b'\0' * (-len(options) % 4)
    ihl = 5 + len(options) // 4 if ihl is None else ihl
    length = 20 + len(options) + len(payload) if length is None else length
    head = struct.pack('!BBHHHBBH', version << 4 | ihl, tos, length, ident, frag, ttl, proto, 0) \
        + address_bytes(src) + address_bytes(dst) + options
    if checksum is None:
        checksum = internet_checksum(head)
    return head[:10] + struct.pack('!H', checksum) + head[12:] + payload


def ipv6(src, dst, proto, payload, ttl=64, tclass=0, flow=0, length=None, version=6):
    length = len(payload) if length is None else length
    return struct.pack('!IHBB', version << 28 | tclass << 20 | flow, length, proto, ttl) \
        + address_bytes(src) + address_bytes(dst) + payload


def ip(src, dst, proto, payload, ttl=64, **kw):
    """IPv4 or IPv6, by the addresses."""
    return (ipv6 if is_ipv6(src) else ipv4)(src, dst, proto, payload, ttl, **kw)


def udp_packet(src, dst, sport=1000, dport=DISCARD, payload=b'', ttl=64, size=None, **kw):
    """A UDP packet; @size: length of the whole IP packet, the payload is filled up to it."""
    if size is not None:
        head = (40 if is_ipv6(src) else 20) + len(kw.get('options', b'')) + 8
        payload = (payload + filler(size))[:size - head]
    return ip(src, dst, UDP, udp(src, dst, sport, dport, payload), ttl, **kw)


def filler(n):
    """Bytes that differ by position, so that a moved or lost block shows."""
    return bytes((i * 7 + (i >> 8)) & 0xff for i in range(n))


def frame(dst_mac, src_mac, packet, ethertype=None, pad=0):
    """An Ethernet frame; @pad: bytes of link padding behind the packet."""
    if ethertype is None:
        ethertype = ETH_IPV6 if packet[0] >> 4 == 6 else ETH_IPV4
    return mac_bytes(dst_mac) + mac_bytes(src_mac) + struct.pack('!H', ethertype) + packet + b'\xee' * pad


def ip_of(eth):
    """The IP packet in a frame, without link padding."""
    kind = struct.unpack_from('!H', eth, 12)[0]
    if kind == ETH_IPV4:
        return eth[14:14 + struct.unpack_from('!H', eth, 16)[0]]
    if kind == ETH_IPV6:
        return eth[14:14 + 40 + struct.unpack_from('!H', eth, 18)[0]]
    return b''


def without_zero_padding(eth):
    """Ethernet's shortest frame has 60 bytes: a sender may fill up to that, with zeros and to exactly that length.
    Such padding is taken off here; any other stays and makes the frame differ."""
    packet = ip_of(eth)
    if len(eth) == 60 and packet and len(packet) < 46 and not any(eth[14 + len(packet):]):
        return eth[:14 + len(packet)]
    return eth


def forwarded(eth, src_mac, dst_mac):
    """What a router must send for this received frame: new MACs, TTL or hop limit less one, IPv4 header checksum
    recomputed from scratch, padding cut, every other byte as received."""
    packet = bytearray(ip_of(eth))
    if packet[0] >> 4 == 4:
        packet[8] -= 1
        head = (packet[0] & 15) * 4
        packet[10:12] = b'\0\0'
        packet[10:12] = struct.pack('!H', internet_checksum(bytes(packet[:head])))
    else:
        packet[7] -= 1
    return mac_bytes(dst_mac) + mac_bytes(src_mac) + eth[12:14] + bytes(packet)


def fragments4(packet, mtu):
    """Cut an IPv4 packet without options as F18 says: multiples of 8, as few as possible, id kept."""
    head, payload = packet[:20], packet[20:]
    field = struct.unpack_from('!H', head, 6)[0]
    base, more = field & 0x1fff, field & MF
    step = (mtu - 20) // 8 * 8
    cut, at = [], 0
    while at < len(payload):
        piece = payload[at:at + (mtu - 20 if len(payload) - at <= mtu - 20 else step)]
        last = at + len(piece) == len(payload)
        flags = (field & DF) | (more if last else MF)
        raw = head[:2] + struct.pack('!H', 20 + len(piece)) + head[4:6] + struct.pack('!H', flags | (base + at // 8)) \
            + head[8:10] + b'\0\0' + head[12:20]
        cut.append(raw[:10] + struct.pack('!H', internet_checksum(raw)) + raw[12:] + piece)
        at += len(piece)
    return cut


def fragments6(packet, size, ident=0x12345678):
    """Cut an IPv6 packet without extension headers as its source would, pieces of at most @size bytes."""
    head, payload, proto = packet[:40], packet[40:], packet[6]
    step = (size - 48) // 8 * 8
    cut = []
    for at in range(0, len(payload), step):
        piece = payload[at:at + step]
        more = at + len(piece) < len(payload)
        ext = struct.pack('!BBHI', proto, 0, at | more, ident)
        cut.append(head[:4] + struct.pack('!HB', 8 + len(piece), FRAGMENT) + head[7:40] + ext + piece)
    return cut
