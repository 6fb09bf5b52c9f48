# shellcheck shell=sh
# For callers: waits until there is something in FILE. In some ways of a row nothing comes
# there: after 10 s it says so.
n=0
until [ -s "$1" ]; do
    n=$((n + 1))
    [ "$n" -le 200 ] || { echo "nothing in $1"; exit 1; }
    /bin/sleep 0.05
done
