#!/usr/bin/env bash
# Tests lanesum on the GPUs of a machine without Rust: the programs beside this script are built by `cargo xtask gpu --pack`.
#
#   bash run.sh [--gpus N] [--no-mps] OUT [STEP...]     all steps, in order, when none is named
#
# Nothing is skipped: a machine without what a step needs fails it. Each step ends within its time, prints PASS or FAIL, and adds a
# line to OUT/summary.jsonl; OUT/info.json says what machine it was. A GPU's settings are never changed. Ranks that share a GPU take
# turns of milliseconds unless they are clients of MPS, so most steps run a daemon of their own, which ends with this script; killed
# processes and the memory checker want none.
set -uo pipefail
export LC_ALL=C

# Every step: its name, whether it runs under MPS, and its log. Few logs, since some machines give back few files.
STEPS='
info           plain  info
conformance    mps    conformance
graphs         mps    life
faults-mps     mps    faults
life           mps    life
soak           mps    life
verify-cycle   mps    cli
bench          mps    cli
selftest       mps    cli
launch-overhead mps   cli
doctor         mps    cli
kills          plain  faults
sanitizer      plain  sanitizer
'
# The most that is kept of a log.
LOG_BYTES=8000000

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

refuse() {
    echo "error: $1" >&2
    [ $# -lt 2 ] || echo "hint: $2" >&2
    exit 1
}

row_of() { awk -v name="$1" '$1 == name' <<<"$STEPS"; }

# ---- What is asked for, and what is there

gpus=1 use_mps=1
while [[ ${1-} == --* ]]; do
    case $1 in
        --gpus)
            [[ ${2-} =~ ^[1-9][0-9]?$ ]] || refuse "--gpus wants a number from 1"
            gpus=$2
            shift 2
            ;;
        --no-mps)
            use_mps=0
            shift
            ;;
        *) refuse "there is no option $1" "bash run.sh [--gpus N] [--no-mps] OUT [STEP...]" ;;
    esac
