#!/bin/sh
# @describe How long this machine has been running, in seconds.
cut -d. -f1 /proc/uptime
