#!/usr/bin/env bash
# What kubectl reads in its HOME: the cluster by the name of the gate's host. By http,
# which is for the way to the gate; from there it is https. No token: the gate adds it.
# A configuration that somebody else put there stays.
set -euo pipefail

config=$HOME/.kube/config
[[ ! -e $config ]] || exit 0
mkdir -p -- "$HOME/.kube"
cat >"$config" <<'END'
apiVersion: v1
kind: Config
current-context: cluster
clusters:
  - name: cluster
    cluster: { server: "http://kubernetes.default.svc" }
contexts:
  - name: cluster
    context: { cluster: cluster, user: nobody }
users:
  - name: nobody
    user: {}
END
