# SPDX-License-Identifier: GPL-2.0-or-later
"""The control socket, routerctl and the metrics endpoint, with good and with bad visitors."""
import json
import os
import random
import socket
import stat
import subprocess
import threading
import time

import pytest

from harness.frames import udp_packet
from harness.routerd import METRICS, binary, parse_metrics

pytestmark = [pytest.mark.sanitizer, pytest.mark.routerd]
COMMANDS = ('status', 'port', 'queue', 'route', 'neighbour', 'stats', 'drops', 'frames')

BAD_REQUESTS = (b'\n', b'hello\n', b'{}\n', b'[]\n', b'null\n', b'{"command":5}\n',
                b'{"command":"nonsense"}\n', b'{"command":"route","arguments":7}\n',
                b'{"command":"route_get","arguments":{"dst":[]}}\n', b'\xff\xfe\n',
                b'{"command":"status"' + b' ' * 70000 + b'}\n', b'[' * 60000 + b'\n')


def mixed_traffic(lab):
    """Something of each kind: forwarded, to the kernel by program and by worker, dropped."""
    lab.ip('route add blackhole 10.66.0.0/16')
    bad = bytearray(lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4)))
    bad[24] ^= 1
    with lab.expect(forwarded={'lan': 30, 'wan': 20}, kernel={('lan', 'ttl'): 5, ('lan', 'no_route'): 3},
                    dropped={('lan', 'blackhole'): 7, ('lan', 'bad_checksum'): 4}):
        lab.h1.send([lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4, i)) for i in range(30)])
        lab.h2.send([lab.h2.frame(udp_packet(lab.h2.ip6, lab.h1.ip6, i)) for i in range(20)])
        lab.h1.send([lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4, ttl=1))] * 5)
        lab.h1.send([lab.h1.frame(udp_packet(lab.h1.ip4, '10.77.0.1'))] * 3)
        lab.h1.send([lab.h1.frame(udp_packet(lab.h1.ip4, '10.66.0.1'))] * 7)
        lab.h1.send([bytes(bad)] * 4)


class TestRouterctl:
    def test_json_keys(self, lab):
        mixed_traffic(lab)
        keys = {
            'status': {'version', 'uptime_s', 'ready', 'workers', 'ports', 'kernel_forwarding', 'mirror',
                       'rules_to_kernel', 'warnings'},
            'port': {'name', 'ifindex', 'driver', 'mode', 'mode_requested', 'xdp_attach', 'zero_copy', 'attempts', 'mtu',
                     'mac', 'rx_queues', 'tx_queues', 'carrier'},
            'queue': {'port', 'queue', 'direction', 'worker', 'rung', 'reason', 'packets', 'bytes'},
            'route': {'dst', 'table', 'type', 'metric', 'protocol', 'paths', 'verdict'},
            'neighbour': {'dst', 'dev', 'lladdr', 'state', 'used_s'},
            'stats': {'ports', 'total', 'workers'},
            'drops': {'port', 'reason', 'packets', 'bytes', 'help', 'class', 'where'},
            'frames': {'total', 'places', 'balanced'},
        }
        for command, want in keys.items():
            answer = lab.daemon.json(command)
            one = answer[0] if isinstance(answer, list) else answer
            assert want <= set(one), f'{command}: {want - set(one)} missing'
        mirror = lab.daemon.json('status')['mirror']
        assert {'routes4', 'routes6', 'nexthops', 'neighbours', 'rules', 'links', 'addresses', 'resyncs',
                'synced'} <= set(mirror)
        assert lab.daemon.json('status')['ready'] is True

    def test_tables(self, lab):
        """Without -j: tables for people, not empty, without JSON."""
        mixed_traffic(lab)
        for command in COMMANDS:
            out = lab.daemon.ctl(command)
            assert len(out.splitlines()) >= 2 and not out.lstrip().startswith(('{', '[')), command
            if command in ('port', 'queue', 'stats'):
                assert 'lan' in out and 'wan' in out, command

    def test_bytes_are_counted(self, lab):
        """Bytes of forwarded packets: exactly those of the frames as they came."""
        sizes = (60, 300, 1400)
        before = {p['name']: p for p in lab.daemon.json('stats')['ports']}
        lab.h1.send([lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4, size=s)) for s in sizes])
        lab.rest()
        after = {p['name']: p for p in lab.daemon.json('stats')['ports']}
        want = sum(sizes) + 14 * len(sizes)
        assert after['lan']['forwarded']['bytes'] - before['lan']['forwarded']['bytes'] == want
        assert after['wan']['sent']['bytes'] - before['wan']['sent']['bytes'] == want

    def test_wrong_usage(self, lab):
        for words, code in ((['stauts'], 2), (['route', 'get'], 2), (['route', 'get', 'nonsense'], 1), ([], 2)):
            r = lab.daemon.ctl_raw(*words)
            assert r.returncode == code and r.stderr.strip(), (words, r)
        assert 'status' in lab.daemon.ctl_raw('stauts').stderr

    def test_no_daemon(self, tmp_path):
        r = subprocess.run([binary('routerctl'), '--socket', str(tmp_path / 'none'), 'status'], capture_output=True,
                           text=True)
        assert r.returncode == 3 and str(tmp_path / 'none') in r.stderr

    def test_pipe_closed_early(self, lab):
        lab.router.batch([f'route add 11.0.{i >> 8}.{i & 255}/32 via 10.0.2.2' for i in range(20000)])
        lab.sync()
        r = subprocess.run(f'{binary("routerctl")} --socket {lab.daemon.socket} route | head -n 1', shell=True,
                           capture_output=True, text=True, timeout=20)
        assert r.stdout.count('\n') == 1

    def test_interface_name_of_any_bytes(self, lab):
        """The kernel takes any name without blank and slash; JSON does not."""
        name = 'w\udcff\x1b'
        lab.router.ip('link add name w0 type veth peer name w1')
        lab.router.run('ip', 'link', 'set', 'w0', 'name', name)
        for words in (('addr', 'add', '10.99.0.1/24'), ('link', 'set', 'up')):
            lab.router.run('ip', *words, 'dev', name)
        lab.router.run('ip', 'link', 'set', 'w1', 'up')
        lab.sync()
        try:
            assert [r['paths'][0]['dev'] for r in lab.daemon.json('route', '10.99.0.0/24')] == ['w??']
        finally:
            lab.router.ip('link del w1')

    def test_long_list_is_whole(self, lab):
        """20,000 routes come in pages, none missing, none twice."""
        lab.router.batch([f'route add 11.0.{i >> 8}.{i & 255}/32 via 10.0.2.2' for i in range(20000)])
        lab.sync()
        rows = [r['dst'] for r in lab.daemon.json('route') if r['dst'].startswith('11.0.')]
        assert len(rows) == len(set(rows)) == 20000


