# SPDX-License-Identifier: GPL-2.0-or-later
"""The daemon's process in the router namespace, routerctl, the metrics endpoint."""
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BINDIR = os.path.join(ROOT, os.environ.get('ROUTERD_BINDIR', 'build'))
SANITIZED = 'asan' in os.path.basename(BINDIR) or 'tsan' in os.path.basename(BINDIR) \
    or bool(os.environ.get('ROUTERD_SANITIZED'))
METRICS = ('127.0.0.1', 9151)
START_SECONDS = 30 if SANITIZED else 10
STOP_SECONDS = 15 if SANITIZED else 5
READY = re.compile(r'^routerd: \w+: ready\b', re.M)
BAD_LOG = re.compile(r'^routerd: error:|Sanitizer|runtime error:|Assertion|SUMMARY:', re.M)
SANITIZER_OPTIONS = {
    'ASAN_OPTIONS': 'detect_leaks=1:abort_on_error=0:exitcode=99',
    'UBSAN_OPTIONS': 'print_stacktrace=1:halt_on_error=1:exitcode=99',
    'TSAN_OPTIONS': 'halt_on_error=0:exitcode=99',
}


def binary(name):
    return os.path.join(BINDIR, name)


def config_text(sections):
    """ini text of {section: {key: value}}."""
    return ''.join(f'[{name}]\n' + ''.join(f'{k} = {v}\n' for k, v in keys.items()) + '\n'
                   for name, keys in sections.items())


class Routerd:
    """One routerd. Everything it is given lies in its own scratch directory."""

    def __init__(self, ns, directory, sections):
        self.ns = ns
        self.socket = f'{directory}/control.sock'
        self.log_path = f'{directory}/routerd.log'
        self.config = f'{directory}/routerd.ini'
        self.process = None
        sections = dict(sections)
        sections.setdefault('control', {}).setdefault('socket', self.socket)
        sections.setdefault('metrics', {}).setdefault('listen', f'{METRICS[0]}:{METRICS[1]}')
        with open(self.config, 'w') as f:
            f.write(config_text(sections))

    def start(self, wait=True):
        with open(self.log_path, 'ab') as log:
            self.process = self.ns.popen(binary('routerd'), '-c', self.config, stdout=log, stderr=log,
                                         env={**os.environ, **SANITIZER_OPTIONS})
        if wait:
            self.wait_ready()

    def wait_ready(self):
        deadline = time.monotonic() + START_SECONDS
        while not READY.search(self.log()):
            assert self.process.poll() is None, f'routerd ended ({self.process.returncode}):\n{self.log()}'
            assert time.monotonic() < deadline, f'routerd is not ready after {START_SECONDS} s:\n{self.log()}'
            time.sleep(0.01)

    def log(self):
        with open(self.log_path, errors='replace') as f:
            return f.read()

    def assert_log_clean(self):
        bad = [line for line in self.log().splitlines() if BAD_LOG.search(line)]
        assert not bad, 'errors in the log:\n' + '\n'.join(bad[:10]) + '\n--- whole log ---\n' + self.log()[-6000:]

    def ctl(self, *words, check=True):
        """routerctl with these words; its text."""
        r = self.ctl_raw(*words)
        assert not check or r.returncode == 0, f'routerctl {" ".join(words)}: {r.returncode} {r.stderr}'
        return r.stdout

    def ctl_raw(self, *words):
        return subprocess.run([binary('routerctl'), '--socket', self.socket, *words], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=60)

    def json(self, *words):
        """routerctl -j with these words."""
        return json.loads(self.ctl('-j', *words))

    def metrics_text(self, path='/metrics', host=METRICS):
        with self.ns.enter():
            s = socket.create_connection(host, timeout=10)
        with s:
            s.sendall(f'GET {path} HTTP/1.0\r\nHost: lab\r\n\r\n'.encode())
            raw = b''.join(iter(lambda: s.recv(1 << 16), b''))
        head, _, body = raw.partition(b'\r\n\r\n')
        assert b' 200 ' in head.split(b'\r\n')[0], head
        return body.decode()

    def cpu_seconds(self):
        with open(f'/proc/{self.process.pid}/stat') as f:
            fields = f.read().rsplit(')', 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def running(self):
        return self.process is not None and self.process.poll() is None

    def terminate(self):
        """SIGTERM; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f'routerd still runs {STOP_SECONDS} s after SIGTERM:\n{self.log()[-3000:]}') from None

    def kill(self):
        if self.running():
            self.process.kill()
        if self.process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)


METRIC = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


def parse_metrics(text):
    """{name: [(labels, value)]} of Prometheus' text format."""
    found = {}
    for line in text.splitlines():
        if not line or line.startswith('#'):
            continue
        m = METRIC.match(line)
        assert m, f'no metric: {line!r}'
        found.setdefault(m.group(1), []).append((dict(LABEL.findall(m.group(2) or '')), float(m.group(3))))
    return found
