#!/usr/bin/env bash
# A wrapper for kubectl: one namespace, and only looking. Copy it to
# RESTRICTED_DIR/kubectl.sh and set the namespace. The rules on the wire hold as well,
# and the account of the token should allow no more than this.
set -euo pipefail

namespace=agent

refuse() {
    echo "kubectl: refused: $1" >&2
    exit 126
}

for word in "$@"; do
    case "$word" in
        -n | -n?* | --namespace | --namespace=* | -A | --all-namespaces | --all-namespaces=*)
            refuse "the namespace is $namespace: leave $word out"
            ;;
        --kubeconfig* | --server* | -s | -s?* | --token* | --user* | --as* | --context* | --cluster*)
            refuse "which cluster and as whom is set: leave ${word%%=*} out"
            ;;
        --raw*) refuse "an address of the cluster's is any namespace: leave --raw out" ;;
        # Of one letter: those whose value may follow at once, and those that stand alone.
        # -Aoyaml would be -A, and -wn the beginning of -n.
        -o* | -l* | -L* | -c* | -v* | -w | -f | -p | -R | -h) ;;
        -[!-]*) refuse "write $word as one option each, in long form" ;;
    esac
done

case "${1-}" in
    get | describe | logs | top | explain | api-resources | version) ;;
    # auth reconcile changes who may do what.
    auth) case "${2-}" in can-i | whoami) ;; *) refuse "of auth only can-i and whoami are for you here" ;; esac ;;
    *) refuse "only get, describe, logs, top, explain, api-resources, version and auth are for you here" ;;
esac
exec "$TOOL_BINARY" "--namespace=$namespace" "$@"