class TestUnreliableDaemon:
    """routerctl against a daemon that hangs up: one that drops quiet clients, one that dies."""

    @staticmethod
    def serve(path, connections):
        """Each connection answers so many requests with a page of one element, then ends; after the last: nobody."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(5)
        asked = []

        def run():
            for answers in connections:
                s = listener.accept()[0]
                with s, s.makefile('rw') as f:
                    for _ in range(answers):
                        asked.append(json.loads(f.readline()).get('arguments', {}).get('after'))
                        n = len(asked)
                        reply = {'ok': True, 'result': [{'dst': f'10.0.{n}.0/24', 'table': 'main', 'paths': []}]}
                        if n < 3:
                            reply['next'] = str(n)
                        f.write(json.dumps(reply) + '\n')
                        f.flush()
            listener.close()
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread, asked

    def ask(self, tmp_path, connections):
        path = str(tmp_path / 's')
        thread, asked = self.serve(path, connections)
        r = subprocess.run([binary('routerctl'), '--socket', path, '-j', 'route'], capture_output=True, text=True,
                           timeout=20)
        thread.join(5)
        return r, asked

    def test_dials_again_between_pages(self, tmp_path):
        r, asked = self.ask(tmp_path, (1, 2))
        assert r.returncode == 0, r.stderr
        assert [x['dst'] for x in json.loads(r.stdout)] == ['10.0.1.0/24', '10.0.2.0/24', '10.0.3.0/24']
        assert asked == [None, '1', '2']

    def test_failure_after_the_first_page(self, tmp_path):
        """What came is whole JSON; the exit code and standard error tell that it is not all."""
        r, _ = self.ask(tmp_path, (1,))
        assert r.returncode == 3 and 'does not answer' in r.stderr
        assert [x['dst'] for x in json.loads(r.stdout)] == ['10.0.1.0/24']

    def test_failure_at_once(self, tmp_path):
        r, _ = self.ask(tmp_path, (0,))
        assert r.returncode == 3 and not r.stdout


class TestControlSocket:
    def ask(self, lab, data, timeout=5):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(timeout)
        s.connect(lab.daemon.socket)
        s.sendall(data)
        out = b''
        try:
            while not out.endswith(b'\n') and (more := s.recv(1 << 16)):
                out += more
        except (TimeoutError, ConnectionResetError):
            pass
        s.close()
        return out

    def test_access_rights(self, lab):
        mode = os.stat(lab.daemon.socket).st_mode
        assert stat.S_ISSOCK(mode) and not mode & 0o007, oct(mode)

    def test_bad_requests_get_an_error(self, lab):
        """Each one is answered with an error, or the visitor is shown the door; the next visitor is served."""
        for line in BAD_REQUESTS:
            answer = self.ask(lab, line)
            if answer:
                assert json.loads(answer)['ok'] is False and json.loads(answer)['error'], line[:60]
            assert lab.daemon.json('status')['ready'] is True

    def test_garbage_and_half_requests(self, lab):
        """A thousand bad visitors, many at a time: the daemon answers the good one at once and goes on forwarding."""
        rng = random.Random(3)
        waiting = []
        for i in range(300):
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(2)
            try:
                s.connect(lab.daemon.socket)
                s.sendall(rng.randbytes(rng.randrange(1, 2000)) + (b'\n' if i % 2 else b''))
            except OSError:
                pass
            waiting.append(s)
            if i % 50 == 0:
                start = time.monotonic()
                assert lab.daemon.json('status')['ready'] is True
                assert time.monotonic() - start < 3
        for s in waiting:
            s.close()
        with lab.expect(forwarded=10):
            lab.h1.send([lab.h1.frame(udp_packet(lab.h1.ip4, lab.h2.ip4))] * 10)


class TestMetrics:
    def test_promtool_accepts_them(self, lab):
        mixed_traffic(lab)
        text = lab.daemon.metrics_text()
        r = subprocess.run(['promtool', 'check', 'metrics'], input=text, capture_output=True, text=True)
        assert r.returncode == 0, r.stdout + r.stderr

    def test_every_metric_has_help_and_type(self, lab):
        text = lab.daemon.metrics_text()
        helped = {line.split()[2] for line in text.splitlines() if line.startswith('# HELP')}
        typed = {line.split()[2]: line.split()[3] for line in text.splitlines() if line.startswith('# TYPE')}
        for name in parse_metrics(text):
            assert name in helped and name in typed, name
            assert name.startswith(('routerd_', 'process_')), name
            assert (typed[name] == 'counter') == name.endswith('_total'), name

    def test_values_equal_routerctls(self, lab):
        """At rest: packets by reason and port, frames by place, routes."""
        mixed_traffic(lab)
        lab.rest()
        metrics = parse_metrics(lab.daemon.metrics_text())
        rows = [(labels, value) for name, samples in metrics.items() if name.endswith('packets_total')
                for labels, value in samples]

        def value(**want):
            return [v for labels, v in rows if all(labels.get(k) == x for k, x in want.items())]
        drops = lab.daemon.json('drops')
        assert {(d['port'], d['reason']) for d in drops if d['packets']} >= {
            ('lan', 'ttl'), ('lan', 'no_route'), ('lan', 'blackhole'), ('lan', 'bad_checksum')}
        for d in drops:
            if d['packets'] and d['reason'] != 'not_ip':
                assert d['packets'] in value(port=d['port'], reason=d['reason']), d
        for q in lab.daemon.json('queue'):
            assert q['packets'] in value(port=q['port'], queue=str(q['queue']), direction=q['direction']), q
        places = {labels['place']: v for samples in metrics.values() for labels, v in samples if 'place' in labels}
        ledger = lab.daemon.json('frames')
        assert places['free'] == ledger['places']['free']['counted']
        assert sum(places.values()) == ledger['total']

    def test_other_paths_and_methods(self, lab):
        for request, code in ((b'GET /nothing HTTP/1.0\r\n\r\n', b'404'), (b'POST /metrics HTTP/1.0\r\n\r\n', b'405'),
                              (b'garbage\r\n\r\n', None), (b'\0' * 3000, None), (b'GET /' + b'x' * 50000, None)):
            with lab.router.enter():
                s = socket.create_connection(METRICS, timeout=5)
            with s:
                s.settimeout(20 if code else 0.3)  # nobody waits for an answer to half a request
                try:
                    s.sendall(request)
                    s.shutdown(socket.SHUT_WR)
                    answer = s.recv(1000)
                except (ConnectionError, TimeoutError):
                    answer = b''
            assert code is None or b' ' + code + b' ' in answer.split(b'\r\n')[0]
        assert 'routerd_' in lab.daemon.metrics_text()
