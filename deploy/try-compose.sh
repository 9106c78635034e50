#!/bin/bash
# Tries docker-compose.yml for real on one Debian machine, as root, with no image registry.
#
# Installs Docker from Debian's packages if it is missing, starts a daemon of its own if none runs,
# makes a base image from Debian packages, builds the image, starts the stack with CPU workers,
# submits the demo's job to it, checks the result and the isolation, and takes everything down.
#
#   deploy/try-compose.sh            all of it; leaves nothing behind but the packages
#   deploy/try-compose.sh --keep     keeps the daemon's folder, so that the next try is faster
set -euo pipefail
cd "$(dirname "$0")/.."

PORT=${PORT:-8000}
LONGER=${LONGER:-}  # steps of the job that is disturbed; as many as take a minute where left out
FOLDER=${FOLDER:-/var/tmp/halocline-try}
RELEASE=${RELEASE:-bookworm}
BASE=halocline-base:$RELEASE
KEEP=; [ "${1:-}" != --keep ] || KEEP=yes
CERTIFICATES=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}

export COMPOSE_PROJECT_NAME=halocline-try HALOCLINE_TAG=try HALOCLINE_BIND=127.0.0.1:$PORT
export HALOCLINE_PUBLIC_URL=http://127.0.0.1:$PORT

