# SPDX-License-Identifier: GPL-2.0-or-later
"""pytest's side of the lab: the make_lab and lab fixtures, the end of every test, time limits, markers.

ROUTERD_BINDIR      where routerd and routerctl lie (default build); build-asan works the same
ROUTERD_LAB_KERNEL  1 = no routerd: the kernel forwards and shows what is right
"""
import atexit
import os
import signal

import pytest

from harness import Lab, netns, reference_only
from harness.routerd import SANITIZED, binary

DEFAULT_SECONDS = 60
_open = []


def pytest_configure(config):
    config.addinivalue_line('markers', 'sanitizer: also run with the sanitizer build (a subset under 3 minutes)')
    config.addinivalue_line('markers', 'systemd: boots a real systemd in the router namespace')
    config.addinivalue_line('markers', 'routerd: is about the daemon itself; skipped when only the kernel runs')
    config.addinivalue_line('markers', 'seconds(n): the test may take this long (default 60)')
    netns.clean_left_overs()


def pytest_collection_modifyitems(items):
    for item in items:
        if os.geteuid():
            item.add_marker(pytest.mark.skip(reason='not root: namespaces and XDP need it'))
        elif reference_only() and item.get_closest_marker('routerd'):
            item.add_marker(pytest.mark.skip(reason='ROUTERD_LAB_KERNEL: the kernel alone'))
        elif not reference_only() and not os.access(binary('routerd'), os.X_OK):
            item.add_marker(pytest.mark.skip(reason=f'{binary("routerd")} does not exist: run make first'))


def _close_all():
    while _open:
        _open.pop().close()


atexit.register(_close_all)


def _terminated(signum, frame):
    raise KeyboardInterrupt(f'signal {signum}')


signal.signal(signal.SIGTERM, _terminated)


@pytest.fixture
def make_lab(request):
    """A function that builds a lab from Setup's keywords and starts it. All labs are finished after the test."""
    request.node.labs = []

    def make(**kw):
        lab = Lab(**kw)
        _open.append(lab)
        request.node.labs.append(lab)
        return lab.start()

    yield make
    for lab in request.node.labs:
        lab.close()
        _open.remove(lab)


@pytest.fixture
def lab(make_lab):
    """The plain lab: h1 - lan [router] wan - h2, one worker, one queue, static neighbours."""
    return make_lab()


class TooSlow(Exception):
    """The test's time is over."""


def _alarm(signum, frame):
    raise TooSlow


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run the test under its time limit, then every lab's end-of-test assertions as part of the test."""
    marker = pyfuncitem.get_closest_marker('seconds')
    limit = (marker.args[0] if marker else DEFAULT_SECONDS) * (3 if SANITIZED else 1)
    signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(limit)
    try:
        pyfuncitem.obj(**{a: pyfuncitem.funcargs[a] for a in pyfuncitem._fixtureinfo.argnames})
        for lab in getattr(pyfuncitem, 'labs', []):
            lab.finish()
    finally:
        signal.alarm(0)
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test shows its daemon's log and counters."""
    outcome = yield
    report = outcome.get_result()
    if call.when != 'call' or not report.failed:
        return
    for lab in getattr(item, 'labs', []):
        if not lab.daemon:
            continue
        if os.path.exists(lab.daemon.log_path):
            report.sections.append(('routerd log', lab.daemon.log()[-4000:]))
        if lab.daemon_up():
            for what in ('stats', 'drops', 'frames'):
                text = lab.daemon.ctl_raw(what)
                report.sections.append((f'routerctl {what}', text.stdout[-3000:] + text.stderr[-500:]))
