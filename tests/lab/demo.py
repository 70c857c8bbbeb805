#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The demonstration behind `make demo`: two hosts, a router between them, once with the kernel alone and once with
routerd. Everything happens in network namespaces of its own and is gone afterwards."""
import os
import re
import sys

os.environ.pop('ROUTERD_LAB_KERNEL', None)
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Lab, kernel, netns, traffic  # noqa: E402
from harness.routerd import binary  # noqa: E402

SECONDS = 3
DRAWING = '''
    host h1                        the router (a network namespace)                 host h2
  10.0.1.2  ------------ lan [ 10.0.1.1   routerd   10.0.2.1 ] wan ------------  10.0.2.2
  fd00:1::2               [ fd00:1::1              fd00:2::1 ]               fd00:2::2

  Each line is a veth pair with 2 queues. The routes and neighbours are the kernel's own.
'''
bold, plain = ('\033[1m', '\033[0m') if sys.stdout.isatty() else ('', '')


def title(text):
    print(f'\n{bold}== {text} =={plain}', flush=True)


def command(text, out):
    print(f'$ {text}\n{out.rstrip()}\n', flush=True)


def ping(lab, family):
    out = lab.h1.ns.run('ping', '-c', 20, '-i', '0.01', '-W', 2, lab.h2.ip(family))
    received = re.search(r'(\d+) received', out).group(1)
    average = re.search(r'= [\d.]+/([\d.]+)/', out).group(1)
    return f'{received} of 20, {float(average):.2f} ms'


def tcp(lab, family, reverse=False):
    out = traffic.iperf(lab.h1, lab.h2, family, SECONDS, reverse=reverse)
    return f'{out["end"]["sum_received"]["bits_per_second"] / 1e6:.0f} Mbit/s'


def udp(lab, family):
    out = traffic.iperf(lab.h1, lab.h2, family, SECONDS, udp_mbit=96, length=1200)['end']['sum']
    return f'{out["packets"] / out["seconds"] / 1000:.0f} k packets/s, {out["lost_percent"]:.2f} % lost'


def flood(lab, family):
    out = traffic.iperf(lab.h1, lab.h2, family, SECONDS, udp_mbit=0, length=64)['end']['sum']
    return f'{(out["packets"] - out["lost_packets"]) / out["seconds"] / 1000:.0f} k packets/s arrived'


MEASURES = (
    ('ping IPv4', lambda lab: ping(lab, 4)),
    ('ping IPv6', lambda lab: ping(lab, 6)),
    ('TCP h1 to h2, IPv4', lambda lab: tcp(lab, 4)),
    ('TCP h2 to h1, IPv6', lambda lab: tcp(lab, 6, True)),
    ('UDP h1 to h2, 96 Mbit/s', lambda lab: udp(lab, 4)),
    ('UDP flood, 64 bytes, IPv6', lambda lab: flood(lab, 6)),
)


def measure(lab, who):
    """{what: result}, and how many packets the kernel forwarded meanwhile."""
    results, before = {}, kernel.forwarded_by_kernel(kernel.counters(lab.router))
    for what, run in MEASURES:
        results[what] = run(lab)
        print(f'  {who:12} {what:27} {results[what]}', flush=True)
    return results, kernel.forwarded_by_kernel(kernel.counters(lab.router)) - before


def table(rows):
    widths = [max(len(str(r[i])) for r in rows) for i in range(len(rows[0]))]
    for n, row in enumerate(rows):
        print('  ' + '   '.join(str(c).ljust(w) for c, w in zip(row, widths)).rstrip())
        if n == 0:
            print('  ' + '   '.join('-' * w for w in widths))


def show_routerd(lab):
    d = lab.daemon
    for what in ('status', 'port', 'stats', 'frames', 'drops'):
        command(f'routerctl {what}', d.ctl(what))
    command(f'routerctl route get {lab.h2.ip4}', d.ctl('route', 'get', lab.h2.ip4))
    lines = [line for line in d.metrics_text().splitlines() if 'lan' in line and not line.startswith('#')
             and not line.endswith(' 0')]
    command("curl http://127.0.0.1:9151/metrics | grep lan | head -n 12    (what is not 0)", '\n'.join(lines[:12]))


def summary(lab, alone, alone_forw, fast, fast_forw, stats):
    title('what you saw')
    print(DRAWING)
    total = stats['total']
    rows = [('', 'kernel alone', 'with routerd')]
    rows += [(what, alone[what], fast[what]) for what, _ in MEASURES]
    rows.append(('packets forwarded by the kernel', alone_forw, fast_forw))
    rows.append(('packets forwarded by routerd', '-', total['forwarded']['packets']))
    table(rows)
    sides = [total[k]['packets'] for k in ('received', 'forwarded', 'kernel', 'dropped')]
    print(f'\n  Nothing is lost silently: {sides[0]} received = {sides[1]} forwarded + {sides[2]} given to the kernel '
          f'+ {sides[3]} dropped + {total["held"]} held: {"it balances" if total["balanced"] else "IT DOES NOT BALANCE"}.')
    print('  On veth a packet costs the sender\'s CPU for the whole way, and AF_XDP copies: these rates compare nothing but\n'
          '  that it works. Two hosts, router and load generator share the CPUs of this machine.')
    print(f'  Next: edit etc/routerd.ini, then: {os.path.relpath(binary("routerd"))} -c etc/routerd.ini')


def main():
    if os.geteuid():
        sys.exit('the demo makes network namespaces: run it as root')
    if not os.access(binary('routerd'), os.X_OK):
        sys.exit(f'{binary("routerd")} does not exist: run make first')
    netns.clean_left_overs()
    lab = Lab(workers=2, queues=2, daemon=False, dynamic=('lan', 'wan'))
    lab.kernel_forwards_freely = True
    try:
        print(DRAWING)
        lab.start()
        title('the kernel alone')
        alone = measure(lab, 'kernel alone')
        title('routerd is started')
        with open(lab.daemon.config) as f:
            command('cat routerd.ini', f.read())
        lab.start_daemon()
        command('routerd -c routerd.ini', lab.daemon.log())
        title('the same traffic with routerd')
        fast = measure(lab, 'with routerd')
        lab.rest()
        title('what routerd says')
        show_routerd(lab)
        stats = lab.daemon.json('stats')
        title('routerd is stopped')
        lab.finish()
        print('SIGTERM: exit code 0; no XDP program, TAP, socket or process is left; all counters balanced.')
        summary(lab, *alone, *fast, stats)
    finally:
        lab.close()


if __name__ == '__main__':
    main()