done
[ $# -ge 1 ] || refuse "no folder for the results was named" "bash run.sh [--gpus N] [--no-mps] OUT [STEP...]"
mkdir -p "$1" || exit 1
out=$(cd "$1" && pwd)
shift
# The machine is described in any case: no result is worth anything without it.
wanted=(info)
if [ $# -eq 0 ]; then
    mapfile -t wanted < <(awk 'NF { print $1 }' <<<"$STEPS")
fi
for name in "$@"; do
    [ -n "$(row_of "$name")" ] || refuse "there is no step $name" "the steps are: $(awk 'NF { printf "%s ", $1 }' <<<"$STEPS")"
    [ "$name" = info ] || wanted+=("$name")
done

command -v nvidia-smi >/dev/null || refuse "there is no nvidia-smi, so no NVIDIA GPU" "take this folder to a machine that has one"
listed=$(nvidia-smi --query-gpu=name --format=csv,noheader) || refuse "nvidia-smi finds no GPU: $listed"
present=$(grep -c . <<<"$listed")
[ "$present" -ge "$gpus" ] || refuse "$gpus GPUs are asked for, and there are $present"
# The loader's own search, as the library will make it; it complains about what it cannot find, and goes on.
missing=$(LD_PRELOAD=libcuda.so.1 /bin/true 2>&1)
[ -z "$missing" ] || refuse "the loader finds no libcuda.so.1" "add the driver's folder to LD_LIBRARY_PATH"
driver=$(LD_TRACE_LOADED_OBJECTS=1 LD_PRELOAD=libcuda.so.1 /bin/true | awk '$1 == "libcuda.so.1" { print $3 }')
if grep -q lanesumStandIn "$driver"; then
    refuse "$driver is the stand-in of lanesum's tests" "take its folder out of LD_LIBRARY_PATH"
fi

# Not every way here keeps the mode of a file.
chmod +x "$here"/cuda_* "$here"/lanesum 2>/dev/null

# What would lead the programs elsewhere.
unset LANESUM_STANDIN LANESUM_TEST_DRIVER_READY LANESUM_RENDEZVOUS LANESUM_DEADLINE_MS CUDA_VISIBLE_DEVICES
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
export LANESUM_TEST_DRIVER=real

scratch=$(mktemp -d) || exit 1
child='' mps_runs=0
trap 'leave' EXIT
trap 'exit 143' TERM INT HUP

leave() {
    [ -z "$child" ] || kill -TERM "$child" 2>/dev/null
    mps_off
    rm -rf "$scratch"
}

# ---- MPS

mps_on() {
    [ $mps_runs -eq 0 ] || return 0
    export CUDA_MPS_PIPE_DIRECTORY=$scratch/mps-pipe CUDA_MPS_LOG_DIRECTORY=$scratch/mps-log
    mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
    if ! nvidia-cuda-mps-control -d >>"$log" 2>&1 </dev/null; then
        say "nvidia-cuda-mps-control does not start"
        return 1
    fi
    mps_runs=1
    for _ in {1..20}; do
        mps_ask get_server_list >/dev/null && return 0
        sleep 0.5
    done
    say "nvidia-cuda-mps-control does not answer"
    return 1
}

mps_ask() { timeout 20 nvidia-cuda-mps-control <<<"$1" 2>/dev/null; }

# Ends only the daemon of this script, also one that does not listen any more.
mps_off() {
    if [ $mps_runs -eq 1 ]; then
        local servers daemon
        servers=$(mps_ask get_server_list | grep -E '^[0-9]+$')
        daemon=$(cat "$CUDA_MPS_PIPE_DIRECTORY"/*.pid 2>/dev/null | grep -E '^[0-9]+$')
        if ! mps_ask quit >/dev/null; then
            # shellcheck disable=SC2086
            kill -KILL $servers $daemon 2>/dev/null
        fi
        mps_runs=0
        cat "$CUDA_MPS_LOG_DIRECTORY"/*.log >>"$out/mps.log" 2>/dev/null
        rm -rf "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
    fi
    # An empty folder: a daemon that the machine has anyway is not used either.
    export CUDA_MPS_PIPE_DIRECTORY=$scratch/no-mps CUDA_MPS_LOG_DIRECTORY=$scratch/no-mps
    mkdir -p "$scratch/no-mps"
}

# ---- The parts of steps

say() {
    echo "    $1"
    echo "$1" >>"$log"
}

# Runs a command for at most so many seconds, with all that it starts.
bounded() {
    timeout --kill-after=10 "$@" &
    child=$!
    wait "$child"
    local code=$?
    child=''
    return $code
}

# A test binary with its filters. Its own last line is the count; none, or no test, is a failure.
tests() {
    local seconds=$1 program=$2 output=$scratch/output code ok bad
    shift 2
    if [ ! -x "$here/$program" ]; then
        say "the pack has no $program"
        failed=$((failed + 1))
        return
    fi
    echo "--- $program $*" >>"$log"
    bounded "$seconds" "$here/$program" "$@" >"$output" 2>&1
    code=$?
    cat "$output" >>"$log"
    read -r ok bad < <(sed -nE 's/^test result: [A-Za-z]+\. ([0-9]+) passed; ([0-9]+) failed.*/\1 \2/p' "$output" | tail -n 1)
    passed=$((passed + ${ok:-0})) failed=$((failed + ${bad:-0}))
    grep -E '^failed: ' "$output" | sed 's/^/    /'
    if [ -z "${ok-}" ]; then
        # No summary: it crashed, or was stopped at its time.
        say "$program ended with $code in: $(grep -E '^test ' "$output" | tail -n 1)"
        failed=$((failed + 1))
    elif [ $((ok + bad)) -eq 0 ] || { [ $code -ne 0 ] && [ "$bad" -eq 0 ]; }; then
        say "$program ended with $code, after $ok tests"
        failed=$((failed + 1))
    fi
}

# A run of the command line that must succeed with one JSON object, which is kept under a name.
json() { json_or 0 "$@"; }

# The same of one that may also end with this code.
json_or() {
    local also=$1 seconds=$2 name=$3 code value
    shift 3
    echo "--- lanesum $*" >>"$log"
    bounded "$seconds" "$here/lanesum" "$@" >"$scratch/stdout" 2>>"$log"
    code=$?
    cat "$scratch/stdout" >>"$log"
    value=$(tr -d '\n' <"$scratch/stdout")
    if { [ $code -ne 0 ] && [ $code -ne "$also" ]; } || [[ $value != '{'*'}' ]]; then
        say "lanesum $* ended with $code"
        failed=$((failed + 1))
        return
    fi
    if [[ $value =~ \"stand_in\":\ *true ]]; then
        say "lanesum $* ran on the stand-in driver"
        failed=$((failed + 1))
        return
    fi
    passed=$((passed + 1))
    results+="${results:+,}\"$name\":$value"
}

# A JSON string, or null for nothing.
quoted() {
    local text=${1//\\/\\\\}
    text=${text//\"/\\\"}
    if [ -n "$text" ]; then printf '"%s"' "${text//[$'\n\t\r']/ }"; else printf null; fi
}

sanitizer_path() {
    PATH=$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer command -v compute-sanitizer
}

# ---- The steps

step_info() {
    local names='' name driver
    while read -r name; do names+="${names:+,}$(quoted "$name")"; done <<<"$listed"
    driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)
    {
        printf '{"date":%s,"commit":%s,' "$(quoted "$(date --utc +%Y-%m-%d)")" "$(quoted "$(cat "$here/commit" 2>/dev/null)")"
        printf '"machine":{"cpu_model":%s,' "$(quoted "$(sed -nE 's/^model name\s*:\s*//p' /proc/cpuinfo | head -n 1)")"
        printf '"cores":%s,"kernel":%s,' "$(nproc)" "$(quoted "$(cat /proc/sys/kernel/osrelease)")"
        printf '"gpus":[%s],"driver":%s},' "$names" "$(quoted "$driver")"
        printf '"compute_mode":%s,' "$(quoted "$(nvidia-smi --query-gpu=compute_mode --format=csv,noheader | sort -u)")"
        printf '"mps":%s,' "$([ $use_mps -eq 1 ] && echo true || echo false)"
        printf '"mps_control":%s,"compute_sanitizer":%s,' \
            "$(quoted "$(command -v nvidia-cuda-mps-control)")" "$(quoted "$(sanitizer_path)")"
        printf '"locked_memory_kib":%s,"open_files":%s}\n' "$(quoted "$(ulimit -l)")" "$(quoted "$(ulimit -n)")"
    } >"$out/info.json"
    sed 's/^/    /' "$out/info.json"
    passed=1
}

step_conformance() {
    # Ranks that are threads of one process are only tested where each has a GPU: a driver call of one may wait for a kernel of another.
    if [ "$gpus" -ge 3 ]; then tests 480 cuda_conformance; else tests 480 cuda_conformance --skip threads_; fi
}

step_faults-mps() { tests 420 cuda_faults --skip kill_; }
step_graphs() { tests 420 cuda_graphs --skip kill_; }
step_kills() {
    tests 360 cuda_faults kill_
    tests 180 cuda_graphs kill_
}
step_life() { tests 480 cuda_life; }

# A million calls with each algorithm, and many more. Each run says how many calls it made, which the record keeps. A command on a lent
# machine may last ten minutes.
step_soak() {
    local line
    : >"$scratch/output"
    tests 570 cuda_soak
    while read -r line; do results+="${results:+,}$(quoted "$line")"; done < <(grep -oE '\[[^][]* calls, [^][]*\]' "$scratch/output")
    if [ -z "$results" ]; then
        say "cuda_soak does not say how many calls it made"
        failed=$((failed + 1))
    fi
    results="\"runs\":[$results]"
}

step_verify-cycle() {
    local ranks
    for ranks in 2 4 8; do
        json 90 "$ranks" verify-cycle --engine cuda --ranks "$ranks" --json
        json 90 "$ranks graph" verify-cycle --engine cuda --ranks "$ranks" --graph --json
        json 90 "$ranks graph host_staged" verify-cycle --engine cuda --ranks "$ranks" --path host_staged --graph --json
    done
}

# Without peers, which want a Python of their own: see docs/gpu-lane.md. Within a minute: the start of 14 processes, and 9 sizes of 2 s
# each; the bench itself does less where calls take so long that its own part would exceed a minute and a half. Lines come as they are
# measured: those of a bench that fails, or is stopped at its time, are kept too.
step_bench() {
    local code
    local words=(bench --engine cuda --ranks 2,4,8 --sizes 8KiB,43008,256KiB --peers none --json)
    echo "--- lanesum ${words[*]}" >>"$log"
    bounded 150 "$here/lanesum" "${words[@]}" >"$scratch/stdout" 2>>"$log"
    code=$?
    cat "$scratch/stdout" >>"$log"
    results="\"lines\":[$(grep -E '^\{.*\}$' "$scratch/stdout" | paste -sd , -)]"
    if [ $code -ne 0 ]; then
        say "lanesum bench ended with $code"
        failed=1
    elif ! grep -q '^{"kind":"row",' "$scratch/stdout"; then
        say "lanesum bench timed nothing"
        failed=1
    elif grep -qE '"stand_in": *true' "$scratch/stdout"; then
        say "lanesum bench ran on the stand-in driver"
        failed=1
    else
        passed=1
    fi
}

step_selftest() { json 180 selftest selftest --engine cuda --ranks 3 --json; }
step_launch-overhead() { json 90 launch bench-launch; }
# A rank a GPU; on one GPU two, which the doctor remarks, and ends with 1.
step_doctor() {
    if [ "$gpus" -ge 2 ]; then json 150 doctor doctor --engine cuda --ranks "$gpus" --json; else json_or 1 150 doctor doctor --engine cuda --ranks 2 --json; fi
}

step_sanitizer() {
    local checker summaries code
    checker=$(sanitizer_path)
    if [ -z "$checker" ]; then
        say "there is no compute-sanitizer"
        failed=1
        return
    fi
    # The library looks at what the driver returns by itself; here only accesses count.
    LANESUM_DEADLINE_MS=60000 bounded 180 "$checker" --tool memcheck --target-processes all --report-api-errors no --error-exitcode 99 \
        "$here/lanesum" verify-cycle --engine cuda --ranks 2 --layers 1 --hidden 512 --cycles 2 >"$scratch/output" 2>&1
    code=$?
    cat "$scratch/output" >>"$log"
    summaries=$(grep 'ERROR SUMMARY' "$scratch/output")
    if [ $code -ne 0 ] || [ -z "$summaries" ] || grep -vq 'ERROR SUMMARY: 0 errors' <<<"$summaries"; then
        say "compute-sanitizer ended with $code: ${summaries:-no summary}"
        failed=1
        return
    fi
    passed=1
}

# ---- The run

# Tenths of seconds are enough.
seconds_since() {
    local tenths=$(((${EPOCHREALTIME/[.,]/} - $1) / 100000))
    echo "$((tenths / 10)).$((tenths % 10))"
}

run_step() {
    local name=$1 mode started seconds verdict=FAIL ended=false
    read -r _ mode log <<<"$(row_of "$name")"
    log=$out/$log.log
    passed=0 failed=0 results=''
    started=${EPOCHREALTIME/[.,]/}
    echo "=== $name" >>"$log"
    if [ "$mode" = plain ] || [ $use_mps -eq 0 ]; then
        mps_off
        "step_$name"
    elif mps_on; then
        "step_$name"
    else
        failed=1
    fi
    seconds=$(seconds_since "$started")
    if [ $failed -eq 0 ] && [ $passed -gt 0 ]; then
        verdict=PASS ended=true
    else
        bad_steps=$((bad_steps + 1))
        # The next step gets a new daemon: this one may serve what is left of a broken process.
        mps_off
    fi
    echo "$verdict $name $seconds"
    echo "$verdict $name $seconds" >>"$log"
    printf '{"step":"%s","passed":%s,"seconds":%s,"tests":[%s,%s],"results":{%s}}\n' \
        "$name" $ended "$seconds" $passed $failed "$results" >>"$out/summary.jsonl"
    if [ "$(stat -c %s "$log")" -gt $LOG_BYTES ]; then
        tail -c $LOG_BYTES "$log" >"$scratch/log" && cat "$scratch/log" >"$log"
    fi
}

bad_steps=0
log=$out/info.log
mps_off
for name in "${wanted[@]}"; do run_step "$name"; done
rm -f "$out/info.log"
echo "${#wanted[@]} steps, $bad_steps failed"
[ $bad_steps -eq 0 ]
