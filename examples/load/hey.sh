#!/bin/sh
# 20 requests a second: -q counts for each of the 20 workers.
exec hey -z 30s -c 20 -q 1 "${1:-http://127.0.0.1:8080/}"
