# shellcheck shell=bash
# An editor: asks for a line on the terminal and puts it first into the file.
printf 'message: ' >/dev/tty
read -r line </dev/tty
printf '%s\n' "$line" | cat - "$1" >"$1.new"
cat "$1.new" >"$1"
rm "$1.new"
