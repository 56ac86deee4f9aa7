#!/usr/bin/env bash
# Starts a task, waits for it, reads its output, and gives it a second prompt that is stopped.
# Needs CONCIERGE_URL and CONCIERGE_API_KEY.
set -euo pipefail

call() {
  curl --silent --show-error --fail-with-body --retry 3 \
    -H "authorization: Bearer $CONCIERGE_API_KEY" -H "content-type: application/json" "$@"
}

# With an idempotency key a repeated request starts nothing new.
started=$(call "$CONCIERGE_URL/v1/tasks" -H "idempotency-key: example-$$-$RANDOM" \
  -d '{"prompt": "echo hello from the sandbox", "agent": "shell", "sessionKey": "curl-example"}')
id=$(sed -E 's/^\{"id":"([^"]*)".*/\1/' <<<"$started")
echo "started $id"

# One request waits up to 25 seconds. Repeat it until the turn has ended.
status() { sed -E 's/^\{"id":"[^"]*","status":"([^"]*)".*/\1/'; }
until [[ $(call "$CONCIERGE_URL/v1/tasks/$id?waitMs=25000" | status) =~ ^(succeeded|failed|stopped|timed_out)$ ]]; do :; done

call "$CONCIERGE_URL/v1/tasks/$id/output"

call "$CONCIERGE_URL/v1/tasks/$id/continue" -d '{"prompt": "sleep 600"}' >/dev/null
echo "stop: $(call -X POST "$CONCIERGE_URL/v1/tasks/$id/stop" | status)"
