#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the tables of docs/benchmarks.md on a machine with one NVIDIA GPU, as root, within a bounded time.
#
# usage: bench/h200.sh [STEP…]
#   smoke     a minute of everything, with the C programs: do this first
#   a         a best-effort trainer under `rubato run` beside an inference program
#   b         `rubato renice` on a running trainer that was started plain, and back
#   c         as (a), with everything run by an ordinary user
#   policies  three trainers and an inference program: with classes, and under policies in eBPF without them
#   d         the preloaded library's overhead on a launch loop
#   collapse  two best-effort programs at once, with a daemon and without
#   mps       the same programs under MPS, for comparison
#   crowd     1, 3 and 8 trainers, half of them attached, beside an inference program under `rubato run`; then weights
#   revive    daemon and hand are killed together under load: requests before, and from 3 s later on
#   launchbound  eager requests beside a launch-bound program: 200 tiny kernels, then a wait, and so on
#   copy      a program that copies 256 MiB blocks both ways beside requests that copy their input
#   copies    two such programs: the same, and what they do together by default and under Rubato
#   orion     two clients of one process: kernels in C, and two PyTorch models
#   gaps      a program that generates token by token beside ResNet-50 training, begin and end inferred and told
# default: a b c d collapse (some 12 minutes with PyTorch; TOTAL_S must allow for it)
#
# Environment: BUILD (./build), OUT (./bench-out), TOTAL_S (570), REQUESTS (2000 a cell), ROUNDS (5), ROUNDS_D (15), RATE (requests
# per second), PROGRAMS (auto, c, torch), MODES_A (graph,eager), BATCH_A and BATCH_B (1), FLAGS_A (more options of colocate for step
# a), FLAGS_LAUNCHBOUND (the same; --slices also measures without any reserve), LIMIT_A, LIMIT_B… (seconds), BLOCK_MIB (256: of
# copy and copies), MODES_CROWD (graph,eager), BATCH_CROWD (32), WEIGHTS (1,2,4), BENCH_USER (nobody).
# Writes $OUT/STEP.json, $OUT/log.txt and $OUT/report.md; the report also goes to standard output.
set -u
here=$(cd "$(dirname "$0")" && pwd)
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 2
OUT=${OUT:-bench-out}
mkdir -p "$OUT" && OUT=$(cd "$OUT" && pwd) || exit 2
deadline=$((SECONDS + ${TOTAL_S:-570}))
programs=${PROGRAMS:-auto}
report=$OUT/report.md
log=$OUT/log.txt
: >"$report"
: >"$log"

say() {
	printf '%s\n' "$*" | tee -a "$report"
}

# A script that was killed leaves daemons in sessions of their own: they know their runtime directory.
end_stragglers() {
	for dir in "$stage"/tmp/rubato-bench-*; do
		if [ -d "$dir" ]; then
			PYTHONPATH=$stage/bench PYTHONDONTWRITEBYTECODE=1 timeout -s KILL 10 python3 -c \
				'import sys, benchlib; benchlib.end_processes_of(sys.argv[1])' "$dir"
		fi
	done
}

# An ordinary user may not be able to read the build directory: all steps run from a copy that everyone can.
stage=$(mktemp -d /tmp/rubato-h200.XXXXXX) || exit 1
trap 'end_stragglers; rm -rf "$stage"' EXIT
mkdir -p "$stage/build/bench" "$stage/bench" "$stage/tmp"
find "$BUILD" -maxdepth 1 -type f \( -perm -u+x -o -name '*.so*' \) -exec cp -t "$stage/build" {} +
for program in latency besteffort launch shim_overhead orion_pair; do
	cp "$BUILD/bench/$program" "$stage/build/bench/" || exit 2
