# shellcheck shell=bash
# Sourced by scripts/check and scripts/test: one line per step with its time, the output only when it failed.

export LC_ALL=C.UTF-8 # a decimal point in times, whatever the user's language

failed_steps=()
idle_steps=()
steps_run=0

# step NAME COMMAND...: runs the command quietly; on failure shows what it said and goes on.
# A command that could not do its work on this machine returns 77: the step is then named as not run, never passed over.
step() {
  local name=$1 started=$EPOCHREALTIME out status=0
  shift
  out=$("$@" 2>&1) || status=$?
  steps_run=$((steps_run + 1))
  if [ "$status" -eq 0 ]; then
    printf 'ok    %-14s %5.1fs  %s\n' "$name" "$(elapsed "$started")" "$(tail -n 1 <<<"$out" | cut -c1-120)"
  elif [ "$status" -eq 77 ]; then
    idle_steps+=("$name")
    printf '%s: NOT RUN: %s\n' "$name" "$out"
  else
    failed_steps+=("$name")
    printf 'FAIL  %-14s %5.1fs\n' "$name" "$(elapsed "$started")"
    printf '      %s\n' "${out//$'\n'/$'\n'      }"
  fi
}

# elapsed STARTED: seconds since then, with a decimal.
elapsed() {
  local now=$EPOCHREALTIME
  local us=$((${now/[.,]/} - ${1/[.,]/}))
  printf '%d.%d' $((us / 1000000)) $((us / 100000 % 10))
}
