#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Removes namespaces, processes and scratch directories that lab runs which are dead left behind."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import netns  # noqa: E402

for what in netns.clean_left_overs():
    print('removed', what)
