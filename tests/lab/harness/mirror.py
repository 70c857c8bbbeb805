# SPDX-License-Identifier: GPL-2.0-or-later
"""The mirror against the kernel: the whole content of both, compared as sets."""
import functools
import gc
import json
import time

REFUSING = ('blackhole', 'unreachable', 'prohibit', 'throw')


def _network(dst, family):
    """As routerctl writes it: always with its length."""
    if dst == 'default':
        return '0.0.0.0/0' if family == 4 else '::/0'
    return dst if '/' in dst else f'{dst}/{32 if family == 4 else 128}'


def quick(function):
    """Without garbage collection: a hundred thousand routes are millions of objects, and none of them is garbage."""
    @functools.wraps(function)
    def wrapped(*args):
        gc.disable()
        try:
            return function(*args)
        finally:
            gc.enable()
    return wrapped


def _hop(gateway, dev, weight):
    return gateway or '', dev or '', weight or 1


def _kernel_hops(route, nexthops):
    if 'nhid' in route:
        return nexthops.get(route['nhid'], frozenset())
    if 'nexthops' in route:
        return frozenset(_hop(n.get('gateway') or (n.get('via') or {}).get('host'), n.get('dev'), n.get('weight'))
                         for n in route['nexthops'])
    gateway = route.get('gateway') or (route.get('via') or {}).get('host')
    return frozenset([_hop(gateway, route.get('dev'), 1)])


def _nexthop_hops(number, nexthops):
    n = nexthops[number]
    if 'group' in n:
        weights = {m['id']: m.get('weight', 1) for m in n['group']}
        return [hop[:2] + (weights[i],) for i in weights for hop in _nexthop_hops(i, nexthops)]
    return [_hop(n.get('gateway'), n.get('dev'), 1)]


@quick
def kernel_routes(ns, family):
    """{(destination, type, metric, hops)} of the main table as the kernel has it."""
    objects = {n['id']: n for n in ns.ip_json('nexthop')}
    nexthops = {i: frozenset(_nexthop_hops(i, objects)) for i, n in objects.items() if 'blackhole' not in n}
    found = set()
    for r in ns.ip_json(f'-{family} -d route show table main'):
        kind = r.get('type', 'unicast')
        if kind in ('local', 'broadcast', 'anycast', 'multicast'):
            continue
        hops = frozenset() if kind in REFUSING else _kernel_hops(r, nexthops)
        found.add((_network(r['dst'], family), kind, r.get('metric', 0), hops))
    return _joined(found) if family == 6 else found


@quick
def mirrored_routes(daemon, family):
    """The same from routerctl."""
    found = set()
    for r in json.loads(daemon.ctl('-j', 'route', 'inet' if family == 4 else 'inet6')):
        if r['table'] not in ('main', 254) or r['type'] in ('local', 'broadcast', 'anycast', 'multicast'):
            continue
        hops = frozenset() if r['type'] in REFUSING else frozenset(
            _hop(p.get('gateway'), p.get('dev'), p.get('weight')) for p in r['paths'])
        found.add((_network(r['dst'], family), r['type'], r.get('metric', 0), hops))
    return _joined(found) if family == 6 else found


def _joined(routes):
    """IPv6: the kernel shows the same multipath route as one or as several entries; hops of a key are put together."""
    by_key = {}
    for dst, kind, metric, hops in routes:
        by_key.setdefault((dst, kind, metric), set()).update(hops)
    return {key + (frozenset(hops),) for key, hops in by_key.items()}


def difference(lab, families=(4, 6)):
    """'' when mirror and kernel hold the same routes; else what differs."""
    text = []
    for family in families:
        kernel, mirror = kernel_routes(lab.router, family), mirrored_routes(lab.daemon, family)
        if kernel != mirror:
            text.append(f'IPv{family}: {len(kernel)} in the kernel, {len(mirror)} mirrored; '
                        f'missing {sorted(kernel - mirror, key=str)[:5]}, surplus {sorted(mirror - kernel, key=str)[:5]}')
    return '\n'.join(text)


def assert_equal(lab, families=(4, 6), timeout=20):
    """Mirror and kernel agree, at the latest after @timeout."""
    deadline = time.monotonic() + timeout
    while text := difference(lab, families):
        assert time.monotonic() < deadline, text
        time.sleep(0.3)