done
cp -rL "$BUILD/standin" "$stage/build/" || exit 2
mkdir -p "$stage/build/policies"
find "$BUILD/policies" -maxdepth 1 -name '*.bpf.o' -exec cp -t "$stage/build/policies" {} +
cp "$here"/*.py "$here"/{colocate,collapse,overhead,revive} "$stage/bench/"
cp -r "$here/../python" "$stage/python"
chmod -R a+rX "$stage"
chmod 1777 "$stage/tmp"
export BUILD=$stage/build TMPDIR=$stage/tmp PYTHONUNBUFFERED=1
bench=$stage/bench

# step NAME LIMIT_S COMMAND…: never past the deadline; killed with all it started when it takes too long.
step() {
	local name=$1 limit=$2 begin=$SECONDS left=$((deadline - SECONDS)) status
	shift 2
	if [ "$left" -lt 25 ]; then
		say ""
		say "- step $name left out: no time left"
		return
	fi
	limit=$((limit < left - 5 ? limit : left - 5))
	say ""
	case $1 in
	*/colocate) set -- "$@" --time-limit $((limit > 45 ? limit - 20 : limit / 2)) ;;
	esac
	timeout -s KILL "$limit" "$@" 2>>"$log" | tee -a "$report"
	status=${PIPESTATUS[0]}
	if [ "$status" -ne 0 ]; then
		say "- **step $name: exit status $status after $((SECONDS - begin)) of $limit s**; last words:"
		tail -n 5 "$log" | sed 's/^/      /' | tee -a "$report"
		end_stragglers
	else
		say "- step $name: $((SECONDS - begin)) s"
	fi
}

colocate() {
	local name=$1 limit=$2
	shift 2
	step "$name" "$limit" "$bench/colocate" --programs "$programs" --requests "${REQUESTS:-2000}" \
		--rounds "${ROUNDS:-5}" ${RATE:+--rate "$RATE"} --json "$OUT/$name.json" "$@"
}

targets=(--target-p99 1.2 --target-rate 0.95)

# copying NAME LIMIT_S N_COPIERS OPTION…
copying() {
	local name=$1 limit=$2 n=$3
	shift 3
	REQUESTS=${REQUESTS:-1000} ROUNDS=${ROUNDS:-4} colocate "$name" "$limit" --modes graph --train copy \
		--block-mib "${BLOCK_MIB:-256}" --copy-input \
		--trainers "$n" --trainer-run --latency-run --own-seconds 2 "$@"
}