step() { printf '[%4ds] %s\n' "$SECONDS" "$*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }

install_packages() {
    local missing=()
    command -v dockerd >/dev/null || missing+=(docker.io)
    command -v docker-compose >/dev/null || missing+=(docker-compose)
    command -v debootstrap >/dev/null || missing+=(debootstrap)
    command -v iptables >/dev/null || missing+=(iptables)
    [ ${#missing[@]} != 0 ] || return 0
    step "Installing ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        "${missing[@]}" >/dev/null 2>&1 || fail "apt-get could not install ${missing[*]}."
}

# Debian's client builds with BuildKit by itself; a newer one elsewhere may want a plugin for it.
docker() { if [ -x /usr/bin/docker ]; then /usr/bin/docker "$@"; else command docker "$@"; fi; }

start_daemon() {
    mkdir -p "$FOLDER"
    if docker info >/dev/null 2>&1; then
        step "Using the Docker daemon that runs"
        return
    fi
    export DOCKER_HOST=unix://$FOLDER/docker.sock
    iptables-save >"$FOLDER/iptables"
    FORWARD=$(cat /proc/sys/net/ipv4/ip_forward)
    # vfs needs nothing of the file system; it copies each layer, so the Dockerfile has few.
    dockerd --storage-driver=vfs --data-root "$FOLDER/data" --exec-root "$FOLDER/exec" \
        --pidfile "$FOLDER/dockerd.pid" -H "$DOCKER_HOST" >"$FOLDER/dockerd.log" 2>&1 </dev/null &
    DAEMON=$!
    for _ in $(seq 60); do
        if docker info >/dev/null 2>&1; then
            step "Started a Docker daemon"
            return
        fi
        sleep 1
    done
    tail -n 20 "$FOLDER/dockerd.log" >&2
    fail "dockerd did not start."
}

stop_daemon() {
    [ -n "${DAEMON:-}" ] || return 0
    kill "$DAEMON" 2>/dev/null || true
    wait "$DAEMON" 2>/dev/null || true
    ip link delete docker0 2>/dev/null || true
    iptables-restore <"$FOLDER/iptables"
    echo "$FORWARD" >/proc/sys/net/ipv4/ip_forward
}

clean_up() {
    local code=$?
    trap - EXIT
    if [ "$code" != 0 ] && [ -n "${UP:-}" ]; then
        docker-compose --profile cpu ps || true
        docker-compose --profile cpu logs --tail 40 || true
    fi
    [ -z "${UP:-}" ] || docker-compose --profile cpu down -v --remove-orphans >/dev/null 2>&1 || true
    [ -z "${OUTPUT:-}" ] || rm -rf "$OUTPUT"
    rm -rf "$FOLDER/secrets" "$FOLDER/rootfs"
    if [ -z "$KEEP" ]; then docker rmi -f halocline:try "$BASE" >/dev/null 2>&1 || true; fi
    stop_daemon
    [ -n "$KEEP" ] || rm -rf "$FOLDER"
    [ "$code" != 0 ] || step "Taken down"
    exit "$code"
}

make_base() {
    if docker image inspect "$BASE" >/dev/null 2>&1; then return; fi
    step "Making the base image from Debian $RELEASE"
    rm -rf "$FOLDER/rootfs"
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates \
        "$RELEASE" "$FOLDER/rootfs" >"$FOLDER/debootstrap.log" 2>&1 ||
        { tail -n 20 "$FOLDER/debootstrap.log" >&2; fail "debootstrap could not make a system."; }
    rm -rf "$FOLDER"/rootfs/var/cache/apt/archives/*.deb "$FOLDER"/rootfs/var/lib/apt/lists/*
    tar -C "$FOLDER/rootfs" -c . | docker import - "$BASE" >/dev/null
    rm -rf "$FOLDER/rootfs"
}

# The machine's own package index and certificates reach the build as secrets, never as a layer.
write_secrets() {
    (umask 077 && mkdir -p "$FOLDER/secrets")
    local name value variable
    {
        echo '[global]'
        for name in index-url extra-index-url trusted-host proxy; do
            variable=PIP_$(tr a-z- A-Z_ <<<"$name")
            value=${!variable:-$(python3 -m pip config get "global.$name" 2>/dev/null || true)}
            # Folders of this machine do not exist in the build.
            value=$(tr ' ' '\n' <<<"$value" | grep -v '^file:' | tr '\n' ' ' || true)
            [ -z "${value// /}" ] || echo "$name = $value"
        done
    } >"$FOLDER/secrets/pip.conf"
    cp "$CERTIFICATES" "$FOLDER/secrets/ca.crt"
}

build() {
    step "Building the image"
    write_secrets
    DOCKER_BUILDKIT=1 docker build --progress=plain --network=host --target cpu \
        --build-arg BASE="$BASE" \
        --secret id=pip,src="$FOLDER/secrets/pip.conf" --secret id=ca,src="$FOLDER/secrets/ca.crt" \
        --tag halocline:try --file deploy/Dockerfile . >"$FOLDER/build.log" 2>&1 ||
        { tail -n 30 "$FOLDER/build.log" >&2; fail "The image could not be built."; }
    step "Built halocline:try, $(docker image inspect -f '{{.Size}}' halocline:try | awk '{printf "%.0f MB", $1 / 1e6}')"
}

container() { docker-compose --profile cpu ps -q "$1"; }

wait_healthy() {
    local service state
    for service in scheduler api worker-cpu dispatcher; do
        for _ in $(seq 90); do
            state=$(docker inspect -f '{{if .State.Health}}{{.State.Health.Status}}{{else}}{{.State.Status}}{{end}}' \
                "$(container $service)" 2>/dev/null || true)
            case $state in healthy | running) break ;; esac
            sleep 2
        done
        case $state in healthy | running) step "$service is $state" ;; *) fail "$service is '$state'." ;; esac
    done
}

# reaches SERVICE HOST PORT: whether a container of SERVICE can open a connection.
reaches() {
    docker exec "$(container "$1")" python -c \
        "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).close()" \
        "$2" "$3" 2>/dev/null
}

check_isolation() {
    local service outside
    for service in scheduler worker-cpu dispatcher; do
        [ -z "$(docker port "$(container $service)")" ] || fail "'$service' publishes a port."
    done
    if (exec 3<>/dev/tcp/127.0.0.1/8786) 2>/dev/null; then fail "The scheduler answers on this machine."; fi
    reaches worker-cpu scheduler 8786 || fail "The worker does not reach its scheduler."
    if reaches api scheduler 8786; then fail "The API reaches the scheduler."; fi
    # Any address outside will do; the one that Debian's packages came from is known to answer.
    outside=$(apt-get indextargets --format '$(SITE)' 2>/dev/null | sed -n 's#^[a-z]*://\([^/:]*\).*#\1#p' | head -n 1)
    outside=$(getent ahostsv4 "${outside:-none}" | awk 'NR == 1 {print $1}' || true)
    if [ -n "$outside" ]; then
        reaches api "$outside" 80 || step "(the API has no way out either: nothing to compare with)"
        if reaches worker-cpu "$outside" 80; then fail "The worker reaches '$outside'."; fi
    fi
    if docker exec "$(container api)" sh -c 'ls /var/lib/halocline-tls/*' >/dev/null 2>&1; then
        fail "The API has the certificate of the cluster."
    fi
    for service in api scheduler dispatcher worker-cpu; do
        docker exec "$(container $service)" sh -c '[ "$(id -u)" = 10001 ] && ! touch /opt/halocline/x 2>/dev/null' ||
            fail "'$service' is root, or can change its own program."
    done
    step "Scheduler and workers publish no port, have no way out, and nothing runs as root"
}

# How far the running job is, in per cent; 0 where none runs.
progress() {
    python3 -c "
import json, sys, urllib.request
request = urllib.request.Request(sys.argv[1] + '/jobs?status=running', headers={'Authorization': 'Bearer ' + sys.argv[2]})
print(max((job.get('progress') or 0 for job in json.load(urllib.request.urlopen(request))['jobs']), default=0))
" "$HALOCLINE_PUBLIC_URL" "$HALOCLINE_KEY"
}

# Ends the worker without warning, and starts the API anew, while a job runs.
disturb() {
    local before reached=0
    before=$(docker inspect -f '{{.RestartCount}}' "$(container worker-cpu)")
    for _ in $(seq 500); do
        reached=$(progress)
        [ "$reached" -lt 5 ] || break
        sleep 0.2
    done
    docker exec "$(container worker-cpu)" python -c "import os; os.kill(-1, 9)" >/dev/null 2>&1 || true
    step "Killed the worker; the job was at $reached % before"
    [ "$(progress)" -gt 0 ] || fail "The job was over before the worker was killed: set LONGER."
    sleep 4
    docker-compose restart api >/dev/null 2>&1
    step "Started the API anew"
    [ "$(docker inspect -f '{{.RestartCount}}' "$(container worker-cpu)")" -gt "$before" ] ||
        fail "The worker was not started again."
}

[ "$(id -u)" = 0 ] || fail "Run this as root."
trap clean_up EXIT
install_packages
start_daemon
make_base
build

step "Starting the stack"
UP=yes
docker-compose --profile cpu up -d --no-build >"$FOLDER/up.log" 2>&1 || { cat "$FOLDER/up.log" >&2; fail "up"; }
wait_healthy
check_isolation

KEY=$(docker-compose --profile cpu exec -T api halocline-server key create --owner try | tr -d '\r')
export HALOCLINE_KEY=$KEY
code=$(python3 -c "
import sys, urllib.error, urllib.request
try: print(urllib.request.urlopen(sys.argv[1]).status)
except urllib.error.HTTPError as error: print(error.code)
" "$HALOCLINE_PUBLIC_URL/jobs")
[ "$code" = 401 ] || fail "The API answered $code to a request without a key."

make --silent .venv/.stamp-demo
OUTPUT=$(mktemp -d)
step "Submitting the demo's job"
BEGUN=$(date +%s%N)
.venv/bin/python demo/run.py --url "$HALOCLINE_PUBLIC_URL" --output "$OUTPUT"
TOOK=$((($(date +%s%N) - BEGUN) / 1000000 + 1))
# It has 500 steps, and what is disturbed must still run when the worker is killed, however fast it is.
LONGER=${LONGER:-$((500 * 60000 / TOOK > 2000 ? 500 * 60000 / TOOK : 2000))}
.venv/bin/python deploy/check-demo.py "$OUTPUT/result.zarr"
step "The stack's result has the same bits as a run in one process"

step "Submitting a longer one of $LONGER steps, and disturbing it"
.venv/bin/python demo/run.py --url "$HALOCLINE_PUBLIC_URL" --output "$OUTPUT" --steps "$LONGER" &
DEMO=$!
disturb
wait "$DEMO" || fail "The demo did not survive."
.venv/bin/python deploy/check-demo.py "$OUTPUT/result.zarr" "$LONGER"
step "The disturbed result has the same bits"
