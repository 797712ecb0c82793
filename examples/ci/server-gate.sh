#!/usr/bin/env bash
# Runs an evaluation, reports it to a dokimos server, and fails where it is worse than the newest run of the main branch.
# For any CI system. Needs dokimos, and these variables:
#   DOKIMOS_SERVER_URL, DOKIMOS_PROJECT_NAME   where to report
#   DOKIMOS_API_KEY                            a key that may write, where the server wants one
#   TARGET                                     what to run, such as evals.py
#   BASELINE_BRANCH                            main unless given
set -euo pipefail

report_dir=${REPORT_DIR:-out}
dokimos spool replay || true # what an earlier job could not send, where the folder was kept
dokimos run "$TARGET" -o "$report_dir/run.json"
# An item that the server has not got would be missing from the comparison: send what is missing.
dokimos push "$report_dir/run.json"
dokimos gate "$report_dir/run.json" --branch "${BASELINE_BRANCH:-main}" -o "$report_dir/verdict.md" --server
