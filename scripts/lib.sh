# shellcheck shell=bash
# What the scripts share. Source it; it changes to the root of the repository.

cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH="$PATH:/usr/local/go/bin" # where Go's own archive puts it
export PATH

die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# tool NAME ARGS... runs a tool of tools/go.mod. Tools have a module of their own, so
# that they neither pull on nor are pulled by what the program stands on.
tool() {
	go tool -modfile=tools/go.mod "$@"
}

# postgres_bin prints the folder of a complete PostgreSQL server, the newest first.
postgres_bin() {
	local dir initdb
	initdb="$(command -v initdb || true)"
	for dir in "${initdb:+$(dirname "$(readlink -f "$initdb")")}" \
		$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -t/ -k5 -rn); do
		if [ -x "$dir/initdb" ] && [ -x "$dir/postgres" ] && [ -x "$dir/pg_isready" ]; then
			echo "$dir"
			return 0
		fi
	done
	return 1
}

# python_bin prints a Python that is new enough for the SDK and can make environments.
python_bin() {
	local one
	for one in python3 /usr/bin/python3 python3.14 python3.13 python3.12 python3.11; do
		if "$one" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
			echo "$one"
			return 0
		fi
	done
	return 1
}

# cache_dir is where what is fetched for tests and checks is kept.
cache_dir() {
	echo "${XDG_CACHE_HOME:-${HOME:?set HOME or XDG_CACHE_HOME}/.cache}/plimsoll"
}

# node_fits says whether the Node.js on PATH is one that the linter of the TypeScript SDK runs on.
node_fits() {
	command -v npm >/dev/null && command node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' 2>/dev/null
}

# use_node puts a Node.js that fits on PATH: the machine's own, or the one that scripts/setup fetched.
use_node() {
	node_fits && return 0
	PATH="$(cache_dir)/node/bin:$PATH"
	node_fits || die "no Node.js 20.19 or later with npm. Run scripts/setup, or install it from https://nodejs.org and put it on PATH."
}

# kernel_dir is where the kernel of test machines lies unpacked. internal/microvm looks there, too.
kernel_dir() {
	echo "${PLIMSOLL_TEST_KERNEL:-${XDG_CACHE_HOME:-${HOME:?set HOME, or PLIMSOLL_TEST_KERNEL}/.cache}/plimsoll/kernel}"
}

# step NAME COMMAND... runs one step, says every half minute that it still does, and
# how long it took.
step() {
	local name="$1" started=$SECONDS ticker status=0
	shift
	printf '== %s\n' "$name"
	(
		trap 'kill "$nap" 2>/dev/null; exit 0' TERM
		while kill -0 $$ 2>/dev/null; do
			sleep 30 >/dev/null 2>&1 &
			nap=$!
			wait "$nap"
			printf '   ... %s: %d s\n' "$name" $((SECONDS - started)) >&2
		done
	) &
	ticker=$!
	"$@" || status=$?
	kill "$ticker" 2>/dev/null || true
	wait "$ticker" 2>/dev/null || true
	if [ "$status" -eq 0 ]; then
		printf '   ok: %s, %d s\n' "$name" $((SECONDS - started))
	else
		printf '   FAILED: %s, %d s, status %d\n' "$name" $((SECONDS - started)) "$status"
	fi
	return "$status"
}
