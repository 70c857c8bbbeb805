# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's own counters of a namespace, under nstat-like names: Ip.ForwDatagrams, Ip6.OutForwDatagrams, ..."""
import collections


def _paired_lines(path, into):
    with open(path) as f:
        lines = f.read().splitlines()
    for names, values in zip(lines[::2], lines[1::2]):
        prefix = names.split(':')[0]
        for name, value in zip(names.split()[1:], values.split()[1:]):
            into[f'{prefix}.{name}'] = int(value)


def _snmp6(path, into):
    with open(path) as f:
        for line in f:
            name, value = line.split()
            for proto in ('Icmp6', 'Ip6', 'Udp6', 'UdpLite6'):
                if name.startswith(proto):
                    into[f'{proto}.{name[len(proto):]}'] = int(value)
                    break


def counters(ns):
    """Every SNMP-like counter of the namespace; those that the kernel does not list yet are 0."""
    found = collections.Counter()
    with ns.enter():
        _paired_lines('/proc/thread-self/net/snmp', found)
        _paired_lines('/proc/thread-self/net/netstat', found)
        _snmp6('/proc/thread-self/net/snmp6', found)
    return found


def forwarded_by_kernel(delta):
    """Packets the kernel itself forwarded, both families."""
    return delta['Ip.ForwDatagrams'] + delta['Ip6.OutForwDatagrams']


def packet_sockets(ns):
    """AF_PACKET sockets in the namespace."""
    with ns.enter(), open('/proc/thread-self/net/packet') as f:
        return f.read().splitlines()[1:]


def links(ns):
    return {link['ifname']: link for link in ns.ip_json('-d -s link')}