run_step() {
	case $1 in
	smoke)
		step smoke 45 "$bench/colocate" --programs c --requests 120 --rounds 2 --own-seconds 1 \
			--title "smoke: reniced" "${targets[@]}" --target-renice-ms 100
		step smoke-user 30 "$bench/colocate" --programs c --requests 60 --rounds 1 --own-seconds 1 \
			--modes graph --trainer-run --user "${BENCH_USER:-nobody}" --title "smoke: as a user"
		step smoke-overhead 30 "$bench/overhead" --rounds 2 --ms 100
		step smoke-collapse 45 "$bench/collapse" --programs c --rounds 1 --seconds 1.5
		;;
	a)
		colocate a "${LIMIT_A:-340}" ${FLAGS_A:-} --modes "${MODES_A:-graph,eager}" --batch "${BATCH_A:-1}" --trainer-run "${targets[@]}" \
			--title '(a) a best-effort neighbour under rubato run'
		;;
	b)
		colocate b "${LIMIT_B:-280}" --modes graph --batch "${BATCH_B:-1}" "${targets[@]}" --target-renice-ms 100 \
			--title '(b) rubato renice on a running neighbour'
		;;
	c)
		colocate c 200 --modes graph --skip-default --trainer-run --user "${BENCH_USER:-nobody}" "${targets[@]}" \
			--title '(c) all of it as an ordinary user'
		;;
	crowd)
		colocate crowd "${LIMIT_CROWD:-560}" --modes "${MODES_CROWD:-graph,eager}" --batch "${BATCH_CROWD:-32}" \
			--skip-default --latency-run --trainers 8 --trainer-run 4 --crowds 1,3,8 --own-seconds 3 \
			--weights "${WEIGHTS-1,2,4}" --weigh-seconds 30 \
			--target-p50 1.1 --target-p99 1.12 --target-left 0.97 --target-jain 0.98 --target-weights 0.05 \
			--target-daemon 0.02 \
			--title '1, 3 and 8 trainers beside an inference program'
		;;
	revive)
		step revive "${LIMIT_REVIVE:-170}" "$bench/revive" --programs "$programs" --rounds "${ROUNDS_REVIVE:-3}" --json "$OUT/revive.json"
		;;
	launchbound)
		RATE=${RATE:-30} REQUESTS=${REQUESTS:-960} ROUNDS=${ROUNDS:-3} colocate launchbound "${LIMIT_LAUNCHBOUND:-165}" \
			--modes eager --train tiny --latency-run --trainer-run --own-seconds 2 ${FLAGS_LAUNCHBOUND:-} \
			--target-left 0.9 --target-p99-default 1 --target-daemon 0.02 \
			--title 'eager requests beside a launch-bound program'
		;;
	copy)
		copying copy "${LIMIT_COPY:-170}" 1 --target-p99 1.1 --target-rate 0.95 \
			--title 'a program that copies both ways beside requests that copy their input'
		;;
	copies)
		copying copies "${LIMIT_COPIES:-200}" 2 --together 3 --target-together 0.95 \
			--title 'two programs that copy both ways'
		;;
	gaps)
		RATE=20 colocate gaps "${LIMIT_GAPS:-560}" --modes gaps --train resnet50 --skip-default --hints --latency-run \
			--trainer-run --own-seconds 4 --target-p99 1.05 --target-left 0.97 --target-daemon 0.02 \
			--title 'requests with gaps beside ResNet-50 training'
		;;
	orion)
		# shellcheck disable=SC2016 # expanded by the inner shell
		step orion-pair "${LIMIT_ORION_PAIR:-140}" bash -c 'set -o pipefail; "$1/bench/orion_pair" "$1/libgpu_scheduler.so" \
			--requests "$2" --rounds "$3" | tee "$4" | python3 "$5/orion_pair_table.py"' pair "$BUILD" \
			"${REQUESTS_PAIR:-400}" "${ROUNDS_PAIR:-3}" "$OUT/orion_pair.json" "$bench"
		step orion-torch "${LIMIT_ORION_TORCH:-400}" python3 "$bench/orion_torch.py" --library "$BUILD/libgpu_scheduler.so" \
			--requests "${REQUESTS:-150}" --rounds "${ROUNDS:-3}" --json "$OUT/orion_torch.json" ${FLAGS_ORION:-}
		for how in off ''; do
			RUBATO_ORION_OTHERS=1 step "orion-models $how" 60 python3 "$bench/orion_models.py" \
				"$BUILD/libgpu_scheduler.so" "${SECONDS_MODELS:-8}" $how
		done
		;;
	policies)
		RATE=${RATE:-40} colocate policies "${LIMIT_POLICIES:-400}" --modes graph --batch 32 --trainers 3 --trainer-run \
			--latency-run --own-seconds 2 --policies "${POLICIES:-lc_be,adaptive,adaptive:by=bursts,adaptive:by=duty}" \
			--target-p99-rubato 1.1 --title 'classes, and policies in eBPF'
		;;
	d)
		step d "${LIMIT_D:-90}" "$bench/overhead" --rounds "${ROUNDS_D:-15}" --json "$OUT/d.json"
		;;
	collapse)
		local kinds=$programs
		if [ "$kinds" = auto ]; then
			kinds=auto,c
		fi
		step collapse 220 "$bench/collapse" --programs "$kinds" --seconds 3 --json "$OUT/collapse.json"
		;;
	mps)
		if command -v nvidia-cuda-mps-control >/dev/null; then
			REQUESTS=600 ROUNDS=3 colocate mps 90 --mps --modes graph --title 'under MPS'
		else
			say ""
			say "- step mps left out: no nvidia-cuda-mps-control here"
		fi
		;;
	esac
}

steps=("$@")
if [ $# -eq 0 ]; then
	steps=(a b c d collapse)
fi
for name in "${steps[@]}"; do
	case $name in
	smoke | a | b | c | d | collapse | mps | crowd | gaps | copy | copies | launchbound | revive | policies | orion) ;;
	*)
		echo "h200.sh: $name: no such step" >&2
		exit 2
		;;
	esac
done
say "## Measured $(date -u '+%Y-%m-%d %H:%M UTC')"
say ""
say "- $(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>>"$log" || echo 'no nvidia-smi')"
say "- $(nvidia-smi 2>>"$log" | grep -m 1 -o 'NVIDIA-SMI.*CUDA Version: [0-9.]*' || echo 'driver line unknown'); kernel $(uname -r)"
for name in "${steps[@]}"; do
	run_step "$name"
done
say ""
say "Total: $SECONDS s."
