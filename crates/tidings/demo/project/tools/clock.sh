#!/bin/sh
# @describe The time, in seconds since 1970.
date +%s
